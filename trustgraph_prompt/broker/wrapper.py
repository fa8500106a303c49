"""A broker that delegates to another, as a base for tracing and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from trustgraph_prompt.broker.protocol import (
    Broker,
    Caller,
    Consumer,
    Producer,
    Reader,
    SubscriptionType,
    Table,
)


class BrokerWrapper:
    """Delegates every call to `wrapped`; subclasses wrap what it opens."""

    def __init__(self, broker: Broker) -> None:
        self.wrapped = broker
        self.address = broker.address

    async def consumer(
        self, topic: str, subscription: str, *, type: SubscriptionType = "shared", buffer: int = 1000
    ) -> Consumer:
        return self._consumer(await self.wrapped.consumer(topic, subscription, type=type, buffer=buffer))

    async def producer(self, topic: str, *, batch: bool = False) -> Producer:
        return self._producer(await self.wrapped.producer(topic, batch=batch))

    async def reader(self, topic: str, *, start: Literal["earliest", "latest"] = "earliest") -> Reader:
        return await self.wrapped.reader(topic, start=start)

    async def table(self, topic: str) -> Table:
        return await self.wrapped.table(topic)

    async def compact(self, topic: str) -> None:
        await self.wrapped.compact(topic)

    async def caller(self, request: str, response: str) -> Caller:
        return await self.wrapped.caller(request, response)

    async def bury_unreceivable(
        self, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
    ) -> Sequence[str]:
        return await self.wrapped.bury_unreceivable(topic, subscription, consumers, properties)

    async def close(self) -> None:
        await self.wrapped.close()

    async def __aenter__(self) -> Self:
        await self.wrapped.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.wrapped.__aexit__(*exc)

    def _consumer(self, consumer: Consumer) -> Consumer:
        return consumer

    def _producer(self, producer: Producer) -> Producer:
        return producer
