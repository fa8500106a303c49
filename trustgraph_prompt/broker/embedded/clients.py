"""Consumers, producers and readers of the embedded broker."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Generic, TypeVar

from trustgraph_prompt.broker import retry_and_dead_letters, topics
from trustgraph_prompt.broker.embedded.store import Listener, Store
from trustgraph_prompt.broker.embedded.store_connection import Connection
from trustgraph_prompt.broker.embedded.transactions import Effect
from trustgraph_prompt.broker.protocol import CHECK_SECONDS, Message
from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, Shutdown, has_failed
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable

T = TypeVar("T")

_READ_AHEAD: Final = 100

_REPORT_EVERY: Final = 1000
"""After so many messages a reader reports its position; until then they are kept for it."""


class _Waiting:
    """What consumers and readers share: waiting for news of their topics, and closing."""

    def __init__(self, connection: Connection, listener: Listener, topic: str) -> None:
        self.topic = topic
        self._connection = connection
        self._listener = listener
        self._news_event = connection.listen(listener)
        self._stopped = False
        self._closed = False
        self._shutdown = Shutdown(self._leave)

    async def close(self) -> None:
        self._closed = self._stopped = True
        self._news_event.set()
        await self._shutdown.run()

    async def check(self) -> None:
        self._check_open()
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._connection.check(self._listener)
        except TimeoutError:
            raise BrokerUnavailable(f"{self.topic}: no answer in {CHECK_SECONDS:g} s") from None

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the consumer or reader of {self.topic} has been closed")

    async def _leave(self) -> None:
        listener = self._listener.id
        with suppress(BrokerClosed):  # the listener is removed with its connection
            await self._connection.run_or_defer(lambda store: store.leave(listener))
        self._connection.unlisten(self._listener, self._news_event)

    async def _news(self, due: float | None = None) -> None:
        """Wait until a topic has news, a delayed message is due (`due`), or this is stopped."""
        timeout = None if due is None else max(0.0, due - self._connection.clock())
        try:
            async with asyncio.timeout(timeout):
                await self._news_event.wait()
        except TimeoutError:
            pass


class _AnyConsumer(_Waiting, ABC, Generic[T]):
    """What consumers of persistent and non-persistent topics share."""

    def __init__(self, connection: Connection, listener: Listener, topic: str, subscription: str) -> None:
        super().__init__(connection, listener, topic)
        self.subscription = subscription
        self._taking: asyncio.Task[T] | None = None

    @abstractmethod
    def _take(self, store: Store) -> T:
        """Take a message, in a step of the store."""

    async def _leave(self) -> None:
        await super()._leave()
        if taking := self._taking:
            await asyncio.wait({taking}, timeout=GRACE_SECONDS)
            has_failed(taking)

    async def _taken(self) -> T:
        """Wait for a take. It goes on if this is cancelled, and what it takes is for the next call."""
        while True:
            if self._taking is None:
                self._news_event.clear()  # before the step, so that later news set it again
                self._taking = asyncio.create_task(self._connection.run(self._take))
            await asyncio.wait({taking := self._taking})
            if taking is self._taking:  # else another call waited as well, and has what was taken
                self._taking = None
                return taking.result()

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        self._check_open()
        await self._post(
            message, retry_and_dead_letters.dead_letter(self, message, reason, properties), retained=True
        )

    async def _post(
        self,
        message: Message,
        letter: retry_and_dead_letters.Envelope,
        *,
        after: float = 0.0,
        retained: bool = False,
    ) -> None:
        """Publish the letter and acknowledge the message in one transaction."""
        retry_and_dead_letters.check_size(letter.topic, letter.data, letter.key, letter.properties)

        def post(store: Store) -> None:
            topic = store.topic(letter.topic)
            if retained:
                store.retain(topic, topics.DEAD_LETTER_SUBSCRIPTION)
            store.publish(topic, letter.data, letter.key, letter.properties, after)
            store.acknowledge(self._listener.subscription, _number(message))

        await self._connection.run(post, Effect.DURABLE)


class EmbeddedConsumer(_AnyConsumer[Message | float | None]):
    """Holds each message until it is acknowledged, retried or buried."""

    def _take(self, store: Store) -> Message | float | None:
        return store.take(self._listener)

    async def receive(self) -> Message | None:
        while not self._stopped:
            taken = await self._taken()
            if isinstance(taken, Message):
                if not self._stopped:
                    return retry_and_dead_letters.restore(taken)
                if not self._closed:
                    await self._release(taken)
            elif not self._stopped:  # that it was stopped is news which a take forgets when it begins
                await self._news(due=taken)
        return None

    async def acknowledge(self, message: Message) -> None:
        self._check_open()
        subscription, number = self._listener.subscription, _number(message)
        await self._connection.run(lambda store: store.acknowledge(subscription, number))

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        self._check_open()
        await self._post(
            message, retry_and_dead_letters.retry_letter(self, message, after, properties), after=after
        )

    async def stop(self) -> None:
        self._stopped = True
        self._news_event.set()

    async def _release(self, message: Message) -> None:
        """Release a message that arrived while the consumer was being stopped, for others."""
        number = _number(message)
        await self._connection.run(lambda store: store.release(self._listener.id, number))


class EmbeddedVolatileConsumer(_AnyConsumer[tuple[Message | None, bool]]):
    """Takes messages out of its buffer, which the store fills, and which are acknowledged thereby."""

    def __init__(self, connection: Connection, listener: Listener, topic: str, subscription: str) -> None:
        super().__init__(connection, listener, topic, subscription)
        self._stopping = Shutdown(self._stop)

    def _take(self, store: Store) -> tuple[Message | None, bool]:
        return store.draw(self._listener), self._stopped

    async def receive(self) -> Message | None:
        while not self._closed:
            drawn, was_stopped = await self._taken()
            if drawn is not None or was_stopped:  # already stopped when the buffer was found empty
                return drawn
            await self._news()
        return None

    async def acknowledge(self, message: Message) -> None:
        self._check_open()

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        raise topics.not_retryable(self.topic)

    async def stop(self) -> None:
        await self._stopping.run()

    async def check(self) -> None:
        if self._stopped:
            raise BrokerClosed(f"the consumer of {self.topic} has been stopped")
        await super().check()

    async def _stop(self) -> None:
        try:
            if not self._closed:
                await self._connection.run_or_defer(lambda store: store.stop(self._listener))
        finally:
            self._stopped = True
            self._news_event.set()


class EmbeddedProducer:
    """Publishes on one topic; persistent messages are on disk when `send` returns."""

    def __init__(self, connection: Connection, topic: str, number: int) -> None:
        self.topic = topic
        self._connection = connection
        self._number = number
        self._persistent = topics.is_persistent(topic)
        self._closed = False

    async def send(
        self,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_after: float | None = None,
    ) -> str:
        if self._closed:
            raise BrokerClosed(f"the producer of {self.topic} has been closed")
        carried = dict(properties or {})
        retry_and_dead_letters.check_size(self.topic, data, key, carried)
        retry_and_dead_letters.check_delay(self.topic, deliver_after)
        if self._persistent:
            number = await self._connection.run(
                lambda store: store.publish(self._number, data, key or None, carried, deliver_after),
                Effect.DURABLE,
            )
        else:
            number = await self._connection.run(
                lambda store: store.offer(self._number, data, key or None, carried)
            )
        return str(number)

    async def close(self) -> None:
        self._closed = True


class EmbeddedReader(_Waiting):
    """Reads a persistent topic from a position."""

    def __init__(self, connection: Connection, listener: Listener, topic: str, position: int) -> None:
        super().__init__(connection, listener, topic)
        self._position = self._reported = position
        self._prefetched: deque[Message] = deque()

    async def receive(self) -> Message | None:
        while not self._closed:
            if self._prefetched:
                return retry_and_dead_letters.restore(self._prefetched.popleft())
            self._news_event.clear()
            if not await self._read_on():
                await self._news()
        return None

    async def behind(self) -> bool:
        self._check_open()
        return bool(self._prefetched) or await self._read_on()

    async def _read_on(self) -> bool:
        messages = await self._connection.run(
            lambda store: store.after(self._listener, self._position, _READ_AHEAD), Effect.READ
        )
        if messages:
            self._prefetched.extend(messages)
            self._position = _number(messages[-1])
            if self._position - self._reported >= _REPORT_EVERY:
                self._reported = position = self._position
                await self._connection.run(lambda store: store.report_position(self._listener, position))
        return bool(messages)


def _number(message: Message) -> int:
    if not isinstance(message.receipt, int):
        raise BrokerError(f"{message.topic}: message {message.id} was not received from this broker")
    return message.receipt
