"""What the workers of a subscription have in work: a record that outlives them and tells what they died of.

No broker counts this: Pulsar's redelivery count does not rise when a consumer crashes, and is cleared when
the last one leaves (apache/pulsar#8722). Each worker keeps one entry of a compacted topic, under its own
name. What stands in the entry of another was in work when that one died. Nobody knows which of many requests
was the culprit: each is worked on alone, with nothing beside it, and only a crash during that counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Set
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Final
from uuid import uuid4

import orjson
from tenacity import wait_random, wait_random_exponential

from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.retrying import retrying
from trustgraph_prompt.worker.backoff import through_outages

log = logging.getLogger(__name__)

SECONDS_TO_GATHER = 0.01
"""So long the first that begins waits for others, to be written down with them."""

SECONDS_UNTIL_ENDS_ARE_WRITTEN = 1.0
"""What has ended and still stands there costs no more than to be worked on alone."""

SECONDS_TO_DISOWN = 2.0
"""So long another worker may take to say that it is alive, and that a message was only delivered anew."""

SECONDS_TO_LIVE = 86_400.0
"""After which an entry is of a worker that died, and of messages that will not come again."""

LONGEST_PAUSE = 10.0
"""Seconds before the table is opened again after it was lost."""

OUTAGE_PAUSES: Final = wait_random(0.5, 1.0)
"""Between two tries to write an entry: nothing begins before that."""


class WorkAlone:
    """Lets messages be worked on side by side, or one alone; who waits to be alone goes before all others."""

    def __init__(self) -> None:
        self._side_by_side = self._wanted = 0
        self._turn = asyncio.Lock()
        self._empty, self._open = asyncio.Event(), asyncio.Event()
        self._empty.set()
        self._open.set()

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        while self._wanted:
            await self._open.wait()
        self._side_by_side += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._side_by_side -= 1
            if not self._side_by_side:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self._wanted += 1
        self._open.clear()
        try:
            async with self._turn:
                await self._empty.wait()
                yield
        finally:
            self._wanted -= 1
            if not self._wanted:
                self._open.set()


@dataclass(frozen=True, slots=True)
class Record:
    """The ids of the messages that one worker has in work, each with how often one has died of it before.

    None for those that are worked on beside others, of which nothing follows.
    """

    crashes: Mapping[str, int | None] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON."""
        return orjson.dumps(self.crashes)

    @classmethod
    def decode(cls, data: bytes) -> Record:
        """Raises `ValueError` for what no worker has written."""
        read = orjson.loads(data) if data else {}
        if not isinstance(read, dict) or not all(n is None or type(n) is int for n in read.values()):
            raise ValueError("expected an object of numbers")
        return cls(read)

    def without(self, id: str) -> Record:
        return Record({other: n for other, n in self.crashes.items() if other != id})


