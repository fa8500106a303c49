"""Lists dead letters without consuming them, replays them, and discards them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from uuid import uuid4

import tenacity

from trustgraph_prompt.broker import Broker, Consumer, Producer, retry_and_dead_letters, topics
from trustgraph_prompt.broker.opened import opened
from trustgraph_prompt.errors import (
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    RequestError,
    SubscriptionBusy,
)
from trustgraph_prompt.retrying import retrying
from trustgraph_prompt.worker.dead_letters.letters import (
    FAILURE_PROPERTIES,
    DeadLetter,
    LetterSource,
    with_terms,
)

AT_ONCE: Final = 32
"""Dead letters republished at the same time; each may have 5 MB."""

SECONDS_TO_WAIT = 10.0
"""For another consumer of the same dead letters, such as a worker that creates the subscription."""

_END: Final = "trustgraph-prompt/end"
"""The key of the end marker."""


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects the dead letters that match all given values. `ids` are of messages or of requests."""

    ids: frozenset[str] = frozenset()
    error: str | None = None
    prompt: str | None = None

    def matches(self, letter: DeadLetter) -> bool:
        return (
            (not self.ids or not self.ids.isdisjoint((letter.id, letter.request)))
            and self.error in (None, letter.error)
            and self.prompt in (None, letter.prompt)
        )


async def browse_topic(
    broker: Broker, topic: str, filter: DeadLetterFilter = DeadLetterFilter()
) -> AsyncGenerator[DeadLetter, None]:
    """List the dead letters of a topic, oldest first, without acknowledging them.

    Raises `SubscriptionBusy` if another client browses or replays the same ones, or another `BrokerError`.
    """
    async with (
        opened(_exclusive_consumer(broker, topic)) as consumer,
        aclosing(_letters(broker, consumer, filter)) as letters,
    ):
        async for letter in letters:
            yield letter


async def discard(broker: Broker, sources: Iterable[LetterSource], filter: DeadLetterFilter) -> int:
    """Remove dead letters for good, and return how many. Raises as `browse_topic`."""
    count = 0
    for source in sources:
        async with (
            opened(_exclusive_consumer(broker, source.dead_letter_topic)) as consumer,
            aclosing(_letters(broker, consumer, filter)) as letters,
        ):
            async for letter in letters:
                await consumer.acknowledge(letter.message)
                count += 1
    return count


async def replay(
    broker: Broker,
    sources: Iterable[LetterSource],
    filter: DeadLetterFilter = DeadLetterFilter(),
    terms: Mapping[str, object] = MappingProxyType({}),
) -> AsyncGenerator[tuple[DeadLetter, str | None], None]:
    """Replay dead letters: the subscription that they failed in receives them again, and no other.

    The requests have `terms` in addition to their own, which these override. Yields each letter, and why it
    was not replayed (it was truncated, or is no prompt request), if so. Deliveries and the seconds of the
    budget start from zero. A dead letter is acknowledged once its replacement is durable; a crash in between
    leaves both. Requests that fail again meanwhile are not replayed twice.

    For a non-persistent topic, every subscription that is active receives the request; without an active
    consumer in its own subscription it stays. Dead letters that another client is using stay, too. For these
    subscriptions `BrokerUnavailable` or `SubscriptionBusy` is raised, after all others are done. Raises
    `BrokerError`.
    """
    staying: list[BrokerError] = []
    for source in sources:
        try:
            async with aclosing(_replay_at(broker, source, filter, terms)) as done:
                async for replayed in done:
                    yield replayed
        except (_NoConsumer, SubscriptionBusy) as error:
            staying.append(error)
    if staying:
        first, *others = staying
        raise BrokerUnavailable("; ".join(map(str, staying))) if others else first


class _NoConsumer(BrokerUnavailable):
    """A non-persistent topic has no consumer for a replayed message."""


