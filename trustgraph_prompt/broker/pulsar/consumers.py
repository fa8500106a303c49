"""Consumers of persistent and non-persistent Pulsar topics."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Final

from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import retry_and_dead_letters, topics
from trustgraph_prompt.broker.protocol import MAX_BUFFERED, Message, SubscriptionType
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.messages import message_of, receipt_of
from trustgraph_prompt.broker.pulsar.pending_receives import PendingReceives
from trustgraph_prompt.broker.pulsar.producer import LetterProducer
from trustgraph_prompt.broker.pulsar.subscription import PartitionConsumer, Receipt, Subscription
from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, Shutdown, run_all, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerError

log = logging.getLogger(__name__)


class PulsarConsumer(ABC):
    """What both kinds of consumers share."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str) -> None:
        self.topic = topic
        self.subscription = name
        self._joined = joined
        self._letters = LetterProducer(client)
        self._closed = False
        self._shutdown = Shutdown(self._end)

    @abstractmethod
    async def acknowledge(self, message: Message) -> None: ...

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        self._check_open()
        await self._letters.send(
            retry_and_dead_letters.dead_letter(self, message, reason, properties), retained=True
        )
        await self.acknowledge(message)

    async def check(self) -> None:
        self._check_open()
        await self._joined.check()

    async def close(self) -> None:
        self._closed = True
        await wait_for_close(self._shutdown.run())

    @abstractmethod
    async def _end(self) -> None: ...

    async def _read(self, receipt: Receipt) -> Message | None:
        """Convert a message; buries one whose key or properties are not UTF-8, and returns None."""
        try:
            return message_of(receipt.received, receipt.consumer.topic, receipt)
        except UnicodeDecodeError as error:
            message = message_of(receipt.received, receipt.consumer.topic, receipt, bare=True)
            await self._bury_unreadable(message, f"key or properties are not UTF-8: {error}")
            return None

    async def _bury_unreadable(self, message: Message, reason: str) -> None:
        try:
            await self.bury(message, reason)
        except BrokerError as failure:
            log.error("%s: lost message %s (%s), not buried: %s", self.topic, message.id, reason, failure)
            with suppress(BrokerError):
                await self.acknowledge(message)

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the consumer of {self.topic} has been closed")


