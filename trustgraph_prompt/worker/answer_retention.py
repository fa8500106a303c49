"""Deletes answer records that are older than their flow keeps them (`keep-answers`)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from time import time

from trustgraph_prompt.broker import Broker, Message, Reader, topics
from trustgraph_prompt.broker.opened import opened
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerError, RequestError, SubscriptionBusy
from trustgraph_prompt.worker.canary.record import CANARY
from trustgraph_prompt.worker.config.config_topic import messages
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.answer_record import Answer

log = logging.getLogger(__name__)

LONGEST_START = 300.0
"""Seconds before the first look, so that replicas that start together do not all look at once."""

SECONDS_BETWEEN_LOOKS = 3600.0

SLACK = 0.1
"""A topic is read in full when its first record is older than `keep_answers` by this share of it.

So a record is read some ten times in its life, however often workers start.
"""

MAX_OLD = 100_000
"""Keys that are found at once, some 20 MB. The next look, an hour later, finds the others."""

AT_ONCE = 100

SECONDS_TO_END = 10.0
"""For what is being deleted when the worker ends; the broker may be away."""


@dataclass(eq=False, repr=False)
class AnswerRetention:
    """Looks after the answer topics of those flows that set `keep_answers`."""

    broker: Broker
    producers: ProducerPool
    flows: Iterable[Flow]
    config_topic: str | None
    clock: Callable[[], float] = time

    async def run(self) -> None:
        """Look at the topics until cancelled."""
        kept = [flow for flow in self.flows if flow.keep_answers and flow.outputs.answers]
        await asyncio.gather(*map(self._look_after, kept))

    async def _look_after(self, flow: Flow) -> None:
        await asyncio.sleep(random.uniform(0, LONGEST_START))
        while True:
            pause = SECONDS_BETWEEN_LOOKS
            try:
                deleted = await self.delete_old(flow)
                if deleted is not None and deleted < MAX_OLD / 2:
                    pause = max(pause, SLACK * (flow.keep_answers or 0))
            except BrokerError as error:
                log.warning("flow %s: cannot delete old answer records now: %s", flow.name, error)
            except Exception:
                log.exception("internal error, old answer records of flow %s are not deleted", flow.name)
            await asyncio.sleep(pause)

    async def delete_old(self, flow: Flow) -> int | None:
        """Delete the old records of a flow; returns how many.

        None if none is old enough for a reading of the whole topic, or if another process does it. Raises
        `BrokerError`.
        """
        topic, keep = flow.outputs.answers, flow.keep_answers
        assert topic
        assert keep
        oldest = self.clock() - keep
        async with opened(self.broker.reader(topic)) as reader:
            first = await _next(reader)
            if first is None or first.published > oldest - SLACK * keep:
                return None
        # Only the consumer of this topic, which holds no messages, may delete.
        lock = topics.resolve(f"non-{topics.resolve(topic)}-keep-answers")
        try:
            async with opened(self.broker.consumer(lock, "keep-answers", type="exclusive")):
                await self.broker.compact(topic)
                before = min(oldest, await self._canaries_began(flow.workspace))
                async with opened(self.broker.reader(topic)) as reader:
                    send = partial(self.producers.send, topic)
                    return await _OldRecords(reader, send, flow.name, before).delete()
        except SubscriptionBusy:
            return None

    async def _canaries_began(self, workspace: str) -> float:
        """When the first of the running canaries began, whose answers are compared from then on."""
        if self.config_topic is None:
            return inf
        canaries = await messages(self.broker, workspace, topic=self.config_topic + CANARY)
        return min((canary.published for canary in canaries.values()), default=inf)


@dataclass(eq=False, repr=False)
class _OldRecords:
    """The keys whose last record, as far as the topic was read, is an old one of the flow."""

    reader: Reader
    send: Callable[..., Awaitable[None]]
    flow: str
    before: float
    keys: set[str] = field(default_factory=set)

    async def delete(self) -> int:
        """Delete them, once the topic was read to its end. Returns how many."""
        await self._read_on()
        count = 0
        while keys := list(islice(self.keys, AT_ONCE)):
            deleting = asyncio.create_task(self._delete(keys))
            try:
                count += await asyncio.shield(deleting)
            except asyncio.CancelledError:
                await asyncio.wait([deleting], timeout=SECONDS_TO_END)
                raise
            finally:
                deleting.cancel()
        if count:
            log.info("deleted %d answer records of flow %s", count, self.flow)
        return count

    async def _delete(self, keys: Iterable[str]) -> int:
        """Delete some keys; publishes again the records that come meanwhile, also if a deletion fails."""
        await self._read_on()  # a new record may have come
        keys = self.keys.intersection(keys)
        results = await asyncio.gather(*(self.send(b"", key=key) for key in keys), return_exceptions=True)
        overtaken = await self._read_on(keys)
        for record in overtaken:
            await self.send(record.data, key=record.key, properties=record.properties)
        for error in filter(None, results):
            raise error
        self.keys -= keys
        return len(keys) - len(overtaken)

    async def _read_on(self, deleted: Collection[str] = ()) -> Collection[Message]:
        """Read to the end of the topic; returns new records of `deleted` keys that the deletions overtook."""
        new: dict[str, Message] = {}
        overtaken: dict[str, Message] = {}
        while message := await _next(self.reader):
            if (key := message.key) is None:
                continue
            self.keys.discard(key)
            if self._is_old(message) and len(self.keys) < MAX_OLD:
                self.keys.add(key)
            if key in deleted and message.data:
                new[key] = message
                overtaken.pop(key, None)
            elif key in new:
                overtaken[key] = new.pop(key)
        return overtaken.values()

    def _is_old(self, message: Message) -> bool:
        if message.published >= self.before or not message.data:
            return False
        try:
            return Answer.decode(message.data).flow == self.flow
        except RequestError:
            return False


async def _next(reader: Reader) -> Message | None:
    """The next message, None at the end of the topic."""
    return await reader.receive() if await reader.behind() else None
