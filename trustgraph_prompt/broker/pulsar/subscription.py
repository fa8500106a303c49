"""A worker's part in a subscription: one consumer on each partition of each of its topics.

The client's consumers of several topics, and of partitioned ones, cannot be asked anything of the broker;
so a consumer of ours is as many of these as it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, Self

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.protocol import CHECK_SECONDS, SubscriptionType
from trustgraph_prompt.broker.pulsar.errors import forgotten, translated, translating
from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, has_failed, run_all, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable


async def partitions_of(client: Client, topic: str) -> list[str]:
    """The partitions of a topic: itself, where it is not partitioned."""
    with translating(topic):
        return list(await client.get_topic_partitions(topic))


async def check_partitions(client: Client, topics: Iterable[str], known: Iterable[str]) -> None:
    """Raise `BrokerClosed` where a topic has got partitions since it was opened."""
    now = [name for topic in topics for name in await partitions_of(client, topic)]
    if new := set(now).difference(known):
        raise BrokerClosed(f"nobody is at {', '.join(sorted(new))}: the topic was partitioned since")


#: How long the client may take to say that it has given up, where it is not connected.
DISCONNECTED_SECONDS: Final = 0.1
#: How often to subscribe anew where the broker has forgotten the place at once, and the pause before.
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.1
#: How often to ask for a subscription alone: what it finds out happens where somebody comes in, and rarely.
_SECONDS_BETWEEN_PROBES: Final = 10.0

_TYPES: Final[dict[SubscriptionType, pulsar.ConsumerType]] = {
    "shared": pulsar.ConsumerType.Shared,
    "exclusive": pulsar.ConsumerType.Exclusive,
}


class PartitionConsumer:
    """One consumer of the client's."""

    def __init__(
        self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, partition: str, name: str
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._client = client
        self._consumer = consumer
        self._name = name
        self._question: asyncio.Task[None] | None = None
        self._next_probe = 0.0

    @classmethod
    async def take(
        cls, client: Client, topic: str, partition: str, name: str, type: SubscriptionType, queue: int
    ) -> Self:
        """Subscribe, with room for `queue` messages; from the earliest one where the subscription is new."""
        for attempt in range(1, _ATTEMPTS + 1):
            consumer = await _subscribe(client, partition, name, _TYPES[type], queue)
            place = cls(client, consumer, topic, partition, name)
            try:
                await place.check()
                if type == "shared" and not topics.is_persistent(topic):
                    # Who was here before may have left just now: see that his leaving did not take us along.
                    await asyncio.sleep(_PAUSE_SECONDS)
                    place._next_probe = 0.0
                    await place.check()
            except BrokerClosed:
                await place.close()
                await asyncio.sleep(attempt * _PAUSE_SECONDS)
            except BaseException:
                await wait_for_close(place.close())
                raise
            else:
                return place
        raise BrokerUnavailable(f"{partition}: the broker forgets whoever subscribes as {name}")

    async def receive(self) -> Receipt:
        """Never to be cancelled; raises the client's errors."""
        return Receipt(self, await self._consumer.receive())

    async def acknowledge(self, received: pulsar.Message) -> None:
        with translating(self.partition):
            await self._consumer.acknowledge(received)

    async def check(self) -> None:
        """Ask the broker. Raises `BrokerClosed` where it knows nothing of this place, `BrokerUnavailable`.

        Being connected proves nothing; not being so does, at once, unless the client has given up for good.
        """
        if self._question is None or self._question.done():
            self._question = asyncio.create_task(self._ask(), name=f"check of {self.partition}")
            self._question.add_done_callback(has_failed)
        # Never cancelled: it subscribes, and what is half subscribed could no longer be closed.
        seconds = CHECK_SECONDS if self._consumer._consumer.is_connected() else DISCONNECTED_SECONDS
        answered, _ = await asyncio.wait({self._question}, timeout=seconds)
        if not answered:
            raise BrokerUnavailable(f"{self.partition}: no answer in {seconds:g} s")
        self._question.result()

    async def close(self) -> None:
        with suppress(PulsarException):
            await self._consumer.close()
        if self._question:
            await asyncio.wait({self._question}, timeout=GRACE_SECONDS)

    async def _ask(self) -> None:
        try:
            await self._consumer.get_last_message_id()
        except PulsarException as error:
            if forgotten(error):
                raise self._gone() from error
            # A topic that keeps nothing has no last message, and who is told so is known.
            if topics.is_persistent(self.topic) or error.error().name != "UnknownError":
                raise translated(error.error(), self.partition, str(error)) from error
            if (now := monotonic()) >= self._next_probe:
                await self._check_subscription()
                self._next_probe = now + _SECONDS_BETWEEN_PROBES

    async def _check_subscription(self) -> None:
        """See that our subscription is the one which messages go to.

        A broker takes a non-persistent subscription down a moment after its last consumer has left, also
        when somebody has come in meanwhile: he is then in a subscription of no topic, and hears nothing for
        ever. Who asks for the subscription alone must be told that it is taken.
        """
        try:
            alone = await self._client.subscribe(self.partition, self._name, pulsar.ConsumerType.Exclusive)
        except PulsarException as error:
            if error.error().name != "ConsumerBusy":
                raise translated(error.error(), self.partition, str(error)) from error
        else:
            with suppress(PulsarException):
                await alone.close()
            raise self._gone()

    def _gone(self) -> BrokerClosed:
        return BrokerClosed(
            f"{self.partition}: the broker knows of no such consumer in {self._name} any more"
        )


class Receipt(NamedTuple):
    """What was received, and where it must be acknowledged."""

    place: PartitionConsumer
    received: pulsar.Message


async def _subscribe(
    client: Client, topic: str, name: str, type: pulsar.ConsumerType, queue: int
) -> pulsar.asyncio.Consumer:
    with translating(topic):
        return await client.subscribe(
            topic,
            name,
            type,
            receiver_queue_size=queue,
            initial_position=pulsar.InitialPosition.Earliest,
        )


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
            await wait_for_close(joined.leave())
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
        await run_all([place.close for place in reversed(self._taken)])
