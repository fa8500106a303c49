"""Consumers, producers and readers of Pulsar.

A pending `receive` of the client must never be cancelled (the message it was for would be held, unseen,
until the consumer closes), so each lives in a task of its own, and we wait beside it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import envelope, topics
from trustgraph_prompt.broker.protocol import Message, SubscriptionType
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.errors import BrokerClosed, BrokerError, SubscriptionBusy

#: What the client keeps unconfirmed; one more would be refused, so senders wait.
_PENDING: Final = 1000
#: Nothing new for so long: the client has handed over what it had taken in.
_QUIET_SECONDS: Final = 0.01
#: How long a receive may take to end after its consumer was closed; it is milliseconds where all is well.
_GRACE_SECONDS: Final = 2.0

_TYPES: Final[dict[SubscriptionType, pulsar.ConsumerType]] = {
    "shared": pulsar.ConsumerType.Shared,
    "exclusive": pulsar.ConsumerType.Exclusive,
}


class PulsarProducer:
    """Publishes on one topic."""

    def __init__(self, producer: pulsar.asyncio.Producer, topic: str) -> None:
        self.topic = topic
        self._producer = producer
        self._pending = asyncio.Semaphore(_PENDING)
        self._closed = False

    @classmethod
    async def open(cls, client: Client, topic: str, *, batch: bool = False) -> PulsarProducer:
        with translating(topic):
            producer = await client.create_producer(
                topic, batching_enabled=batch, max_pending_messages=_PENDING
            )
        return cls(producer, topic)

    async def send(
        self,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_after: float | None = None,
    ) -> str:
        carried = dict(properties or {})
        envelope.check_size(self.topic, data, key, carried)
        delay = timedelta(seconds=deliver_after) if deliver_after and deliver_after > 0 else None
        async with self._pending:
            if self._closed:
                raise BrokerClosed(f"the producer of {self.topic} has been closed")
            with translating(self.topic):
                number = await self._producer.send(
                    data, properties=carried, partition_key=key, deliver_after=delay
                )
        return _id(number)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            with suppress(PulsarException):
                await self._producer.flush()
                await self._producer.close()


class _Consumer(ABC):
    """What consumers of both kinds of topic share: letters, and where they are from."""

    def __init__(self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, name: str) -> None:
        self.topic = topic
        self.subscription = name
        self._client = client
        self._consumer = consumer
        self._letters: dict[str, PulsarProducer] = {}
        self._closed = False

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        self._check_open()
        letter = envelope.dead_letter(self, message, reason, properties)
        if letter.topic not in self._letters:
            await self._retain(letter.topic)
        await self._post(letter)
        await self.acknowledge(message)

    @abstractmethod
    async def acknowledge(self, message: Message) -> None: ...

    async def close(self) -> None:
        self._closed = True
        for producer in self._letters.values():
            await producer.close()

    async def _post(self, letter: envelope.Letter, after: float | None = None) -> None:
        producer = self._letters.get(letter.topic)
        if producer is None:
            producer = self._letters[letter.topic] = await PulsarProducer.open(self._client, letter.topic)
        await producer.send(letter.data, key=letter.key, properties=letter.properties, deliver_after=after)

    async def _retain(self, topic: str) -> None:
        """Without a subscription the broker would drop dead letters before anybody looked."""
        with suppress(SubscriptionBusy), translating(topic):
            keeper = await self._client.subscribe(
                topic,
                topics.DEAD_LETTER_SUBSCRIPTION,
                consumer_type=pulsar.ConsumerType.Shared,
                receiver_queue_size=1,
                initial_position=pulsar.InitialPosition.Earliest,
            )
            await keeper.close()

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the consumer of {self.topic} has been closed")


class PersistentConsumer(_Consumer):
    """Reads the topic and the subscription's retry topic, with as little as possible ahead."""

    def __init__(self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, name: str) -> None:
        super().__init__(client, consumer, topic, name)
        self._next = _Next(consumer.receive, topic)

    @classmethod
    async def open(cls, client: Client, topic: str, name: str, type: SubscriptionType) -> PersistentConsumer:
        with translating(topic):
            consumer = await client.subscribe(
                [topic, topics.retry_topic(topic, name)],
                name,
                consumer_type=_TYPES[type],
                receiver_queue_size=1,
                initial_position=pulsar.InitialPosition.Earliest,
            )
        return cls(client, consumer, topic, name)

    async def receive(self) -> Message | None:
        received = await self._next.get()
        return envelope.opened(_message(received)) if received else None

    async def acknowledge(self, message: Message) -> None:
        self._check_open()
        with translating(self.topic):
            await self._consumer.acknowledge(_receipt(message))

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        self._check_open()
        await self._post(envelope.retry_letter(self, message, after, properties), after)
        await self.acknowledge(message)

    async def stop(self) -> None:
        """What the client has taken in and nobody has received goes to others when this closes."""
        self._next.end()

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        self._next.end()
        with suppress(PulsarException):
            await self._consumer.close()
        await self._next.settle()