async def _replay_at(
    broker: Broker, source: LetterSource, filter: DeadLetterFilter, terms: Mapping[str, object]
) -> AsyncGenerator[tuple[DeadLetter, str | None], None]:
    async with (
        opened(_exclusive_consumer(broker, source.dead_letter_topic)) as consumer,
        opened(broker.producer(retry_and_dead_letters.replay_topic(source))) as producer,
        aclosing(_letters(broker, consumer, filter)) as letters,
    ):
        chosen: list[DeadLetter] = []
        deliverable = True if topics.is_persistent(source.topic) else None
        undeliverable = 0
        async for letter in letters:
            if deliverable is None:
                deliverable = await _has_consumer(broker, source)
            if not deliverable:
                undeliverable += 1
                continue
            chosen.append(DeadLetter(source, letter.message))
            if len(chosen) == AT_ONCE:
                for replayed in await _republish(chosen, terms, consumer, producer):
                    yield replayed
                chosen.clear()
        for replayed in await _republish(chosen, terms, consumer, producer):
            yield replayed
    if undeliverable:
        raise _NoConsumer(
            f"{source.topic}: subscription {source.subscription} has no consumer, "
            f"{undeliverable:,} dead letter{'' if undeliverable == 1 else 's'} not replayed: "
            "the topic is not persistent; replay while the worker runs"
        )


async def _exclusive_consumer(broker: Broker, topic: str) -> Consumer:
    """A consumer of a dead-letter topic; messages that it does not acknowledge stay.

    Exclusive for three reasons: of two people who replay the same letters, one gets an error; the order is
    kept; and Pulsar stops a shared consumer with 50,000 unacknowledged messages. A reader would also return
    messages that are acknowledged but not deleted yet.
    """
    try:
        return await retrying(
            lambda: broker.consumer(topic, topics.DEAD_LETTER_SUBSCRIPTION, type="exclusive"),
            retry=tenacity.retry_if_exception_type(SubscriptionBusy),
            stop=tenacity.stop_after_delay(SECONDS_TO_WAIT),
            wait=tenacity.wait_random(0.1, 0.5),
        )
    except SubscriptionBusy as error:
        raise SubscriptionBusy(
            f"{topic}: another client is reading or replaying these dead letters, try again later"
        ) from error


async def _has_consumer(broker: Broker, source: LetterSource) -> bool:
    """Whether the subscription has a consumer: an exclusive one is rejected then."""
    try:
        async with opened(broker.consumer(source.topic, source.subscription, type="exclusive")):
            return False
    except SubscriptionBusy:
        return True


async def _letters(
    broker: Broker, consumer: Consumer, filter: DeadLetterFilter
) -> AsyncGenerator[DeadLetter, None]:
    """The dead letters that exist at the start, up to an end marker that is published and removed again.

    No broker reports the end of a subscription, and new letters may arrive faster than they are read.
    """
    mark = uuid4().hex
    async with opened(broker.producer(consumer.topic)) as producer:
        await producer.send(b"", key=_END, properties={"mark": mark})
    while message := await consumer.receive():
        # Every dead letter has a reason.
        if message.data or message.key != _END or "reason" in message.properties:
            source = LetterSource(message.topic, message.properties.get("subscription", ""))
            if filter.matches(letter := DeadLetter(source, message)):
                yield letter
            continue
        await consumer.acknowledge(message)  # or the marker of a client that was killed
        if message.properties.get("mark") == mark:
            return


async def _republish(
    letters: Iterable[DeadLetter], terms: Mapping[str, object], consumer: Consumer, producer: Producer
) -> list[tuple[DeadLetter, str | None]]:
    async def republish(letter: DeadLetter) -> tuple[DeadLetter, str | None]:
        if letter.truncated:
            return letter, f"only {len(letter.message.data):,} of its {letter.size:,} bytes were kept"
        properties = letter.message.properties
        original = {name: text for name, text in properties.items() if name not in FAILURE_PROPERTIES}
        try:
            data = with_terms(letter.message.data, terms) if terms else letter.message.data
            again = retry_and_dead_letters.replay_letter(
                letter.source, replace(letter.message, data=data, properties=original)
            )
            await producer.send(again.data, key=again.key, properties=again.properties)
        except (RequestError, MessageTooLarge) as error:
            return letter, str(error)
        await consumer.acknowledge(letter.message)
        return letter, None

    return await asyncio.gather(*map(republish, letters))
