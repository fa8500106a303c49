"""The report topic of a config topic: rejected entries, running workers, and the pushes they applied.

Compacted. The key of a rejected entry has the error, an empty message if it is valid again. The key of each
worker (`worker:<name>`) has its `Announcement`, deleted when the worker stops. `worker:files/<workspace>`
has the system message in the files of the worker that started last: versions in the history depend on it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from time import time
from typing import Final
from uuid import uuid4

import orjson

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.broker.opened import opened
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerError, ConfigError

log = logging.getLogger(__name__)

REPORT: Final = "-report"
"""Suffix of the config topic's name."""

WORKER: Final = "worker:"

FILES: Final = f"{WORKER}files/"
"""Begins the key of the system message in files. Earlier releases take it for a worker that has stopped."""

REFUSED_CANARY: Final = "canary:"
"""Begins the key of a rejected canary, so that it is not that of the entry."""

SECONDS_BETWEEN_ANNOUNCEMENTS = 60.0
ANNOUNCEMENT_LIFETIME = 180.0
"""Seconds after which a worker that has not repeated its announcement is considered dead."""

SECONDS_FOR_A_REPORT = 5.0
"""Timeout of one report. Reports wait and are repeated; the worker is ready without them."""

SECONDS_FOR_LAST_REPORTS = 1.0
"""For unsent reports when the worker stops."""

PUSHES_KEPT = 20
KEYS_NAMED = 10


