"""Records which messages the workers of a subscription process, to find those that crash workers.

No broker counts crashes: Pulsar's redelivery count does not rise when a consumer crashes, and is reset when
the last consumer leaves (apache/pulsar#8722). Each worker has one entry in a compacted topic, under its own
name. The messages in the entry of a dead worker are suspects. To find out which of them is the cause, each is
processed alone, and only a crash during that counts.
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
from trustgraph_prompt.worker.retry_broker import retry_outages

log = logging.getLogger(__name__)

SECONDS_TO_GATHER = 0.01
"""How long a new message waits for others, so that one entry records them all."""

SECONDS_UNTIL_ENDS_ARE_WRITTEN = 1.0
"""Delay is cheap: a finished message that is still recorded is only processed alone after a crash."""

SECONDS_TO_DISOWN = 2.0
"""How long another worker may take to disown a message that was merely redelivered to this one."""

SECONDS_TO_LIVE = 86_400.0
"""Age at which an entry is deleted: its worker is dead, and its messages will not be redelivered."""

LONGEST_PAUSE = 10.0
"""Maximum seconds before the table is opened again after an error."""

OUTAGE_PAUSES: Final = wait_random(0.5, 1.0)
"""Between two tries to write an entry; no message is started before it is written."""


class SharedExclusiveLock:
    """A lock with shared and exclusive holders; waiting exclusive holders take precedence."""

    def __init__(self) -> None:
        self._shared = self._exclusive = 0
        self._turn = asyncio.Lock()
        self._no_shared, self._no_exclusive = asyncio.Event(), asyncio.Event()
        self._no_shared.set()
        self._no_exclusive.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        while self._exclusive:
            await self._no_exclusive.wait()
        self._shared += 1
        self._no_shared.clear()
        try:
            yield
        finally:
            self._shared -= 1
            if not self._shared:
                self._no_shared.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        self._exclusive += 1
        self._no_exclusive.clear()
        try:
            async with self._turn:
                await self._no_shared.wait()
                yield
        finally:
            self._exclusive -= 1
            if not self._exclusive:
                self._no_exclusive.set()


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """The messages that one worker processes: by id, how many workers they had crashed before.

    None for messages that are processed concurrently with others: a crash then proves nothing.
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

    def without(self, id: str) -> WorkRecord:
        return WorkRecord({other: n for other, n in self.crashes.items() if other != id})


class CrashRecord:
    """The record of this worker and of all others for one subscription.

    Call `open` before receiving messages, and `close` when no more are received: later crashes do not count.
    """

    def __init__(
        self,
        broker: Broker,
        producers: ProducerPool,
        topic: str,
        lock: SharedExclusiveLock,
        *,
        clock: Callable[[], float] = time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._broker = broker
        self._producers = producers
        self.topic = topic
        self._lock = lock
        self._clock = clock
        self._sleep = sleep
        self._name = str(uuid4())
        self._others: dict[str, WorkRecord] = {}
        self._processing: dict[object, tuple[str, int | None]] = {}
        self._published: set[object] = set()
        self._disowned: set[object] = set()
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
                await self._producers.send(self.topic, b"", key=self._name)

    @asynccontextmanager
    async def working_on(self, id: str, ended: Callable[[], bool] = lambda: True) -> AsyncIterator[int]:
        """Record a message during the block; yields how many workers it has crashed while processed alone.

        Afterwards it is no suspect any more, unless it has not `ended` and is processed again.
        """
        if self._is_suspect(id):
            async with self._recorded(id, None):
                await self._sleep(SECONDS_TO_DISOWN)
        if not self._is_suspect(id):
            async with self._lock.shared(), self._recorded(id, None):
                yield 0
            return
        async with self._lock.exclusive():
            before = (record.crashes.get(id) for record in self._others.values())
            crashes = max((n + 1 for n in before if n is not None), default=0)
            async with self._recorded(id, crashes):
                yield crashes
            if ended():
                await self._absolve(id)

    def _is_suspect(self, id: str) -> bool:
        return any(id in record.crashes for record in self._others.values())

    async def _absolve(self, id: str) -> None:
        """Remove a message that did not crash this worker from the entries of dead workers."""
        for name, record in list(self._others.items()):
            if id in record.crashes:
                self._others[name] = without = record.without(id)
                await self._send(name, without.encode() if without.crashes else b"")

    @asynccontextmanager
    async def _recorded(self, id: str, crashes: int | None) -> AsyncIterator[None]:
        """Record a message in this worker's entry; the block starts once that is durable."""
        self._processing[ticket := object()] = id, crashes
        try:
            if self._tasks:
                written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._unwritten.append(written)
                self._begun.set()
                self._changed.set()
                await written
            yield
        finally:
            del self._processing[ticket]
            self._published.discard(ticket)
            self._disowned.discard(ticket)
            self._changed.set()

    async def _keep_written(self) -> None:
        """Publish this worker's entry when it changes."""
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

    def _record(self) -> WorkRecord:
        recorded: dict[str, int | None] = {}
        for ticket, (id, crashes) in self._processing.items():
            if ticket not in self._disowned:
                recorded[id] = recorded.get(id) if crashes is None else crashes
        return WorkRecord(recorded)

    async def _send(self, name: str, entry: bytes) -> None:
        """Publish an entry, with retries during outages; empty data deletes it."""
        send = partial(self._producers.send, self.topic, entry, key=name)
        try:
            await retry_outages(send, self._sleep, OUTAGE_PAUSES)
        except BrokerError as error:
            log.error("cannot record the messages in progress, crashes are not counted: %s", error)
        except Exception:
            log.exception("internal error, the messages in progress are not recorded")

    async def _read(self) -> Table:
        """Read the entries of all workers."""
        table = await self._broker.table(self.topic)
        for name in self._others.keys() - table.entries.keys():
            del self._others[name]
        for entry in list(table.entries.values()):
            self._update(entry)
            if entry.published < self._clock() - SECONDS_TO_LIVE:
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
            table = await retrying(
                self._read, wait=wait_random_exponential(max=LONGEST_PAUSE), sleep=self._sleep
            )

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
            self._published.update(self._tickets(record.crashes.keys()))
            if not entry.data and not self._closed:  # another worker took this one for dead
                self._changed.set()
            return
        before = self._others.pop(name, WorkRecord()).crashes.keys()
        if entry.data:
            self._others[name] = record
        begun = record.crashes.keys() - before
        taken = self._published & self._tickets(begun)
        if not taken <= self._disowned:
            self._disowned |= taken
            self._changed.set()

    def _tickets(self, ids: Set[str]) -> set[object]:
        return {ticket for ticket, (id, _) in self._processing.items() if id in ids}


def _resolve(written: list[asyncio.Future[None]]) -> None:
    for future in written:
        if not future.done():
            future.set_result(None)