class PersistentConsumer(PulsarConsumer):
    """Consumes the topic and the retry topic of the subscription, prefetching as little as possible."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str) -> None:
        super().__init__(client, joined, topic, name)
        self._receives: PendingReceives[Receipt] = PendingReceives([consumer.receive for consumer in joined])

    @classmethod
    async def open(cls, client: Client, topic: str, name: str, type: SubscriptionType) -> PersistentConsumer:
        read = list(dict.fromkeys([topic, topics.retry_topic(topic, name)]))
        return cls(client, await Subscription.join(client, read, name, type, queue=1), topic, name)

    async def receive(self) -> Message | None:
        while receipt := await self._next_receipt():
            if message := await self._read(receipt):
                return retry_and_dead_letters.restore(message)
        return None

    async def _next_receipt(self) -> Receipt | None:
        with translating(self.topic):
            return await self._receives.get()

    async def acknowledge(self, message: Message) -> None:
        self._check_open()
        consumer, received = receipt_of(message)
        await consumer.acknowledge(received)

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        self._check_open()
        await self._letters.send(retry_and_dead_letters.retry_letter(self, message, after, properties), after)
        await self.acknowledge(message)

    async def stop(self) -> None:
        """Stop receiving. Prefetched messages go to others on `close`."""
        self._receives.end()

    async def _end(self) -> None:
        await self.stop()
        await run_all([self._joined.leave, self._receives.wait_ended, self._letters.close])


#: Seconds between two warnings about dropped messages.
_SECONDS_BETWEEN_WARNINGS: Final = 60.0
#: Concurrent receives of each partition while a consumer stops.
_RECEIVES: Final = 16
#: Turns of the event loop for a receive that the client can answer at once; it needs four.
_TURNS: Final = 10
#: Seconds for messages that are in transit from the broker when a consumer stops.
_ARRIVAL_SECONDS: Final = 0.25


class VolatileConsumer(PulsarConsumer):
    """Prefetches eagerly, with a task for each partition, into a buffer for `receive`."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str, buffer: int) -> None:
        super().__init__(client, joined, topic, name)
        self._size = buffer
        self._buffer: deque[tuple[Receipt, int]] = deque()
        self._bytes = 0
        self._taken = 0
        self._dropped = 0
        self._last_warning = -inf
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: Exception | None = None
        self._stopped = False
        self._drained = False
        self._stopping = Shutdown(self._leave)
        self._pumps = [
            asyncio.create_task(self._pump(consumer), name=f"pump of {consumer.topic}") for consumer in joined
        ]

    @classmethod
    async def open(
        cls, client: Client, topic: str, name: str, type: SubscriptionType, buffer: int
    ) -> VolatileConsumer:
        return cls(client, await Subscription.join(client, [topic], name, type, buffer), topic, name, buffer)

    async def receive(self) -> Message | None:
        while not self._closed:
            if self._buffer:
                self._room.set()
                receipt, size = self._buffer.popleft()
                self._bytes -= size
                if message := await self._read(receipt):
                    return message
            elif self._drained:
                return None
            elif self._failure:
                raise self._failure
            else:
                self._changed.clear()
                await self._changed.wait()
        return None

    async def acknowledge(self, message: Message) -> None:
        self._check_open()

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        raise topics.not_retryable(self.topic)

    async def stop(self) -> None:
        await self._stopping.run()

    async def _end(self) -> None:
        await run_all([self.stop, self._letters.close])

    async def _pump(self, consumer: PartitionConsumer) -> None:
        try:
            with translating(consumer.topic):
                while not self._stopped:
                    await self._take(consumer)
                    # With a full buffer, let the client fill up: the broker then prefers consumers that have
                    # room. Messages dropped here instead would be lost to them.
                    while len(self._buffer) >= self._size and not self._stopped:
                        self._room.clear()
                        await self._room.wait()
        except Exception as error:  # `receive` must end whatever the cause
            if not self._stopped:
                self._failure = error
                self._changed.set()

    async def _take(self, consumer: PartitionConsumer) -> None:
        receipt = await consumer.receive()
        self._taken += 1
        size = len(receipt.received.data())
        if self._bytes + size > MAX_BUFFERED:
            self._drop()
            return
        self._buffer.append((receipt, size))
        self._bytes += size
        self._changed.set()

    def _drop(self) -> None:
        self._dropped += 1
        if monotonic() - self._last_warning > _SECONDS_BETWEEN_WARNINGS:
            log.warning(
                "%s: dropped %d messages, as the buffer holds %.0f of %.0f MB",
                *(self.topic, self._dropped, self._bytes / 1e6, MAX_BUFFERED / 1e6),
            )
            self._dropped, self._last_warning = 0, monotonic()

    async def _leave(self) -> None:
        """Take over the messages that the client has prefetched, unless closed; leave the subscription."""
        self._stopped = True
        self._room.set()
        tasks = set(self._pumps)
        if not self._closed:
            for consumer in self._joined:
                room = iter(range(self._size))
                receives = min(self._size, _RECEIVES)
                tasks.update(asyncio.create_task(self._drain(consumer, room)) for _ in range(receives))
            await self._wait_drained()
        await wait_for_close(self._joined.leave())
        _, left = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in left:
            task.cancel()
        self._drained = True
        self._changed.set()

    async def _drain(self, consumer: PartitionConsumer, room: Iterator[int]) -> None:
        with suppress(PulsarException):
            for _ in room:
                await self._take(consumer)

    async def _wait_drained(self) -> None:
        """Wait until the client is empty, or as many messages as it can hold were taken over.

        A receive ends within a few turns of the loop if the client has a message, so the client is empty once
        a receive does not. Later messages are not waited for: a busy topic would never end.
        """
        enough = self._taken + self._size * len(self._pumps)
        before = -_RECEIVES
        while self._taken < enough and self._taken - before >= _RECEIVES and not self._closed:
            before = self._taken
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        if not self._closed:
            await asyncio.sleep(_ARRIVAL_SECONDS)
