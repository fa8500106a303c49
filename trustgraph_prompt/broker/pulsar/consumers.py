"""Consumers of Pulsar topics: persistent ones keep what nobody acknowledged, non-persistent ones drop it."""

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

from trustgraph_prompt.broker import envelope, topics
from trustgraph_prompt.broker.protocol import MAX_BUFFERED, Message, SubscriptionType
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.messages import bare_message_of, message_of, receipt_of
from trustgraph_prompt.broker.pulsar.pending_receives import PendingReceives
from trustgraph_prompt.broker.pulsar.retry_topics import RetryTopics
from trustgraph_prompt.broker.pulsar.subscription import PartitionConsumer, Receipt, Subscription
from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, Shutdown, run_all, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerError

log = logging.getLogger(__name__)


class PulsarConsumer(ABC):
    """A part in a subscription, until `close`."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str) -> None:
        self.topic = topic
        self.subscription = name
        self._joined = joined
        self._letters = RetryTopics(client)
        self._closed = False
        self._shutdown = Shutdown(self._end)

    @abstractmethod
    async def acknowledge(self, message: Message) -> None: ...

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        self._check_open()
        await self._letters.post(envelope.dead_letter(self, message, reason, properties), retained=True)
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
        """The message; None where it cannot be read, and then it is out of the way."""
        try:
            return message_of(receipt.received, receipt.place.topic, receipt)
        except UnicodeDecodeError as error:
            message = bare_message_of(receipt.received, receipt.place.topic, receipt)
            await self._set_aside(message, f"key or properties are no text: {error}")
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


class PersistentConsumer(PulsarConsumer):
    """Reads the topic and the subscription's retry topic, with as little as possible ahead."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str) -> None:
        super().__init__(client, joined, topic, name)
        self._receives: PendingReceives[Receipt] = PendingReceives([place.receive for place in joined], topic)

    @classmethod
    async def open(cls, client: Client, topic: str, name: str, type: SubscriptionType) -> PersistentConsumer:
        read = list(dict.fromkeys([topic, topics.retry_topic(topic, name)]))
        return cls(client, await Subscription.take(client, read, name, type, queue=1), topic, name)

    async def receive(self) -> Message | None:
        while receipt := await self._receives.get():
            if message := await self._read(receipt):
                return envelope.restore(message)
        return None

    async def acknowledge(self, message: Message) -> None:
        self._check_open()
        place, received = receipt_of(message)
        await place.acknowledge(received)

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        self._check_open()
        await self._letters.post(envelope.retry_letter(self, message, after, properties), after)
        await self.acknowledge(message)

    async def stop(self) -> None:
        """What the client has taken in and nobody has received goes to others when this closes."""
        self._receives.end()

    async def _end(self) -> None:
        await self.stop()
        await run_all([self._joined.leave, self._receives.settle, self._letters.close])


#: Seconds from one line in the log about messages that found no room to the next.
_SECONDS_BETWEEN_LINES: Final = 60.0
#: How many receives of a place are under way at once while a consumer stops.
_RECEIVES: Final = 16
#: Turns of the loop in which a receive surely ends that the client can answer at once; it needs four.
_TURNS: Final = 10
#: How long what is on its way from the broker to a consumer that stops may take to arrive.
_ARRIVAL_SECONDS: Final = 0.25


class VolatileConsumer(PulsarConsumer):
    """Takes in eagerly, a task for each place, into a buffer that `receive` empties."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str, buffer: int) -> None:
        super().__init__(client, joined, topic, name)
        self._size = buffer
        self._buffer: deque[tuple[Receipt, int]] = deque()
        self._bytes = 0
        self._taken = 0
        self._dropped = 0
        self._told = -inf
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: Exception | None = None
        self._stopped = False
        self._over = False
        self._stopping = Shutdown(self._leave)
        self._pumps = [
            asyncio.create_task(self._take_in(place), name=f"pump of {place.topic}") for place in joined
        ]

    @classmethod
    async def open(
        cls, client: Client, topic: str, name: str, type: SubscriptionType, buffer: int
    ) -> VolatileConsumer:
        return cls(client, await Subscription.take(client, [topic], name, type, buffer), topic, name, buffer)

    async def receive(self) -> Message | None:
        while not self._closed:
            if self._buffer:
                self._room.set()
                receipt, size = self._buffer.popleft()
                self._bytes -= size
                if message := await self._read(receipt):
                    return message
            elif self._over:
                return None
            elif self._failure:
                raise self._failure
            else:
                self._news.clear()
                await self._news.wait()
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

    async def _take_in(self, place: PartitionConsumer) -> None:
        try:
            with translating(place.topic):
                while not self._stopped:
                    await self._take(place)
                    # The rest stays with the client, uncounted: taken and dropped here, it would be lost to
                    # consumers that have room, whom the broker prefers to one whose client is full.
                    while len(self._buffer) >= self._size and not self._stopped:
                        self._room.clear()
                        await self._room.wait()
        except Exception as error:  # whatever it was: nothing comes in any more, and who waits must be told
            if not self._stopped:
                self._failure = error
                self._news.set()

    async def _take(self, place: PartitionConsumer) -> None:
        receipt = await place.receive()
        self._taken += 1
        size = len(receipt.received.data())
        if self._bytes + size > MAX_BUFFERED:  # left to the client, it would wait there
            self._drop()
            return
        self._buffer.append((receipt, size))
        self._bytes += size
        self._news.set()

    def _drop(self) -> None:
        self._dropped += 1
        if monotonic() - self._told > _SECONDS_BETWEEN_LINES:
            log.warning(
                "%s: %d messages found no room beside %.0f MB", self.topic, self._dropped, self._bytes / 1e6
            )
            self._dropped, self._told = 0, monotonic()

    async def _leave(self) -> None:
        """Take over what the client holds already, unless nobody wants it, then leave the subscription."""
        self._stopped = True
        self._room.set()
        tasks = set(self._pumps)
        if not self._closed:
            for place in self._joined:
                room = iter(range(self._size))
                receives = min(self._size, _RECEIVES)
                tasks.update(asyncio.create_task(self._fill(place, room)) for _ in range(receives))
            await self._emptied()
        await wait_for_close(self._joined.leave())
        _, left = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in left:
            task.cancel()
        self._over = True
        self._news.set()

    async def _fill(self, place: PartitionConsumer, room: Iterator[int]) -> None:
        with suppress(PulsarException):
            for _ in room:
                await self._take(place)

    async def _emptied(self) -> None:
        """Until the client holds nothing any more, or as much as it can have held has been taken over.

        The client answers at once where it can: if not each receive under way has ended in a few turns of
        the loop, it held nothing. What comes in later is not waited for, or a busy topic would keep us.
        """
        enough = self._taken + self._size * len(self._pumps)
        before = -_RECEIVES
        while self._taken < enough and self._taken - before >= _RECEIVES and not self._closed:
            before = self._taken
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        if not self._closed:
            await asyncio.sleep(_ARRIVAL_SECONDS)
