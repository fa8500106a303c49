"""Publishes retry and dead letters on the topics of a subscription."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final

import pulsar
from pulsar.asyncio import Client

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.envelope import Envelope
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.producer import PulsarProducer
from trustgraph_prompt.broker.shutdown import has_failed
from trustgraph_prompt.errors import BrokerError, SubscriptionBusy

#: Seconds for which the subscription of the dead letters is not checked again. Each check subscribes for a
#: moment, which prevents others from consuming exclusively.
KEPT_SECONDS: Final = 1.0


class RetryTopics:
    """Publishes letters, with one producer for each topic, opened on first use."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._openings: dict[str, asyncio.Task[PulsarProducer]] = {}
        self._retaining: asyncio.Task[None] | None = None
        self._retained_until = 0.0

    async def send(self, letter: Envelope, after: float | None = None, *, retained: bool = False) -> None:
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

        Checked repeatedly: it, or the topic, may be deleted or expire.
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
                consumer_type=pulsar.ConsumerType.Shared,
                receiver_queue_size=1,
                initial_position=pulsar.InitialPosition.Earliest,
            )
            await consumer.close()
        self._retained_until = monotonic() + KEPT_SECONDS
