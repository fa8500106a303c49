"""Producers of Pulsar."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import envelope
from trustgraph_prompt.broker.closing import Ending, ended_badly, farewell
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.in_flight import InFlight
from trustgraph_prompt.broker.pulsar.messages import id_of
from trustgraph_prompt.errors import BrokerClosed

#: What the client keeps unconfirmed; one more would be refused, so senders wait.
_PENDING: Final = 1000
#: Bytes of these. A thousand of the largest messages would be five gigabytes.
_PENDING_BYTES: Final = 64_000_000


class PulsarProducer:
    """Publishes on one topic."""

    def __init__(self, producer: pulsar.asyncio.Producer, topic: str) -> None:
        self.topic = topic
        self._producer = producer
        self._in_flight = InFlight(_PENDING, _PENDING_BYTES)
        self._closed = False
        self._ending = Ending(self._end)

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
        size = envelope.check_size(self.topic, data, key, carried)
        envelope.check_delay(self.topic, deliver_after)
        delay = timedelta(seconds=deliver_after) if deliver_after and deliver_after > 0 else None
        await self._in_flight.enter(size)
        if self._closed:
            self._in_flight.leave(size)
            raise BrokerClosed(f"the producer of {self.topic} has been closed")
        sending = asyncio.create_task(
            self._producer.send(data, properties=carried, partition_key=key, deliver_after=delay)
        )
        sending.add_done_callback(partial(self._sent, size))
        with translating(self.topic):
            # Whoever no longer waits for it: the client has the message until it is confirmed or given up.
            return id_of(await asyncio.shield(sending))

    def _sent(self, size: int, sending: asyncio.Task[pulsar.MessageId]) -> None:
        self._in_flight.leave(size)
        ended_badly(sending)

    async def close(self) -> None:
        self._closed = True
        await farewell(self._ending.reach())

    async def _end(self) -> None:
        with suppress(PulsarException):
            await self._producer.flush()
        with suppress(PulsarException):
            await self._producer.close()
