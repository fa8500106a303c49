"""Dead letters: looked through without taking any, and put back so that they are served again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import tenacity

from trustgraph_prompt.broker import Broker, Consumer, Message, Producer, envelope, topics
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable, MessageTooLarge, SubscriptionBusy
from trustgraph_prompt.retrying import retrying
from trustgraph_prompt.worker.dead_letters.record import REMARKS, DeadLetter, LetterTopic

AT_ONCE: Final = 32
"""Letters that are on their way back at a time; each may be of 5 MB."""

SECONDS_TO_WAIT = 10.0
"""For somebody else who is at the same letters; a worker that buries its first is, for a moment."""

_END: Final = "trustgraph-prompt/end"
"""The key of a mark behind the last letter."""


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are meant: those that fit all that is set. An id is a letter's or its request's."""

    ids: frozenset[str] = frozenset()
    error: str | None = None
    prompt: str | None = None

    def has(self, letter: DeadLetter) -> bool:
        return (
            (not self.ids or not self.ids.isdisjoint((letter.id, letter.request)))
            and self.error in (None, letter.error)
            and self.prompt in (None, letter.prompt)
        )


async def look(
    broker: Broker, places: Iterable[LetterTopic], choice: LetterFilter = LetterFilter()
) -> AsyncGenerator[DeadLetter, None]:
    """The letters that nobody has dealt with yet, place by place, oldest first. None is taken.

    Only one can look at a place at a time: raises `SubscriptionBusy` where somebody does; `BrokerError`.
    """
    for place in places:
        async with aclosing(look_at(broker, place.letters, choice)) as letters:
            async for letter in letters:
                yield DeadLetter(place, letter.message)


async def look_at(
    broker: Broker, topic: str, choice: LetterFilter = LetterFilter()
) -> AsyncGenerator[DeadLetter, None]:
    """As `look`, at one dead-letter topic; its letters say of which place they are."""
    async with _alone(broker, topic) as consumer, aclosing(_letters(broker, consumer)) as messages:
        async for message in messages:
            place = LetterTopic(message.topic, message.properties.get("subscription", ""))
            if choice.has(letter := DeadLetter(place, message)):
                yield letter


async def replay(
    broker: Broker, places: Iterable[LetterTopic], choice: LetterFilter = LetterFilter()
) -> AsyncGenerator[tuple[DeadLetter, str | None], None]:
    """Put letters back, to be served by the subscription they died in and by no other.

    Gives each, and why it stays where it is, if it does: it was cut. Their deliveries are counted anew, and
    so are the seconds of a budget. A letter is done with once what takes its place is durable; a crash in
    between leaves both. Letters that die again while this runs are left alone.

    Of a non-persistent topic, they go to whoever is subscribed to it now; where nobody is in the subscription
    they stay. So do all letters of a place at which somebody else is. Raises `BrokerUnavailable` or
    `SubscriptionBusy` for such places, after all others; `BrokerError`.
    """
    staying: list[BrokerError] = []
    for place in places:
        try:
            async with aclosing(_replay_at(broker, place, choice)) as done:
                async for each in done:
                    yield each
        except (_NobodyHears, SubscriptionBusy) as error:
            staying.append(error)
    if staying:
        first, *others = staying
        raise BrokerUnavailable("; ".join(map(str, staying))) if others else first


class _NobodyHears(BrokerUnavailable):
    """A topic that keeps nothing has nobody to give a letter to."""


async def _replay_at(
    broker: Broker, place: LetterTopic, choice: LetterFilter
) -> AsyncGenerator[tuple[DeadLetter, str | None], None]:
    async with (
        _alone(broker, place.letters) as consumer,
        _way_back(broker, place) as producer,
        aclosing(_letters(broker, consumer)) as messages,
    ):
        chosen: list[DeadLetter] = []
        heard = True if topics.is_persistent(place.topic) else None
        unheard = 0
        async for message in messages:
            if not choice.has(letter := DeadLetter(place, message)):
                continue
            if heard is None:
                heard = await _somebody_hears(broker, place)
            if not heard:
                unheard += 1
                continue
            chosen.append(letter)
            if len(chosen) == AT_ONCE:
                for each in await _put_back(chosen, consumer, producer):
                    yield each
                chosen.clear()
        for each in await _put_back(chosen, consumer, producer):
            yield each
    if unheard:
        raise _NobodyHears(
            f"{place.topic}: nobody is subscribed as {place.subscription}, and the topic keeps nothing: "
            f"{unheard:,} dead letter{' stays' if unheard == 1 else 's stay'}; replay while the worker runs"
        )


@asynccontextmanager
async def _alone(broker: Broker, topic: str) -> AsyncIterator[Consumer]:
    """A consumer of the letters; what it does not acknowledge stays as it is.

    Exclusive, for three reasons. Of two people who replay the same letters, one is told. The order is that
    of the letters. And Pulsar stops a shared consumer that holds 50,000 messages unacknowledged. A reader
    would not do: it also sees what was acknowledged and is still on the disk.
    """
    try:
        consumer = await retrying(
            lambda: broker.consumer(topic, topics.DEAD_LETTER_SUBSCRIPTION, type="exclusive"),
            retry=tenacity.retry_if_exception_type(SubscriptionBusy),
            stop=tenacity.stop_after_delay(SECONDS_TO_WAIT),
            wait=tenacity.wait_random(0.1, 0.5),
        )
    except SubscriptionBusy as error:
        raise SubscriptionBusy(
            f"{topic}: somebody else is at these dead letters; try again when they are done"
        ) from error
    try:
        yield consumer
    finally:
        await consumer.close()


@asynccontextmanager
async def _way_back(broker: Broker, place: LetterTopic) -> AsyncIterator[Producer]:
    producer = await broker.producer(envelope.replay_topic(place))
    try:
        yield producer
    finally:
        await producer.close()


async def _somebody_hears(broker: Broker, place: LetterTopic) -> bool:
    """Whether somebody is in the subscription: who asks for it alone is told that it is taken, if it is."""
    try:
        alone = await broker.consumer(place.topic, place.subscription, type="exclusive")
    except SubscriptionBusy:
        return True
    await alone.close()
    return False


async def _letters(broker: Broker, consumer: Consumer) -> AsyncGenerator[Message, None]:
    """What was there when this began: up to a mark which is put behind it, and taken away again.

    No broker says where the end of a subscription is, and letters may come faster than they are read.
    """
    mark = uuid4().hex
    producer = await broker.producer(consumer.topic)
    await producer.send(b"", key=_END, properties={"mark": mark})
    await producer.close()
    while message := await consumer.receive():
        if message.data or message.key != _END or "reason" in message.properties:  # which each letter has
            yield message
            continue
        await consumer.acknowledge(message)  # also one whose owner was killed
        if message.properties.get("mark") == mark:
            return


async def _put_back(
    letters: Iterable[DeadLetter], consumer: Consumer, producer: Producer
) -> list[tuple[DeadLetter, str | None]]:
    async def put_back(letter: DeadLetter) -> tuple[DeadLetter, str | None]:
        if letter.cut:
            return letter, f"only {len(letter.message.data):,} of its {letter.size:,} bytes were kept"
        asked = {name: text for name, text in letter.message.properties.items() if name not in REMARKS}
        again = envelope.replay_letter(letter.place, replace(letter.message, properties=asked))
        try:
            await producer.send(again.data, key=again.key, properties=again.properties)
        except MessageTooLarge as error:
            return letter, str(error)
        await consumer.acknowledge(letter.message)
        return letter, None

    return await asyncio.gather(*map(put_back, letters))
