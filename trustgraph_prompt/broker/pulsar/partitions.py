"""What a topic consists of."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar.asyncio import Client

from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.errors import BrokerClosed


async def partitions_of(client: Client, topics: Iterable[str]) -> list[str]:
    """The partitions of each topic: itself, where it is not partitioned."""
    names: list[str] = []
    for topic in topics:
        with translating(topic):
            names += await client.get_topic_partitions(topic)
    return names


async def check_partitions(client: Client, topics: Iterable[str], known: Iterable[str]) -> None:
    """Raise `BrokerClosed` where a topic has got partitions since it was opened."""
    if new := set(await partitions_of(client, topics)).difference(known):
        raise BrokerClosed(f"nobody is at {', '.join(sorted(new))}: the topic was partitioned since")
