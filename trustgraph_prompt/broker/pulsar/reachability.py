"""Whether anybody listens where a Pulsar URL points."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from trustgraph_prompt.broker.closing import ended_badly
from trustgraph_prompt.broker.urls import address, pulsar_hosts
from trustgraph_prompt.errors import BrokerUnavailable

E = TypeVar("E", bound=Exception)


async def check_reachable(url: str) -> None:
    """Returns when one of the URL's hosts lets us connect. Raises `BrokerUnavailable` when all refuse.

    The client would go on trying a host that refuses, and say nothing for half a minute.
    """
    refusals = await failures(OSError, (_knock(host, port) for host, port in pulsar_hosts(url)))
    if refusals:
        raise BrokerUnavailable(f"{address(url)}: {'; '.join(map(refusal, refusals))}")


async def failures(expected: type[E], attempts: Iterable[Coroutine[Any, Any, None]]) -> list[E]:
    """What all of these attempts, made at once, failed with; nothing, as soon as one has succeeded."""
    tasks = [asyncio.create_task(attempt) for attempt in attempts]
    errors = []
    try:
        for ended in asyncio.as_completed(tasks):
            try:
                await ended
            except expected as error:
                errors.append(error)
            else:
                return []
    finally:
        for task in tasks:
            task.add_done_callback(ended_badly)
            task.cancel()
    return errors


async def _knock(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


def refusal(error: OSError) -> str:
    """What the system says, without the call that heard it."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error)
