"""A broker that works, but for producers a test has told to fail or to wait."""

from __future__ import annotations

import asyncio
from typing import Any

from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable


class FlakyBroker:
    """`failures` says for a topic how many sends fail as if the broker were away; `closed` breaks once.

    What is sent to a topic in `unconfirmed` arrives, but the sender waits until the event is set. Its
    send then fails if `failures` says so.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.failures: dict[str, int] = {}
        self.closed: set[str] = set()
        self.unconfirmed: dict[str, asyncio.Event] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def producer(self, topic: str, *, batch: bool = False) -> Producer:
        return _FlakyProducer(self, await self._broker.producer(topic, batch=batch))


class _FlakyProducer:
    def __init__(self, broker: FlakyBroker, producer: Producer) -> None:
        self._broker = broker
        self._producer = producer
        self.topic = producer.topic

    async def send(self, data: bytes, **options: Any) -> str:
        if self.topic in self._broker.closed:
            self._broker.closed.discard(self.topic)
            await self._producer.close()
            raise BrokerClosed(self.topic)
        self._fail_if_told()
        id = await self._producer.send(data, **options)
        if self.topic in self._broker.unconfirmed:
            try:
                await self._broker.unconfirmed[self.topic].wait()
            finally:
                await asyncio.sleep(0.01)  # a real client needs several turns of the loop
            self._fail_if_told()
        return id

    def _fail_if_told(self) -> None:
        if self._broker.failures.get(self.topic, 0) > 0:
            self._broker.failures[self.topic] -= 1
            raise BrokerUnavailable(self.topic)

    async def close(self) -> None:
        await self._producer.close()
