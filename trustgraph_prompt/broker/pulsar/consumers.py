"""Consumers of Pulsar: of persistent topics, which keep, and of non-persistent ones, which do not."""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import envelope, topics
from trustgraph_prompt.broker.closing import Ending, each
from trustgraph_prompt.broker.protocol import Message, SubscriptionType
from trustgraph_prompt.broker.pulsar.errors import translated, translating
from trustgraph_prompt.broker.pulsar.letters import LetterBox
from trustgraph_prompt.broker.pulsar.messages import bare_message_of, message_of, receipt_of
from trustgraph_prompt.broker.pulsar.pending import GRACE_SECONDS, PendingReceive
from trustgraph_prompt.errors import BrokerClosed, BrokerError, SubscriptionBusy

#: How many receives are under way at once while a consumer stops.
_RECEIVES: Final = 16
#: How long what is on its way from the broker to a consumer that stops may take to arrive.
_ARRIVAL_SECONDS: Final = 0.25

#: Two who come at once can each take one of the two topics of an exclusive subscription: both are refused.
_ATTEMPTS: Final = 4
_LONGEST_PAUSE_SECONDS: Final = 0.4

_TYPES: Final[dict[SubscriptionType, pulsar.ConsumerType]] = {
    "shared": pulsar.ConsumerType.Shared,
    "exclusive": pulsar.ConsumerType.Exclusive,
}

log = logging.getLogger(__name__)


class _Consumer(ABC):
    """What consumers of both kinds of topic share: dead letters, where they are from, and an end."""

    def __init__(self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, name: str) -> None:
        self.topic = topic
        self.subscription = name
        self._consumer = consumer
        self._letters = LetterBox(client)
        self._closed = False
        self._ending = Ending(self._end)

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        self._check_open()
        await self._letters.post(envelope.dead_letter(self, message, reason, properties), retained=True)
        await self.acknowledge(message)

    @abstractmethod
    async def acknowledge(self, message: Message) -> None: ...

    async def close(self) -> None:
        self._closed = True
        await self._ending.reach()

    @abstractmethod
    async def _end(self) -> None: ...

    async def _read(self, received: pulsar.Message) -> Message | None:
        """The message; None where it cannot be read, and then it is out of the way."""
        try:
            return message_of(received)
        except UnicodeDecodeError as error:
            await self._set_aside(bare_message_of(received), f"key or properties are no text: {error}")
            return None

    async def _set_aside(self, message: Message, reason: str) -> None:
        try:
            await self.bury(message, reason)
        except BrokerError as failure:
            log.error("%s: message %s is lost: %s; %s", self.topic, message.id, reason, failure)
            with suppress(BrokerError):
                await self.acknowledge(message)

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the consumer of {self.topic} has been closed")


class PersistentConsumer(_Consumer):
    """Reads the topic and the subscription's retry topic, with as little as possible ahead."""

    def __init__(self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, name: str) -> None:
        super().__init__(client, consumer, topic, name)
        self._next = PendingReceive(consumer.receive, topic)

    @classmethod
    async def open(cls, client: Client, topic: str, name: str, type: SubscriptionType) -> PersistentConsumer:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await cls._open(client, topic, name, type)
            except SubscriptionBusy:
                await asyncio.sleep(random.uniform(0.0, _LONGEST_PAUSE_SECONDS))
        return await cls._open(client, topic, name, type)

    @classmethod
    async def _open(cls, client: Client, topic: str, name: str, type: SubscriptionType) -> PersistentConsumer:
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
        while received := await self._next.get():
            if message := await self._read(received):
                return envelope.opened(message)
        return None

    async def acknowledge(self, message: Message) -> None:
        self._check_open()
        with translating(self.topic):
            await self._consumer.acknowledge(receipt_of(message))

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        self._check_open()
        await self._letters.post(envelope.retry_letter(self, message, after, properties), after)
        await self.acknowledge(message)

    async def stop(self) -> None:
        """What the client has taken in and nobody has received goes to others when this closes."""
        self._next.end()

    async def _end(self) -> None:
        await self.stop()
        await each([self._letters.close, self._leave])

    async def _leave(self) -> None:
        with suppress(PulsarException):
            await self._consumer.close()
        await self._next.settle()


class VolatileConsumer(_Consumer):
    """Of a non-persistent topic: a task takes in eagerly, because the broker drops what finds no room."""

    def __init__(
        self, client: Client, consumer: pulsar.asyncio.Consumer, topic: str, name: str, buffer: int
    ) -> None:
        super().__init__(client, consumer, topic, name)
        self._size = buffer
        self._buffer: deque[pulsar.Message] = deque()
        self._taken = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: BrokerError | None = None
        self._stopped = False
        self._over = False
        self._stopping = Ending(self._leave)
        self._pump = asyncio.create_task(self._take_in(), name=f"pump of {topic}")

    @classmethod
    async def open(
        cls, client: Client, topic: str, name: str, type: SubscriptionType, buffer: int
    ) -> VolatileConsumer:
        with translating(topic):
            consumer = await client.subscribe(
                topic, name, consumer_type=_TYPES[type], receiver_queue_size=buffer
            )
        # Subscribing ends before the broker knows that there is room here, and until then it drops what
        # comes. It handles the next request on the consumer's own connection after that; the answer, that no
        # such topic has a last message, does not matter.
        with suppress(PulsarException):
            await consumer.get_last_message_id()
        return cls(client, consumer, topic, name, buffer)

    async def receive(self) -> Message | None:
        while True:
            while not self._buffer:
                if self._over:
                    return None
                if self._failure:
                    raise self._failure
                self._news.clear()
                await self._news.wait()
            self._room.set()
            if message := await self._read(self._buffer.popleft()):
                return message

    async def acknowledge(self, message: Message) -> None:
        self._check_open()

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        topics.retry_topic(self.topic, self.subscription)

    async def stop(self) -> None:
        await self._stopping.reach()

    async def _end(self) -> None:
        await each([self._letters.close, self.stop])
        self._buffer.clear()

    async def _take_in(self) -> None:
        try:
            while not self._stopped:
                await self._take()
                while len(self._buffer) >= self._size and not self._stopped:
                    self._room.clear()
                    await self._room.wait()
        except PulsarException as error:
            if not self._stopped:
                self._failure = translated(error.error(), self.topic, str(error))
                self._news.set()

    async def _take(self) -> None:
        self._buffer.append(await self._consumer.receive())
        self._taken += 1
        self._news.set()

    async def _leave(self) -> None:
        """Take over what the client holds already, then leave the subscription."""
        self._stopped = True
        self._room.set()
        places = iter(range(self._size))
        receives = [asyncio.create_task(self._fill(places)) for _ in range(min(self._size, _RECEIVES))]
        if not self._closed:
            await self._emptied()
        with suppress(PulsarException):
            await self._consumer.close()
        _, left = await asyncio.wait({self._pump, *receives}, timeout=GRACE_SECONDS)
        for task in left:
            task.cancel()
        self._over = True
        self._news.set()

    async def _fill(self, places: Iterator[int]) -> None:
        with suppress(PulsarException):
            for _ in places:
                await self._take()

    async def _emptied(self) -> None:
        """Until the client holds nothing any more, or as much as it can have held has been taken over.

        The client answers at once where it can. So whoever waited for two turns of the loop (a sleep is no
        less, however long the turns are) found it empty, and each of the others has taken one by then.
        """
        enough = self._taken + self._size
        before = -_RECEIVES
        while self._taken < enough and self._taken - before >= _RECEIVES and not self._closed:
            before = self._taken
            await asyncio.sleep(_ARRIVAL_SECONDS)
