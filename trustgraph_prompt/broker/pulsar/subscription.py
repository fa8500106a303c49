"""Our part in one subscription: a consumer on each partition of each of its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from pulsar.asyncio import Client

from trustgraph_prompt.broker.closing import each, farewell
from trustgraph_prompt.broker.protocol import SubscriptionType
from trustgraph_prompt.broker.pulsar.partition_consumer import PartitionConsumer
from trustgraph_prompt.broker.pulsar.partitions import check_partitions, partitions_of


class Subscription:
    """Taken in order: of two who want to be alone in a subscription, the second fails at the first place."""

    def __init__(self, client: Client, topics: Sequence[str]) -> None:
        self._client = client
        self._topics = topics
        self._taken: list[PartitionConsumer] = []

    @classmethod
    async def take(
        cls, client: Client, topics: Sequence[str], name: str, type: SubscriptionType, queue: int
    ) -> Subscription:
        """Subscribe to each topic, with room for `queue` messages in each place."""
        joined = cls(client, topics)
        try:
            for topic in topics:
                for partition in await partitions_of(client, topic):
                    place = await PartitionConsumer.take(client, topic, partition, name, type, queue)
                    joined._taken.append(place)
        except BaseException:
            await farewell(joined.leave())
            raise
        return joined

    def __iter__(self) -> Iterator[PartitionConsumer]:
        return iter(self._taken)

    async def check(self) -> None:
        """See that the broker knows every place, and that there is one for each partition."""
        await asyncio.gather(*(place.check() for place in self._taken))
        await check_partitions(self._client, self._topics, (place.partition for place in self._taken))

    async def leave(self) -> None:
        """The first place last, because it is where others come in."""
        await each([place.close for place in reversed(self._taken)])