class CrashRecord:
    """What this worker has in work of one subscription, and what those that died had.

    `open` it before anything is received, `close` it when nothing is received any more: from then on a
    crash counts for nothing.
    """

    def __init__(
        self,
        broker: Broker,
        producers: ProducerPool,
        topic: str,
        solitude: WorkAlone,
        *,
        clock: Callable[[], float] = time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._broker = broker
        self._producers = producers
        self.topic = topic
        self._solitude = solitude
        self._clock = clock
        self._sleep = sleep
        self._name = str(uuid4())
        self._others: dict[str, Record] = {}
        self._held: dict[object, tuple[str, int | None]] = {}
        self._published: set[object] = set()
        self._disowned: set[object] = set()
        self._begun, self._changed = asyncio.Event(), asyncio.Event()
        self._unwritten: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    @property
    def others(self) -> int:
        """How many workers of the subscription there are beside this one, or were, and died."""
        return len(self._others)

    async def open(self) -> bool:
        """Say that this worker is there, learn what others have in work, and follow it.

        Returns whether it was not open yet. Raises `BrokerError`.
        """
        if self._tasks:
            return False
        table = await self._read()
        if self._closed:
            await table.close()
            return False
        self._tasks = [asyncio.create_task(self._follow(table)), asyncio.create_task(self._keep_written())]
        await self._send(self._name, self._record().encode())
        return True

    async def close(self) -> None:
        """From now on a crash is nobody's fault. Idempotent."""
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        _resolve(self._unwritten)
        if tasks:
            with suppress(BrokerError):
                await self._producers.send(self.topic, b"", key=self._name)

    @asynccontextmanager
    async def working_on(self, id: str, ended: Callable[[], bool] = lambda: True) -> AsyncIterator[int]:
        """Written down while the block runs; gives how many workers died of the message alone.

        A suspect is one no more after the block, unless the message has not `ended` and is worked on again.
        """
        if self._is_suspect(id):
            async with self._noted(id, None):
                await self._sleep(SECONDS_TO_DISOWN)
        if not self._is_suspect(id):
            async with self._solitude.beside_others(), self._noted(id, None):
                yield 0
            return
        async with self._solitude.alone():
            crashes = self._died_of(id)
            async with self._noted(id, crashes):
                yield crashes
            if ended():
                await self._absolve(id)

    def _is_suspect(self, id: str) -> bool:
        return any(id in record.crashes for record in self._others.values())

    def _died_of(self, id: str) -> int:
        before = (record.crashes.get(id) for record in self._others.values())
        return max((n + 1 for n in before if n is not None), default=0)

    async def _absolve(self, id: str) -> None:
        """The message has ended without a crash: it is a suspect no more."""
        for name, record in list(self._others.items()):
            if id in record.crashes:
                self._others[name] = without = record.without(id)
                await self._send(name, without.encode() if without.crashes else b"")

    @asynccontextmanager
    async def _noted(self, id: str, crashes: int | None) -> AsyncIterator[None]:
        """In this worker's entry while the block runs, which begins once that is durable."""
        self._held[ticket := object()] = id, crashes
        try:
            if self._tasks:
                written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._unwritten.append(written)
                self._begun.set()
                self._changed.set()
                await written
            yield
        finally:
            del self._held[ticket]
            self._published.discard(ticket)
            self._disowned.discard(ticket)
            self._changed.set()

    async def _keep_written(self) -> None:
        """Keep this worker's entry as things are."""
        while True:
            await self._changed.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._begun.wait(), SECONDS_UNTIL_ENDS_ARE_WRITTEN)
            await self._sleep(SECONDS_TO_GATHER)
            self._begun.clear()
            self._changed.clear()
            written, self._unwritten = self._unwritten, []
            try:
                await self._send(self._name, self._record().encode())
            finally:
                _resolve(written)

    def _record(self) -> Record:
        held: dict[str, int | None] = {}
        for ticket, (id, crashes) in self._held.items():
            if ticket not in self._disowned:
                held[id] = held.get(id) if crashes is None else crashes
        return Record(held)

    async def _send(self, name: str, entry: bytes) -> None:
        """Publish an entry, through outages; empty deletes it. What is not taken is not counted."""
        send = partial(self._producers.send, self.topic, entry, key=name)
        try:
            await through_outages(send, self._sleep, OUTAGE_PAUSES)
        except BrokerError as error:
            log.error("what is in work is not written down, and crashes are not counted: %s", error)
        except Exception:
            log.exception("this is a defect of the worker; what is in work is not written down")

    async def _read(self) -> Table:
        """Learn what all others have in work now."""
        table = await self._broker.table(self.topic)
        for name in self._others.keys() - table.entries.keys():
            del self._others[name]
        for entry in list(table.entries.values()):
            self._hear(entry)
            if entry.published < self._clock() - SECONDS_TO_LIVE:
                await self._send(entry.key or "", b"")
        return table

    async def _follow(self, table: Table) -> None:
        """Learn what others begin and end."""
        while True:
            try:
                async with aclosing(table.changes()) as entries:
                    async for entry in entries:
                        self._hear(entry)
                return
            except BrokerError as error:
                log.warning("%s: %s; it is read again", self.topic, error)
            finally:
                with suppress(BrokerError):
                    await table.close()
            table = await retrying(
                self._read, wait=wait_random_exponential(max=LONGEST_PAUSE), sleep=self._sleep
            )

    def _hear(self, entry: Message) -> None:
        """Take note of an entry; what another has begun after us is not what we could die of."""
        if (name := entry.key) is None:
            return
        try:
            record = Record.decode(entry.data)
        except ValueError as error:
            log.warning("%s: an entry that no worker has written: %s", self.topic, error)
            return
        if name == self._name:
            self._published.update(self._tickets(record.crashes.keys()))
            if not entry.data and not self._closed:  # another took it for one of a worker that died
                self._changed.set()
            return
        before = self._others.pop(name, Record()).crashes.keys()
        if entry.data:
            self._others[name] = record
        begun = record.crashes.keys() - before
        taken = self._published & self._tickets(begun)
        if not taken <= self._disowned:
            self._disowned |= taken
            self._changed.set()

    def _tickets(self, ids: Set[str]) -> set[object]:
        return {ticket for ticket, (id, _) in self._held.items() if id in ids}


def _resolve(written: list[asyncio.Future[None]]) -> None:
    for future in written:
        if not future.done():
            future.set_result(None)