class VolatileConsumer(_Consumer):
    """Of a non-persistent topic: a task takes in eagerly, because the broker drops what finds no room."""

    def __init__(
        self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, name: str, buffer: int
    ) -> None:
        super().__init__(client, consumer, topic, name)
        self._size = self._limit = buffer
        self._buffer: deque[pulsar.Message] = deque()
        self._taken = 0
        self._stopped = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._pump = asyncio.create_task(self._take_in(), name=f"pump of {topic}")

    @classmethod
    async def open(
        cls, client: Client, topic: str, name: str, type: SubscriptionType, buffer: int
    ) -> VolatileConsumer:
        with translating(topic):
            consumer = await client.subscribe(
                topic, name, consumer_type=_TYPES[type], receiver_queue_size=buffer
            )
        return cls(client, consumer, topic, name, buffer)

    async def receive(self) -> Message | None:
        while not self._buffer:
            if self._closed:
                return None
            if self._pump.done():
                with translating(self.topic):
                    self._pump.result()
                return None
            self._news.clear()
            await self._news.wait()
        self._room.set()
        return _message(self._buffer.popleft())

    async def acknowledge(self, message: Message) -> None:
        self._check_open()

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        topics.retry_topic(self.topic, self.subscription)

    async def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            await self._empty_client()
            with suppress(PulsarException):
                await self._consumer.close()
            await asyncio.wait({self._pump}, timeout=_GRACE_SECONDS)

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        await self.stop()
        self._buffer.clear()
        self._news.set()

    async def _take_in(self) -> None:
        try:
            while True:
                self._buffer.append(await self._consumer.receive())
                self._taken += 1
                self._news.set()
                while len(self._buffer) >= self._limit:
                    self._room.clear()
                    await self._room.wait()
        except PulsarException:
            if not self._stopped:
                raise
        finally:
            self._news.set()

    async def _empty_client(self) -> None:
        """Take over what the client holds already; not for ever, more may be coming all the time."""
        held = self._taken + self._size
        self._limit += self._size + 1
        self._room.set()
        before = -1
        while before < self._taken < held:
            before = self._taken
            await asyncio.sleep(_QUIET_SECONDS)


class PulsarReader:
    """Follows a persistent topic; from the earliest on, it reads what compaction has left."""

    def __init__(self, reader: pulsar.asyncio.Reader, topic: str) -> None:
        self._topic = topic
        self._reader = reader
        self._next = _Next(reader.read_next, topic)
        self._closed = False

    @classmethod
    async def open(cls, client: Client, topic: str, *, earliest: bool) -> PulsarReader:
        start = pulsar.MessageId.earliest if earliest else pulsar.MessageId.latest
        with translating(topic):
            return cls(await client.create_reader(topic, start, is_read_compacted=earliest), topic)

    async def receive(self) -> Message | None:
        received = await self._next.get()
        return envelope.opened(_message(received)) if received else None

    async def behind(self) -> bool:
        with translating(self._topic):
            return self._next.arrived or await self._reader.has_message_available()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._next.end()
        with suppress(PulsarException):
            await self._reader.close()
        await self._next.settle()


class _Next:
    """The one pending receive of a consumer or reader, waited for beside the order to end."""

    def __init__(self, receive: Callable[[], Awaitable[pulsar.Message]], where: str) -> None:
        self._receive = receive
        self._where = where
        self._pending: asyncio.Future[pulsar.Message] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def arrived(self) -> bool:
        """Whether a message is here that nobody has been given."""
        return self._pending is not None and self._pending.done()

    async def get(self) -> pulsar.Message | None:
        if not self._over.done():
            self._pending = self._pending or asyncio.ensure_future(self._receive())
            first: set[asyncio.Future[Any]] = {self._pending, self._over}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            return None
        received, self._pending = self._pending, None
        with translating(self._where):
            return received.result() if received else None

    def end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    async def settle(self) -> None:
        """The consumer is closed: see the pending receive end."""
        if self._pending is not None:
            await asyncio.wait({self._pending}, timeout=_GRACE_SECONDS)
            if self._pending.done():
                self._pending.exception()


def _message(received: pulsar.Message) -> Message:
    topic = received.topic_name()
    return Message(
        data=received.data(),
        topic=topic,
        # On a non-persistent topic every message has the same id.
        id=_id(received.message_id()) if topics.is_persistent(topic) else uuid4().hex,
        properties=received.properties(),
        key=received.partition_key() or None,
        published=received.publish_timestamp() / 1000,
        receipt=received,
    )


def _receipt(message: Message) -> pulsar.Message:
    if not isinstance(message.receipt, pulsar.Message):
        raise BrokerError(f"message {message.id} was not received from this broker")
    return message.receipt


def _id(number: pulsar.MessageId) -> str:
    return f"{number.ledger_id()}:{number.entry_id()}:{number.partition()}:{number.batch_index()}"
