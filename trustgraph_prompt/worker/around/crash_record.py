"""Records which messages the workers of a subscription process, to find those that crash workers.

No broker counts crashes: Pulsar's redelivery count does not rise when a consumer crashes, and is reset when
the last consumer leaves (apache/pulsar#8722). Each worker has one entry in a compacted topic, under its own
name. The messages in the entry of a dead worker are suspects. To find out which of them is the cause, they
are processed in groups, which are halved after each crash. Only the crash of a group of one counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Set
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from time import time
from typing import Final
from uuid import uuid4

import orjson
from tenacity import wait_random, wait_random_exponential

from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.retrying import retrying
from trustgraph_prompt.worker.around.isolation import Isolation
from trustgraph_prompt.worker.retry_broker import retry_outages
from trustgraph_prompt.worker.timeouts import Timeouts

log = logging.getLogger(__name__)

SECONDS_TO_GATHER = 0.01
"""How long a new message waits for others, so that one entry records them all."""

SECONDS_TO_LIVE = 86_400.0
"""Age at which an entry is deleted: its worker is dead, and its messages will not be redelivered."""

IN_GROUP: Final = -1
"""Stands for the crashes of a suspect that runs in a group of several; an older release counts on from it."""

LONGEST_PAUSE = 10.0
"""Maximum seconds before the table is opened again after an error."""

OUTAGE_PAUSES: Final = wait_random(0.5, 1.0)
"""Between two tries to write an entry; no message is started before it is written."""


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """The messages that one worker processes: by id, how many workers they had crashed before.

    None for messages that run beside any others, `IN_GROUP` for suspects in a group of several: which of them
    caused a crash is then unknown.
    """

    crashes: Mapping[str, int | None] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Serialize as JSON."""
        return orjson.dumps(self.crashes)

    @classmethod
    def decode(cls, data: bytes) -> WorkRecord:
        """Parse a record. Raises `ValueError`."""
        read = orjson.loads(data) if data else {}
        if not isinstance(read, dict) or not all(n is None or type(n) is int for n in read.values()):
            raise ValueError("expected an object of integers")
        return cls(read)

    def without(self, ids: Set[str]) -> WorkRecord:
        return WorkRecord({id: n for id, n in self.crashes.items() if id not in ids})

    def largest_group(self, id: str) -> float:
        """How many suspects the message may be among when it is processed again."""
        crashes = self.crashes[id]
        if crashes == IN_GROUP:
            return ceil(sum(n == IN_GROUP for n in self.crashes.values()) / 2)
        return inf if crashes is None else 1


@dataclass(eq=False, slots=True)
class _Processing:
    """A message in progress: `published` in this worker's entry, or `disowned` as another worker's."""

    id: str
    crashes: int | None
    published: bool = False
    disowned: bool = False


