"""Consumers of Pulsar's persistent topics, which keep what nobody has acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from pulsar.asyncio import Client

from trustgraph_prompt.broker import envelope, topics
from trustgraph_prompt.broker.closing import each
from trustgraph_prompt.broker.protocol import Message, SubscriptionType
from trustgraph_prompt.broker.pulsar.consumer import PulsarConsumer
from trustgraph_prompt.broker.pulsar.messages import receipt_of
from trustgraph_prompt.broker.pulsar.partition_consumer import Receipt
from trustgraph_prompt.broker.pulsar.pending_receives import PendingReceives
from trustgraph_prompt.broker.pulsar.subscription import Subscription


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
                return envelope.opened(message)
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
        await each([self._joined.leave, self._receives.settle, self._letters.close])
