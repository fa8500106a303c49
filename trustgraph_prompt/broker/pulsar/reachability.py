"""Whether anybody listens where a Pulsar URL points."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

from trustgraph_prompt.broker.urls import address
from trustgraph_prompt.errors import BrokerUnavailable

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


async def check_reachable(url: str) -> None:
    """Returns when one of the URL's hosts lets us connect. Raises `BrokerUnavailable` when all refuse.

    The client would go on trying a host that refuses, and say nothing for half a minute.
    """
    place = address(url)
    scheme, _, hosts = place.partition("://")
    refusals = []
    for host in hosts.split(","):
        at = urlsplit(f"//{host}")
        try:
            _, writer = await asyncio.open_connection(at.hostname, at.port or _PORTS[scheme])
        except OSError as error:
            number = error.errno or 0
            refusals.append(os.strerror(number) if number > 0 else str(error))
        else:
            writer.close()
            return
    raise BrokerUnavailable(f"{place}: {'; '.join(refusals)}")
