"""The producers of a process: one for each topic, made when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from time import monotonic, time

from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.broker.shutdown import ended_badly
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable, MessageTooLarge

SECONDS_FOR_A_RECEIPT = 10.0
"""A broker that takes longer to say that it has a message is as good as away."""


class ProducerPool:
    """Whoever publishes in a process does it here. What was opened is kept until it is forgotten or broke.

    `refused` says why the broker did not take what was last published on a topic, until it does.
    """

    def __init__(self, broker: Broker) -> None:
        self.refused: dict[str, str] = {}
        self.last_published = 0.0
        """In seconds since the epoch."""
        self._broker = broker
        self._openings: dict[str, asyncio.Future[Producer]] = {}
        self._under_way: dict[object, tuple[str, float]] = {}

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

        `batch` counts when the producer of the topic is made. One that turns out to be closed is replaced.
        """
        self._under_way[ticket := object()] = (topic, monotonic())
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
            del self._under_way[ticket]
        self.last_published = time()
        self.refused.pop(topic, None)

    @property
    def waiting(self) -> float:
        """For how many seconds the longest of all that are under way has been waiting for its receipt."""
        return monotonic() - next(iter(self._under_way.values()))[1] if self._under_way else 0.0

    async def check(self) -> None:
        """Raises `BrokerUnavailable` where a receipt is overdue."""
        if (seconds := self.waiting) > SECONDS_FOR_A_RECEIPT:
            topic, _ = next(iter(self._under_way.values()))
            raise BrokerUnavailable(f"{topic}: what was published {seconds:.0f} s ago has no receipt yet")

    async def forget(self, topics: Collection[str]) -> None:
        """Nobody publishes there any more."""
        for topic in topics:
            self.refused.pop(topic, None)
        await _end(self._openings.pop(topic) for topic in topics if topic in self._openings)

    async def close(self) -> None:
        """Flush and close all of them."""
        openings, self._openings = self._openings, {}
        await _end(openings.values())

    async def _send(
        self, topic: str, data: bytes, key: str | None, properties: Mapping[str, str] | None, batch: bool
    ) -> None:
        opening = self._openings.get(topic)
        if opening is None:
            opening = asyncio.ensure_future(self._broker.producer(topic, batch=batch))
            self._openings[topic] = opening
        try:
            producer = await asyncio.shield(opening)
            await producer.send(data, key=key, properties=properties)
        except BrokerError as error:
            of_no_use = isinstance(error, BrokerClosed) or ended_badly(opening)
            if of_no_use and self._openings.get(topic) is opening:  # unless another has begun to replace it
                del self._openings[topic]
            raise


async def _end(openings: Iterable[asyncio.Future[Producer]]) -> None:
    """Close what was opened; one that will not be closed is left to its broker."""
    opened = [opening.result() for opening in openings if opening.done() and not ended_badly(opening)]
    ends = await asyncio.gather(*(producer.close() for producer in opened), return_exceptions=True)
    for error in ends:
        if isinstance(error, BaseException) and not isinstance(error, BrokerError):
            raise error
