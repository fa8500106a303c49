"""A broker around a broker, for traces: its messages carry the trace in which they are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trustgraph_prompt.broker import Broker, Consumer, Message, Producer
from trustgraph_prompt.broker.caller import TopicCaller
from trustgraph_prompt.broker.protocol import Caller
from trustgraph_prompt.broker.wrapper import BrokerWrapper

Carried = Callable[[], Mapping[str, str]]


class TracedBroker(BrokerWrapper):
    """Adds what `carried` gives, the trace of the moment, to what is published, tried again or buried."""

    def __init__(self, broker: Broker, carried: Carried) -> None:
        super().__init__(broker)
        self._carried = carried

    async def caller(self, request: str, response: str) -> Caller:
        return await TopicCaller.open(self, request, response)

    def _consumer(self, consumer: Consumer) -> Consumer:
        return _TracedConsumer(consumer, self._carried)

    def _producer(self, producer: Producer) -> Producer:
        return _TracedProducer(producer, self._carried)


class _TracedProducer:
    def __init__(self, producer: Producer, carried: Carried) -> None:
        self._producer = producer
        self._carried = carried
        self.topic = producer.topic

    async def send(
        self,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_after: float | None = None,
    ) -> str:
        properties = {**self._carried(), **(properties or {})}
        return await self._producer.send(data, key=key, properties=properties, deliver_after=deliver_after)

    async def close(self) -> None:
        await self._producer.close()


class _TracedConsumer:
    def __init__(self, consumer: Consumer, carried: Carried) -> None:
        self._consumer = consumer
        self._carried = carried
        self.topic = consumer.topic
        self.subscription = consumer.subscription
        self.receive = consumer.receive
        self.acknowledge = consumer.acknowledge
        self.check = consumer.check
        self.stop = consumer.stop
        self.close = consumer.close

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        await self._consumer.retry(message, after, {**self._carried(), **(properties or {})})

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        await self._consumer.bury(message, reason, {**self._carried(), **(properties or {})})
