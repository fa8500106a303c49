"""Runs steps on SQLite in one thread; steps that arrive during a commit share the next one.

So the event loop never waits for a disk, and many small steps cost one `fsync`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trustgraph_prompt.broker.embedded import schema
from trustgraph_prompt.broker.embedded.database_file import DatabaseFile, check_beside
from trustgraph_prompt.broker.embedded.lock_holder import holder
from trustgraph_prompt.broker.embedded.store import Store
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable

T = TypeVar("T")

#: Seconds to wait for a commit of another process.
BUSY_SECONDS: Final = 30.0
_LARGEST_BATCH: Final = 256


class Effect(enum.IntEnum):
    """What a step does to the file, which decides how its transaction is committed."""

    READ = 0
    WRITE = 1
    DURABLE = 2  # on disk before it is confirmed; a lost WRITE only causes a redelivery


@dataclass(slots=True)
class _PendingStep:
    run: Callable[[Store], Any]
    effect: Effect
    result: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None

    def set_result(self) -> None:
        if self.result.done():
            return
        if self.error is None:
            self.result.set_result(self.value)
        else:
            self.result.set_exception(self.error)


class Engine:
    """Runs steps on the store, in order, each inside a transaction.

    `committed` is called in the engine's thread with the topics that a commit changed.
    """

    def __init__(
        self, path: str, committed: Callable[[Store, set[int]], None], clock: Callable[[], float]
    ) -> None:
        self._path = path
        self._clock = clock
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._steps: queue.SimpleQueue[_PendingStep | None] = queue.SimpleQueue()
        self._closed = False
        self._could_write = True
        self._thread = threading.Thread(target=self._main, name=f"broker {path}", daemon=True)
        self._thread.start()

    async def run(self, step: Callable[[Store], T], effect: Effect = Effect.WRITE) -> T:
        """Run a step; returns its result once it is committed. Raises its error, or `BrokerUnavailable`."""
        if self._closed:
            raise BrokerClosed(f"{self._path}: the broker has been closed")
        result: asyncio.Future[T] = self._loop.create_future()
        self._steps.put(_PendingStep(step, effect, result))
        return await result

    async def check(self, look: Callable[[Store], None]) -> None:
        """Raise the error of `look`, or `BrokerUnavailable` if a message sent now might be lost."""

        def step(store: Store) -> None:
            self._place.check()
            self._place.check_room()
            if not self._could_write:
                store.rewrite()
            look(store)

        await self.run(step, Effect.READ if self._could_write else Effect.WRITE)

    async def close(self) -> None:
        """Finish pending steps, then close the file."""
        if not self._closed:
            self._closed = True
            self._steps.put(None)
        await asyncio.to_thread(self._thread.join)

    def _main(self) -> None:
        try:
            database = self._open()
            self._place = DatabaseFile(self._path)
        except Exception as error:  # also for an invalid path; pending steps must fail
            self._refuse(BrokerUnavailable(f"{self._path}: cannot be opened: {error}"))
            return
        with contextlib.closing(database):
            store = Store(database, self._clock)
            while batch := self._next_batch():
                self._commit(database, store, batch)

    def _open(self) -> sqlite3.Connection:
        if self._path != ":memory:":
            check_beside(self._path)
            _create_private(self._path)
        database = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            database.execute("BEGIN")  # consistent, even if another process is creating the tables
            schema.check(database)
            database.execute("COMMIT")
            _enable_wal(database)
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("PRAGMA user_version").fetchone()  # creates the files of the WAL
        except BaseException:
            database.close()
            raise
        return database

    def _next_batch(self) -> list[_PendingStep]:
        batch: list[_PendingStep] = []
        step = self._steps.get()
        while step is not None:
            batch.append(step)
            if len(batch) == _LARGEST_BATCH or self._steps.empty():
                return batch
            step = self._steps.get()
        if batch:
            self._steps.put(None)
        return batch

    def _commit(self, database: sqlite3.Connection, store: Store, batch: list[_PendingStep]) -> None:
        effect = max(step.effect for step in batch)
        store.touched = set()
        try:
            self._place.check_at_times()
            database.execute(f"PRAGMA synchronous = {'FULL' if effect is Effect.DURABLE else 'NORMAL'}")
            database.execute("BEGIN" if effect is Effect.READ else "BEGIN IMMEDIATE")
            for step in batch:
                self._do(step, database, store)
            database.execute("COMMIT")
        except Exception as error:
            self._roll_back(database, batch, error)
        else:
            # The event loop may have ended without closing the broker, or another process may hold the file.
            # Its listeners look by themselves within a second.
            with contextlib.suppress(RuntimeError, sqlite3.Error):
                if store.touched:
                    self._committed(store, store.touched)
        if effect is not Effect.READ:
            self._could_write = not any(isinstance(step.error, BrokerUnavailable) for step in batch)
        self._deliver(batch)

    def _do(self, step: _PendingStep, database: sqlite3.Connection, store: Store) -> None:
        """Run one step. An error rolls back this step only."""
        database.execute("SAVEPOINT step")
        try:
            step.value = step.run(store)
        except Exception as error:
            if not database.in_transaction:  # SQLite has rolled back everything, for example on a full disk
                raise
            step.error = self._broker_error(error)
            database.execute("ROLLBACK TO step")
        database.execute("RELEASE step")

    def _broker_error(self, error: Exception) -> BrokerError:
        if isinstance(error, BrokerError):
            return error
        kind = BrokerUnavailable if isinstance(error, sqlite3.Error) else BrokerError
        text = f"{self._path}: {error}"
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            # For example by a process that was suspended during a commit.
            text += f" by {holder(self._path) or 'another process'} for {BUSY_SECONDS:g} s"
        ours = kind(text)
        ours.__cause__ = error
        return ours

    def _roll_back(self, database: sqlite3.Connection, batch: list[_PendingStep], error: Exception) -> None:
        with contextlib.suppress(sqlite3.Error):
            if database.in_transaction:
                database.execute("ROLLBACK")
        for step in batch:
            step.error = step.error or self._broker_error(error)

    def _refuse(self, error: BrokerError) -> None:
        while batch := self._next_batch():
            for step in batch:
                step.error = error
            self._deliver(batch)

    def _deliver(self, batch: list[_PendingStep]) -> None:
        """Set the results of steps in the event loop."""
        with contextlib.suppress(RuntimeError):  # the loop ended without closing its broker
            self._loop.call_soon_threadsafe(_set_results, batch)


def _create_private(path: str) -> None:
    """Create a new file for its owner alone, as it holds prompts. SQLite's other files inherit that."""
    with contextlib.suppress(OSError):  # SQLite reports errors, except that the file exists
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _enable_wal(database: sqlite3.Connection) -> None:
    """Enable the write-ahead log. Retries, as SQLite does not wait for another process that does the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _set_results(batch: Iterable[_PendingStep]) -> None:
    for step in batch:
        step.set_result()
