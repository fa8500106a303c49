"""Publishes on Pulsar topics, and letters on a subscription's own topics; limits what is in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import retry_and_dead_letters, topics
from trustgraph_prompt.broker.pulsar.errors import translated, translating
from trustgraph_prompt.broker.pulsar.messages import id_of
from trustgraph_prompt.broker.shutdown import Shutdown, has_failed, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerError, SubscriptionBusy


class SendLimit:
    """A limit on count and bytes; waiting is in order. A message over the limit waits until it is alone."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = self._all = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, size: int) -> None:
        """Wait for room for a message of `size` bytes. Must be followed by `release`."""
        size = min(size, self._all)
        if not self._waiting and self._fits(size):
            self._take(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()  # smaller messages behind this one may fit
            else:
                self.release(size)  # the turn had already come
            raise

    def release(self, size: int) -> None:
        """Free the room of a message."""
        self._count += 1
        self._size += min(size, self._all)
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._fits(size):
                    return
                self._take(size)
                turn.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        return self._count > 0 and self._size >= size

    def _take(self, size: int) -> None:
        self._count -= 1
        self._size -= size


#: The client rejects further messages while so many are unconfirmed, so senders wait.
_PENDING: Final = 1000
#: Bytes of these messages; a thousand of maximum size would be five gigabytes.
_PENDING_BYTES: Final = 64_000_000


class PulsarProducer:
    """Publishes on one topic."""

    def __init__(self, producer: pulsar.asyncio.Producer, topic: str) -> None:
        self.topic = topic
        self._producer = producer
        self._in_flight = SendLimit(_PENDING, _PENDING_BYTES)
        self._closed = False
        self._shutdown = Shutdown(self._end)

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
        size = retry_and_dead_letters.check_size(self.topic, data, key, carried)
        retry_and_dead_letters.check_delay(self.topic, deliver_after)
        delay = timedelta(seconds=deliver_after) if deliver_after and deliver_after > 0 else None
        await self._in_flight.acquire(size)
        release = self._in_flight.release
        try:
            if self._closed:
                raise BrokerClosed(f"the producer of {self.topic} has been closed")
            number = await self._producer.send(
                data, properties=carried, partition_key=key, deliver_after=delay
            )
        except PulsarException as error:
            raise translated(error.error(), self.topic, str(error)) from error
        except asyncio.CancelledError:
            release = self._release_later
            raise
        finally:
            release(size)
        return id_of(number)

    async def close(self) -> None:
        self._closed = True
        await wait_for_close(self._shutdown.run())

    def _release_later(self, size: int) -> None:
        """Release after a cancelled send, once the client has sent the message or given up."""
        flushing = asyncio.create_task(self._flush())
        flushing.add_done_callback(lambda _: self._in_flight.release(size))

    async def _flush(self) -> None:
        with suppress(PulsarException):
            await self._producer.flush()

    async def _end(self) -> None:
        await self._flush()
        with suppress(PulsarException):
            await self._producer.close()


#: Seconds for which the subscription of the dead letters is not checked again. Each check subscribes for a
#: moment, which prevents others from consuming exclusively.
KEPT_SECONDS: Final = 1.0


class LetterProducer:
    """Publishes letters, with one producer for each topic, opened on first use."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._openings: dict[str, asyncio.Task[PulsarProducer]] = {}
        self._retaining: asyncio.Task[None] | None = None
        self._retained_until = 0.0

    async def send(
        self, letter: retry_and_dead_letters.Envelope, after: float | None = None, *, retained: bool = False
    ) -> None:
        """Publish a letter, delayed by `after` seconds; durable on return. Dead letters are `retained`."""
        if retained:
            await self._retain(letter.topic)
        producer = await self._producer(letter.topic)
        await producer.send(letter.data, key=letter.key, properties=letter.properties, deliver_after=after)

    async def close(self) -> None:
        for opening in list(self._openings.values()):
            with suppress(BrokerError):
                producer = await asyncio.shield(opening)
                await producer.close()

    async def _producer(self, topic: str) -> PulsarProducer:
        opening = self._openings.get(topic)
        if opening is None:
            opening = self._openings[topic] = asyncio.create_task(PulsarProducer.open(self._client, topic))
            opening.add_done_callback(partial(self._opened, topic))
        return await asyncio.shield(opening)

    def _opened(self, topic: str, opening: asyncio.Task[PulsarProducer]) -> None:
        if has_failed(opening):
            del self._openings[topic]  # the next letter tries again

    async def _retain(self, topic: str) -> None:
        """Make sure of the subscription without which the broker would drop dead letters.

        Checked repeatedly: it, or the topic, may be deleted or expire. The consumer is exclusive like those
        that read dead letters: if the type changes, Pulsar may skip what it was about to deliver.
        """
        if self._retaining is None or (self._retaining.done() and monotonic() >= self._retained_until):
            self._retaining = asyncio.create_task(self._subscribe(topic))
            self._retaining.add_done_callback(has_failed)
        await asyncio.shield(self._retaining)

    async def _subscribe(self, topic: str) -> None:
        with suppress(SubscriptionBusy), translating(topic):
            consumer = await self._client.subscribe(
                topic,
                topics.DEAD_LETTER_SUBSCRIPTION,
                consumer_type=pulsar.ConsumerType.Exclusive,
                receiver_queue_size=1,
                initial_position=pulsar.InitialPosition.Earliest,
            )
            await consumer.close()
        self._retained_until = monotonic() + KEPT_SECONDS
