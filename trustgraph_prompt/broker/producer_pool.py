"""Shares the producers of a process: one for each topic."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from time import monotonic, time

from trustgraph_prompt.broker.protocol import Broker, Producer
from trustgraph_prompt.broker.shutdown import has_failed
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable, MessageTooLarge

SECONDS_FOR_A_RECEIPT = 10.0
"""A broker that takes longer to confirm a message is reported as unavailable."""


class ProducerPool:
    """Opens each producer on first use, and again after it was closed.

    `refused` has the error of the last message on a topic, until one is accepted there.
    """

    def __init__(self, broker: Broker) -> None:
        self.refused: dict[str, str] = {}
        self.last_published = 0.0
        """When the broker last confirmed a message, in seconds since the epoch."""
        self._broker = broker
        self._openings: dict[str, asyncio.Future[Producer]] = {}
        self._in_flight: dict[object, tuple[str, float]] = {}

    async def send(
        self,
        topic: str,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        batch: bool = False,
    ) -> None:
        """Publish on a topic; durable on return. Raises `BrokerError`.

        Only the first call for a topic can set `batch`. A producer that was closed is replaced.
        """
        self._in_flight[ticket := object()] = (topic, monotonic())
        try:
            try:
                await self._send(topic, data, key, properties, batch)
            except BrokerClosed:
                await self._send(topic, data, key, properties, batch)
        except MessageTooLarge:
            raise
        except BrokerError as error:
            self.refused[topic] = str(error)
            raise
        finally:
            del self._in_flight[ticket]
        self.last_published = time()
        self.refused.pop(topic, None)

    @property
    def waiting(self) -> float:
        """How many seconds the oldest message in flight has been waiting for its confirmation."""
        return monotonic() - next(iter(self._in_flight.values()))[1] if self._in_flight else 0.0

    async def check(self) -> None:
        """Raise `BrokerUnavailable` if a confirmation is overdue."""
        if (seconds := self.waiting) > SECONDS_FOR_A_RECEIPT:
            topic, _ = next(iter(self._in_flight.values()))
            raise BrokerUnavailable(
                f"{topic}: a message published {seconds:.0f} s ago is not confirmed, "
                f"expected within {SECONDS_FOR_A_RECEIPT:g} s"
            )

    async def forget(self, topics: Collection[str]) -> None:
        """Close and forget the producers of some topics."""
        for topic in topics:
            self.refused.pop(topic, None)
        await _close_all(self._openings.pop(topic) for topic in topics if topic in self._openings)

    async def close(self) -> None:
        """Flush and close all producers."""
        openings, self._openings = self._openings, {}
        await _close_all(openings.values())

    async def _send(
        self, topic: str, data: bytes, key: str | None, properties: Mapping[str, str] | None, batch: bool
    ) -> None:
        opening = self._openings.get(topic)
        if opening is None:
            opening = asyncio.ensure_future(self._broker.producer(topic, batch=batch))
            self._openings[topic] = opening
        try:
            producer = opening.result() if opening.done() else await asyncio.shield(opening)
            await producer.send(data, key=key, properties=properties)
        except BrokerError as error:
            unusable = isinstance(error, BrokerClosed) or has_failed(opening)
            if unusable and self._openings.get(topic) is opening:  # not yet replaced by another task
                del self._openings[topic]
            raise


async def _close_all(openings: Iterable[asyncio.Future[Producer]]) -> None:
    """Close the open producers. Ignores broker errors: the connection closes what is left."""
    opened = [opening.result() for opening in openings if opening.done() and not has_failed(opening)]
    results = await asyncio.gather(*(producer.close() for producer in opened), return_exceptions=True)
    for error in results:
        if isinstance(error, BaseException) and not isinstance(error, BrokerError):
            raise error
