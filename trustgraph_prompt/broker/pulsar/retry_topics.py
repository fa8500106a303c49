"""The producers of a subscription's own topics: what is to come again, and what cannot be served."""

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

#: How long a subscription that was seen is believed in. Each look keeps others for a moment from being alone
#: with the dead letters.
KEPT_SECONDS: Final = 1.0


class RetryTopics:
    """Posts letters. A letter topic's producer is opened for the first letter, once, however many come."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._openings: dict[str, asyncio.Task[PulsarProducer]] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._kept_until = 0.0

    async def post(self, letter: Envelope, after: float | None = None, *, retained: bool = False) -> None:
        """Returns once the letter is durable; a `retained` one stays until somebody has dealt with it."""
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
            del self._openings[topic]  # the next letter tries again, also where nobody has waited for this

    async def _retain(self, topic: str) -> None:
        """Without a subscription the broker would drop dead letters before anybody looked.

        Looked after again and again: somebody may delete it, or the topic, or it may expire.
        """
        if self._keeping is None or (self._keeping.done() and monotonic() >= self._kept_until):
            self._keeping = asyncio.create_task(self._keep(topic))
            self._keeping.add_done_callback(has_failed)
        await asyncio.shield(self._keeping)

    async def _keep(self, topic: str) -> None:
        with suppress(SubscriptionBusy), translating(topic):
            keeper = await self._client.subscribe(
                topic,
                topics.DEAD_LETTER_SUBSCRIPTION,
                consumer_type=pulsar.ConsumerType.Shared,
                receiver_queue_size=1,
                initial_position=pulsar.InitialPosition.Earliest,
            )
            await keeper.close()
        self._kept_until = monotonic() + KEPT_SECONDS
