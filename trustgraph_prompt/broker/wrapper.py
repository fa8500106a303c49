"""A broker around a broker, for what is to see or change what passes: traces, metrics."""

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
    """Hands every call on to the broker within; subclasses put theirs around what it opens."""

    def __init__(self, broker: Broker) -> None:
        self.within = broker

    async def consumer(
        self, topic: str, subscription: str, *, type: SubscriptionType = "shared", buffer: int = 1000
    ) -> Consumer:
        return self._consumer(await self.within.consumer(topic, subscription, type=type, buffer=buffer))

    async def producer(self, topic: str, *, batch: bool = False) -> Producer:
        return self._producer(await self.within.producer(topic, batch=batch))

    async def reader(self, topic: str, *, start: Literal["earliest", "latest"] = "earliest") -> Reader:
        return await self.within.reader(topic, start=start)

    async def table(self, topic: str) -> Table:
        return await self.within.table(topic)

    async def caller(self, request: str, response: str) -> Caller:
        return await self.within.caller(request, response)

    async def bury_unreceivable(
        self, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
    ) -> Sequence[str]:
        return await self.within.bury_unreceivable(topic, subscription, consumers, properties)

    async def close(self) -> None:
        await self.within.close()

    async def __aenter__(self) -> Self:
        await self.within.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.within.__aexit__(*exc)

    def _consumer(self, consumer: Consumer) -> Consumer:
        return consumer

    def _producer(self, producer: Producer) -> Producer:
        return producer
