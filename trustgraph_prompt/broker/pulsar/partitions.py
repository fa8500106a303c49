"""What a topic consists of."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar.asyncio import Client

from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.errors import BrokerClosed


async def partitions_of(client: Client, topic: str) -> list[str]:
    """The partitions of a topic: itself, where it is not partitioned."""
    with translating(topic):
        return list(await client.get_topic_partitions(topic))


async def check_partitions(client: Client, topics: Iterable[str], known: Iterable[str]) -> None:
    """Raise `BrokerClosed` where a topic has got partitions since it was opened."""
    now = [name for topic in topics for name in await partitions_of(client, topic)]
    if new := set(now).difference(known):
        raise BrokerClosed(f"nobody is at {', '.join(sorted(new))}: the topic was partitioned since")
