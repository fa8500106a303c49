"""Joins a subscription: one client consumer for each partition of each of its topics.

The client's own consumers of several topics or partitions cannot ask the broker whether it still knows them.
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
from trustgraph_prompt.broker.pulsar.errors import is_forgotten, translated, translating
from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, has_failed, run_all, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable


async def partitions_of(client: Client, topic: str) -> list[str]:
    """Return the partitions of a topic, or the topic itself if it has none."""
    with translating(topic):
        return list(await client.get_topic_partitions(topic))


async def check_partitions(client: Client, topics: Iterable[str], known: Iterable[str]) -> None:
    """Raise `BrokerClosed` if a topic has got partitions since it was opened."""
    now = [name for topic in topics for name in await partitions_of(client, topic)]
    if new := set(now).difference(known):
        raise BrokerClosed(f"{', '.join(sorted(new))}: new partitions, which have no consumer yet")


#: Seconds that a disconnected client may take to report that it has given up.
DISCONNECTED_SECONDS: Final = 0.1
#: How often to subscribe if the broker forgets the consumer at once, and the pause in seconds.
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.1
#: Seconds between exclusive subscriptions (see `_check_subscription`); what they detect is rare.
_SECONDS_BETWEEN_PROBES: Final = 10.0

_TYPES: Final[dict[SubscriptionType, pulsar.ConsumerType]] = {
    "shared": pulsar.ConsumerType.Shared,
    "exclusive": pulsar.ConsumerType.Exclusive,
}


class PartitionConsumer:
    """A client consumer of one partition."""

    def __init__(
        self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, partition: str, name: str
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._client = client
        self._consumer = consumer
        self._name = name
        self._checking: asyncio.Task[None] | None = None
        self._next_probe = 0.0

    @classmethod
    async def subscribe(
        cls, client: Client, topic: str, partition: str, name: str, type: SubscriptionType, queue: int
    ) -> Self:
        """Subscribe with room for `queue` messages. A new subscription starts at the earliest message."""
        for attempt in range(1, _ATTEMPTS + 1):
            consumer = await _subscribe(client, partition, name, _TYPES[type], queue)
            joined = cls(client, consumer, topic, partition, name)
            try:
                await joined.check()
                if type == "shared" and not topics.is_persistent(topic):
                    # If the last consumer left just now, the broker may still remove the subscription.
                    await asyncio.sleep(_PAUSE_SECONDS)
                    joined._next_probe = 0.0
                    await joined.check()
            except BrokerClosed:
                await joined.close()
                await asyncio.sleep(attempt * _PAUSE_SECONDS)
            except BaseException:
                await wait_for_close(joined.close())
                raise
            else:
                return joined
        raise BrokerUnavailable(
            f"{partition}: subscribed as {name} {_ATTEMPTS} times, but the broker knows of no such consumer"
        )

    async def receive(self) -> Receipt:
        """Receive a message. Must not be cancelled. Raises the client's errors."""
        return Receipt(self, await self._consumer.receive())

    async def acknowledge(self, received: pulsar.Message) -> None:
        with translating(self.partition):
            await self._consumer.acknowledge(received)

    async def check(self) -> None:
        """Ask the broker whether it knows the consumer. Raises `BrokerClosed` if not, or `BrokerUnavailable`.

        A client that is connected proves nothing. One that is not is unavailable, unless it has given up for
        good.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._ask(), name=f"check of {self.partition}")
            self._checking.add_done_callback(has_failed)
        # Not cancelled on a timeout: it may be subscribing, and that consumer could not be closed any more.
        seconds = CHECK_SECONDS if self._consumer._consumer.is_connected() else DISCONNECTED_SECONDS
        answered, _ = await asyncio.wait({self._checking}, timeout=seconds)
        if not answered:
            raise BrokerUnavailable(f"{self.partition}: no answer in {seconds:g} s")
        self._checking.result()

    async def close(self) -> None:
        with suppress(PulsarException):
            await self._consumer.close()
        if self._checking:
            await asyncio.wait({self._checking}, timeout=GRACE_SECONDS)

    async def _ask(self) -> None:
        try:
            await self._consumer.get_last_message_id()
        except PulsarException as error:
            if is_forgotten(error):
                raise self._gone() from error
            # A non-persistent topic has no last message; this answer proves that the broker knows the
            # consumer.
            if topics.is_persistent(self.topic) or error.error().name != "UnknownError":
                raise translated(error.error(), self.partition, str(error)) from error
            if (now := monotonic()) >= self._next_probe:
                await self._check_subscription()
                self._next_probe = now + _SECONDS_BETWEEN_PROBES

    async def _check_subscription(self) -> None:
        """Check that messages go to our subscription, by subscribing exclusively, which must fail.

        A broker removes a non-persistent subscription a moment after its last consumer has left. A consumer
        that subscribes in that moment belongs to a subscription without a topic and never receives a message.
        """
        try:
            exclusive = await self._client.subscribe(
                self.partition, self._name, pulsar.ConsumerType.Exclusive
            )
        except PulsarException as error:
            if error.error().name != "ConsumerBusy":
                raise translated(error.error(), self.partition, str(error)) from error
        else:
            with suppress(PulsarException):
                await exclusive.close()
            raise self._gone()

    def _gone(self) -> BrokerClosed:
        return BrokerClosed(
            f"{self.partition}: the broker knows of no such consumer in {self._name} any more"
        )


class Receipt(NamedTuple):
    """A received message, and the consumer that must acknowledge it."""

    consumer: PartitionConsumer
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
    """Consumers of all partitions, opened in order: a second exclusive one fails at the first partition."""

    def __init__(self, client: Client, topics: Sequence[str]) -> None:
        self._client = client
        self._topics = topics
        self._consumers: list[PartitionConsumer] = []

    @classmethod
    async def join(
        cls, client: Client, topics: Sequence[str], name: str, type: SubscriptionType, queue: int
    ) -> Subscription:
        """Subscribe to each topic, with room for `queue` messages in each partition."""
        joined = cls(client, topics)
        try:
            for topic in topics:
                for partition in await partitions_of(client, topic):
                    consumer = await PartitionConsumer.subscribe(client, topic, partition, name, type, queue)
                    joined._consumers.append(consumer)
        except BaseException:
            await wait_for_close(joined.leave())
            raise
        return joined

    def __iter__(self) -> Iterator[PartitionConsumer]:
        return iter(self._consumers)

    async def check(self) -> None:
        """Check that the broker knows every consumer, and that each partition has one."""
        await asyncio.gather(*(consumer.check() for consumer in self._consumers))
        await check_partitions(
            self._client, self._topics, (consumer.partition for consumer in self._consumers)
        )

    async def leave(self) -> None:
        """Close all consumers, the first one last, as others subscribe in order."""
        await run_all([consumer.close for consumer in reversed(self._consumers)])