@dataclass(eq=False, repr=False)
class CrashRecord:
    """The record of this worker and of all others for one subscription.

    Call `open` before receiving messages, and `close` when no more are received: later crashes do not count.
    """

    broker: Broker
    producers: ProducerPool
    topic: str
    isolation: Isolation
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        self._name = str(uuid4())
        self._others: dict[str, WorkRecord] = {}
        self._absolved: dict[str, set[str]] = {}
        self._rewritten: set[str] = set()
        self._held = 0
        self._processing: dict[_Processing, None] = {}  # in their order
        self._begun, self._changed = asyncio.Event(), asyncio.Event()
        self._unwritten: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    @property
    def others(self) -> int:
        """The number of other workers of the subscription, including dead ones."""
        return len(self._others)

    async def open(self) -> bool:
        """Write this worker's entry, and read and follow the others; returns False if it was open already.

        Raises `BrokerError`.
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
        """Delete this worker's entry. Idempotent."""
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        _resolve(self._unwritten)
        if tasks:
            with suppress(BrokerError):
                await self.producers.send(self.topic, b"", key=self._name)
            await self._rewrite()

    @asynccontextmanager
    async def working_on(self, id: str, ended: Callable[[], bool] = lambda: True) -> AsyncIterator[int]:
        """Record a message during the block; yields how many workers it has crashed while processed alone.

        Afterwards it is no suspect any more, unless it has not `ended` and is processed again.
        """
        if is_suspect := self._is_suspect(id):
            with self.isolation.other():
                # It may only have been redelivered: a living worker that processes it, too, disowns it now.
                async with self._recorded(id, None):
                    await asyncio.sleep(self.timeouts.disown)
            is_suspect = self._is_suspect(id)
        if not is_suspect:
            if self.is_isolating:
                await self._until_all_may_run()
            with self.isolation.other():
                async with self._recorded(id, None):
                    yield 0
            return
        records = [record for record in self._others.values() if id in record.crashes]
        crashes = max(IN_GROUP if (n := record.crashes[id]) is None else n for record in records) + 1
        async with self.isolation.suspect(min(record.largest_group(id) for record in records)) as size:
            async with self._recorded(id, crashes if size == 1 else IN_GROUP):
                yield crashes
            if ended():
                self._absolve(id)
            await self._write()  # else the next group's crash would count against this message, too

    @property
    def why_holding(self) -> str | None:
        """Why a message waits for suspects and no other must be received; None if none waits."""
        return self.isolation.why if self._held else None

    @property
    def is_isolating(self) -> bool:
        """Whether there are suspects in the process."""
        return self.isolation.why is not None

    async def until_not_holding(self) -> None:
        """Wait until another message may be received."""
        await asyncio.sleep(0)  # the last message starts, or is held
        if self._held:
            await self.isolation.until_over()

    async def _until_all_may_run(self) -> None:
        self._held += 1
        try:
            await self.isolation.until_over()
        finally:
            self._held -= 1

    def _is_suspect(self, id: str) -> bool:
        return any(id in record.crashes for record in self._others.values())

    def _absolve(self, id: str) -> None:
        """Remove a message that did not crash this worker from the entries of dead workers."""
        for name, record in self._others.items():
            if id in record.crashes:
                self._absolved.setdefault(name, set()).add(id)
                self._others[name] = record.without({id})
                self._rewritten.add(name)
                self._changed.set()

    @asynccontextmanager
    async def _recorded(self, id: str, crashes: int | None) -> AsyncIterator[None]:
        """Record a message in this worker's entry; the block starts once that is durable."""
        self._processing[processing := _Processing(id, crashes)] = None
        try:
            await self._write()
            yield
        finally:
            del self._processing[processing]
            self._changed.set()

    async def _write(self) -> None:
        """Have this worker's entry written now, and wait until that is durable. After `close` it has none."""
        if self._closed:
            await self._rewrite()
        elif self._tasks:
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unwritten.append(written)
            self._begun.set()
            self._changed.set()
            await written

    async def _keep_written(self) -> None:
        """Publish this worker's entry when it changes."""
        while True:
            await self._changed.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._begun.wait(), self.timeouts.write_ends)
            await asyncio.sleep(SECONDS_TO_GATHER)
            self._begun.clear()
            self._changed.clear()
            written, self._unwritten = self._unwritten, []
            try:
                await self._send(self._name, self._record().encode())
            finally:
                _resolve(written)
            await self._rewrite()

    async def _rewrite(self) -> None:
        """Publish the entries of dead workers without the messages that were absolved here."""
        while self._rewritten:
            record = self._others.get(name := self._rewritten.pop(), WorkRecord())
            await self._send(name, record.encode() if record.crashes else b"")

    def _record(self) -> WorkRecord:
        recorded: dict[str, int | None] = {}
        for each in self._processing:
            if not each.disowned:
                recorded[each.id] = recorded.get(each.id) if each.crashes is None else each.crashes
        return WorkRecord(recorded)

    async def _send(self, name: str, entry: bytes) -> None:
        """Publish an entry, with retries during outages; empty data deletes it."""
        send = partial(self.producers.send, self.topic, entry, key=name)
        try:
            await retry_outages(send, wait=OUTAGE_PAUSES)
        except BrokerError as error:
            log.error("cannot record the messages in progress, crashes are not counted: %s", error)
        except Exception:
            log.exception("internal error, the messages in progress are not recorded")

    async def _read(self) -> Table:
        """Read the entries of all workers."""
        table = await self.broker.table(self.topic)
        for name in self._others.keys() - table.entries.keys():
            del self._others[name]
        for entry in list(table.entries.values()):
            self._update(entry)
            if entry.published < time() - SECONDS_TO_LIVE:
                await self._send(entry.key or "", b"")
        return table

    async def _follow(self, table: Table) -> None:
        """Follow the entries of all workers."""
        while True:
            try:
                async with aclosing(table.changes()) as entries:
                    async for entry in entries:
                        self._update(entry)
                return
            except BrokerError as error:
                log.warning("%s: %s; the topic is read again", self.topic, error)
            finally:
                with suppress(BrokerError):
                    await table.close()
            table = await retrying(self._read, wait=wait_random_exponential(max=LONGEST_PAUSE))

    def _update(self, entry: Message) -> None:
        """Update an entry; disown the messages that another worker has started after this one."""
        if (name := entry.key) is None:
            return
        try:
            record = WorkRecord.decode(entry.data)
        except ValueError as error:
            log.warning("%s: invalid entry %s ignored: %s", self.topic, name, error)
            return
        if name == self._name:
            for each in self._processing:
                each.published |= each.id in record.crashes
            if not entry.data and not self._closed:  # another worker took this one for dead
                self._changed.set()
            return
        if stale := record.crashes.keys() & self._absolved.get(name, set()):
            self._absolved[name] -= stale  # if they come again, the worker is alive and processes them
            record = record.without(stale)
            self._rewritten.add(name)
            self._changed.set()
        before = self._others.pop(name, WorkRecord()).crashes.keys()
        if entry.data:
            self._others[name] = record
        begun = record.crashes.keys() - before
        for each in self._processing:
            if each.published and not each.disowned and each.id in begun:
                each.disowned = True
                self._changed.set()


def _resolve(written: list[asyncio.Future[None]]) -> None:
    for future in written:
        if not future.done():
            future.set_result(None)
