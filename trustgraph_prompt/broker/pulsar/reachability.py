"""Whether anybody listens where a Pulsar URL points."""

from __future__ import annotations

import asyncio
import os

from trustgraph_prompt.broker.urls import address, pulsar_hosts
from trustgraph_prompt.errors import BrokerUnavailable


async def check_reachable(url: str) -> None:
    """Returns when one of the URL's hosts lets us connect. Raises `BrokerUnavailable` when all refuse.

    The client would go on trying a host that refuses, and say nothing for half a minute.
    """
    knocks = [asyncio.create_task(_knock(host, port)) for host, port in pulsar_hosts(url)]
    refusals = []
    try:
        for knock in asyncio.as_completed(knocks):
            try:
                await knock
            except OSError as error:
                refusals.append(refusal(error))
            else:
                return
    finally:
        for task in knocks:
            task.cancel()
    raise BrokerUnavailable(f"{address(url)}: {'; '.join(refusals)}")


async def _knock(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


def refusal(error: OSError) -> str:
    """What the system says, without the call that heard it."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error)