@dataclass(frozen=True, slots=True)
class Announcement:
    """A worker that follows the config topic: the workspaces it serves, and its latest pushes by id.

    Each push has the keys of the entries that the worker rejected, at most `KEYS_NAMED`.
    """

    workspaces: Collection[str] = ()
    pushes: Mapping[str, Collection[str]] = field(default_factory=dict)

    def encode(self) -> bytes:
        pushes = {id: list(refused) for id, refused in self.pushes.items()}
        return wire.encode({"workspaces": list(self.workspaces), "pushes": pushes})

    @classmethod
    def decode(cls, message: Message) -> Announcement | None:
        """Parse an entry; None if it is not a worker's, empty if the worker has stopped."""
        if message.key is None or not message.key.startswith(WORKER):
            return None
        try:
            read = orjson.loads(message.data) if message.data else {"workspaces": [], "pushes": {}}
            return cls(
                [str(workspace) for workspace in read["workspaces"]],
                {str(id): [str(key) for key in refused] for id, refused in read["pushes"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None  # a message of another program


class Reports:
    """Sends the reports of one worker in the background, so that no push waits for them.

    Failed reports are repeated; of several with one key only the last is sent.
    """

    def __init__(self, producers: ProducerPool, config_topic: str, workspaces: Iterable[str]) -> None:
        self._producers = producers
        self._topic = config_topic + REPORT
        self._workspaces = tuple(workspaces)
        self._key = f"{WORKER}{socket.gethostname()}-{uuid4().hex[:8]}"
        self._pushes: dict[str, Collection[str]] = {}
        self._unsent: dict[str, bytes] = {}
        self._added = asyncio.Event()
        self._ended = False
        self._sending: asyncio.Task[None] | None = None

    def announce(self, pushes: Mapping[str, Collection[str]]) -> None:
        """Report that this worker has applied these pushes, each with the keys it rejected."""
        if self._ended:
            return
        self._pushes |= {id: list(islice(refused, KEYS_NAMED)) for id, refused in pushes.items()}
        self._pushes = dict(list(self._pushes.items())[-PUSHES_KEPT:])
        self._report(self._key, self._announcement())

    def files(self, system: str) -> None:
        """Report the system message in the files of this worker, as an entry."""
        record = wire.encode({"workspaces": [], "pushes": {}, "system": system})
        for workspace in self._workspaces:
            self._report(f"{FILES}{workspace}", record)

    def judged(self, repaired: Iterable[str], refused: Mapping[str, ConfigError]) -> None:
        """Report which keys are no longer rejected, and which have a new error."""
        for key in repaired:
            self._report(key, b"")
        for key, error in refused.items():
            found = None if error.found is None else str(error.found)[:200]
            record = {"key": key, "where": error.where, "path": error.path, "message": error.message}
            self._report(key, wire.encode(record | {"found": found, "expected": error.expected}))

    async def close(self) -> None:
        """Report that the worker has stopped, and end. Idempotent."""
        if self._sending is None:
            return
        self._ended = True
        self._report(self._key, b"")
        await asyncio.wait([self._sending], timeout=SECONDS_FOR_LAST_REPORTS)
        self._sending.cancel()

    def _announcement(self) -> bytes:
        return Announcement(self._workspaces, self._pushes).encode()

    def _report(self, key: str, record: bytes) -> None:
        self._unsent.pop(key, None)
        self._unsent[key] = record
        self._added.set()
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name=f"reports on {self._topic}")

    async def _send_all(self) -> None:
        failures = 0
        while True:
            last = self._ended
            self._added.clear()
            failures = 0 if await self._send_unsent() else failures + 1
            if last:
                return
            pause = SECONDS_BETWEEN_ANNOUNCEMENTS
            if failures:
                pause = min(pause, 2.0 ** min(failures - 1, 10))  # no overflow after hours of failures
            try:
                await asyncio.wait_for(self._added.wait(), pause)
            except TimeoutError:
                if not failures:
                    self._unsent.setdefault(self._key, self._announcement())

    async def _send_unsent(self) -> bool:
        """Send what is unsent; returns whether all of it was sent."""
        unsent, self._unsent = self._unsent, {}
        for key, record in unsent.items():
            try:
                async with asyncio.timeout(SECONDS_FOR_A_REPORT):
                    await self._producers.send(self._topic, record, key=key)
            except (BrokerError, TimeoutError) as error:
                self._unsent = {key: record} | self._unsent
                log.warning("%s: cannot send the report %s: %s", self._topic, key, error or "no answer")
        return not self._unsent


class ReportListener:
    """Receives what the workers of a workspace report about a push. Open it before the push."""

    def __init__(self, table: Table, workspace: str) -> None:
        self._table = table
        self._workspace = workspace
        self.workers: dict[str, float] = {}
        """When each worker of the workspace last announced itself, by key; seconds since the epoch."""
        self.others: dict[str, Collection[str]] = {}
        """The workspaces that all other workers serve, by key."""
        self.refusals: dict[str, bytes] = {}
        """The reports of rejected entries, by key, unchecked."""
        since = time() - ANNOUNCEMENT_LIFETIME
        for message in table.entries.values():
            if message.published > since or not (message.key or "").startswith(WORKER):
                self._receive(message)

    @classmethod
    async def open(cls, broker: Broker, config_topic: str, workspace: str) -> ReportListener:
        """Subscribe to the report topic. Raises `BrokerError`."""
        return cls(await broker.table(config_topic + REPORT), workspace)

    async def answers(self, push: str, seconds: float) -> dict[str, Collection[str] | None]:
        """Wait for all workers; returns what each rejected of a push, None if it did not answer in time.

        Workers that stop meanwhile are left out. Raises `BrokerError`.
        """
        answers: dict[str, Collection[str]] = {}
        if not self.workers:
            return {}
        try:
            async with asyncio.timeout(seconds), aclosing(self._table.changes()) as changes:
                async for message in changes:
                    announcement = self._receive(message)
                    if announcement and push in announcement.pushes:
                        answers[message.key or ""] = announcement.pushes[push]
                    if self.workers.keys() <= answers.keys():
                        break
        except TimeoutError:
            pass
        return {name: answers.get(name) for name in sorted(self.workers.keys() | answers.keys())}

    async def close(self) -> None:
        """End the subscription."""
        await self._table.close()

    def _receive(self, message: Message) -> Announcement | None:
        key, announcement = message.key or "", Announcement.decode(message)
        if announcement is None:
            self.refusals[key] = message.data
            return None
        self.workers.pop(key, None)
        self.others.pop(key, None)
        if self._workspace in announcement.workspaces:
            self.workers[key] = message.published
        elif announcement.workspaces:
            self.others[key] = announcement.workspaces
        return announcement


def system_of_files(reports: Mapping[str, Message], workspace: str) -> str | None:
    """The system message in the files of a workspace's workers, if one has reported it."""
    try:
        return str(orjson.loads(reports[f"{FILES}{workspace}"].data)["system"])
    except (ValueError, TypeError, KeyError):
        return None


async def refused_keys(broker: Broker, config_topic: str) -> set[str]:
    """The keys of the entries that workers have rejected. Raises `BrokerError`."""
    async with opened(broker.table(config_topic + REPORT)) as table:
        return {key for key in table.entries if not key.startswith(WORKER)}
