"""The report topic of a config topic: which entries are refused, which workers there are, what they took.

Compacted. The key of an entry that is refused has the reason; an empty message says that it is mended. The
key of each worker (`worker:<name>`) has its `Announcement`, deleted when the worker ends.
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
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerError, ConfigError

log = logging.getLogger(__name__)

REPORT: Final = "-report"
"""What the name of the report topic adds to that of its config topic."""

WORKER: Final = "worker:"

SECONDS_BETWEEN_ANNOUNCEMENTS = 60.0
SECONDS_TO_BELIEVE_THEM = 180.0
"""After which a worker that has not repeated its announcement was killed."""

SECONDS_FOR_A_REPORT = 5.0
"""The worker is ready all the same where the report topic takes nothing; what was to be said waits."""

SECONDS_FOR_LAST_REPORTS = 1.0
"""At the end, for what could not be said yet."""

PUSHES_KEPT = 20
KEYS_NAMED = 10


@dataclass(frozen=True, slots=True)
class Announcement:
    """A worker that follows the config topic: the workspaces it serves, and its last pushes by their ids.

    A push has the keys of its entries that the worker refused, `KEYS_NAMED` at the most; none where all of it
    was taken.
    """

    workspaces: Collection[str] = ()
    pushes: Mapping[str, Collection[str]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return wire.encode(
            {
                "workspaces": list(self.workspaces),
                "pushes": {id: list(refused) for id, refused in self.pushes.items()},
            }
        )

    @classmethod
    def decode(cls, message: Message) -> Announcement | None:
        """None for what is not a worker's entry; an empty one for a worker that has ended."""
        if message.key is None or not message.key.startswith(WORKER):
            return None
        try:
            read = orjson.loads(message.data) if message.data else {"workspaces": [], "pushes": {}}
            return cls(
                [str(each) for each in read["workspaces"]],
                {str(id): [str(key) for key in refused] for id, refused in read["pushes"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None  # somebody else's, who may publish here


class Reports:
    """What one worker says on the report topic: in the background, as no push waits for it.

    What could not be said is said later; of what is to be said under one key, the last counts.
    """

    def __init__(self, producers: ProducerPool, config_topic: str, workspaces: Iterable[str]) -> None:
        self._producers = producers
        self._topic = config_topic + REPORT
        self._workspaces = tuple(workspaces)
        self._key = f"{WORKER}{socket.gethostname()}-{uuid4().hex[:8]}"
        self._pushes: dict[str, Collection[str]] = {}
        self._unsaid: dict[str, bytes] = {}
        self._news = asyncio.Event()
        self._ended = False
        self._saying: asyncio.Task[None] | None = None

    def announce(self, pushes: Mapping[str, Collection[str]]) -> None:
        """This worker follows the topic, and has swapped in these pushes; each with what it refused of it."""
        if self._ended:
            return
        self._pushes |= {id: list(islice(refused, KEYS_NAMED)) for id, refused in pushes.items()}
        self._pushes = dict(list(self._pushes.items())[-PUSHES_KEPT:])
        self._say(self._key, self._announcement())

    def refused(self, key: str, error: ConfigError) -> None:
        self._say(key, _record(key, error))

    def repaired(self, key: str) -> None:
        self._say(key, b"")

    async def close(self) -> None:
        """The worker follows the topic no more. Idempotent."""
        if self._saying is None:
            return
        self._ended = True
        self._say(self._key, b"")
        await asyncio.wait([self._saying], timeout=SECONDS_FOR_LAST_REPORTS)
        self._saying.cancel()

    def _announcement(self) -> bytes:
        return Announcement(self._workspaces, self._pushes).encode()

    def _say(self, key: str, record: bytes) -> None:
        self._unsaid.pop(key, None)
        self._unsaid[key] = record
        self._news.set()
        if self._saying is None:
            self._saying = asyncio.create_task(self._say_all(), name=f"reports on {self._topic}")

    async def _say_all(self) -> None:
        failures = 0
        while True:
            last = self._ended
            self._news.clear()
            failures = 0 if await self._say_what_is_new() else failures + 1
            if last:
                return
            try:
                await asyncio.wait_for(self._news.wait(), _pause(failures))
            except TimeoutError:
                if not failures:
                    self._unsaid.setdefault(self._key, self._announcement())

    async def _say_what_is_new(self) -> bool:
        """Whether all of it could be said."""
        unsaid, self._unsaid = self._unsaid, {}
        for key, record in unsaid.items():
            try:
                async with asyncio.timeout(SECONDS_FOR_A_REPORT):
                    await self._producers.send(self._topic, record, key=key)
            except (BrokerError, TimeoutError) as error:
                self._unsaid = {key: record} | self._unsaid
                log.warning("%s: %s could not be reported: %s", self._topic, key, error or "no answer")
        return not self._unsaid


def _pause(failures: int) -> float:
    """Seconds until the next announcement, or the next try of what could not be said."""
    if not failures:
        return SECONDS_BETWEEN_ANNOUNCEMENTS
    return min(SECONDS_BETWEEN_ANNOUNCEMENTS, 2.0 ** (failures - 1))


class ReportListener:
    """Who listens on a report topic what the workers of a workspace make of a push.

    Open it before the push, so that no answer is missed.
    """

    def __init__(self, table: Table, workspace: str) -> None:
        self._table = table
        self._workspace = workspace
        self.workers: dict[str, float] = {}
        """When each of those that serve the workspace last announced itself, by its key."""
        self.others: dict[str, Collection[str]] = {}
        """Which workspaces the others serve."""
        since = time() - SECONDS_TO_BELIEVE_THEM
        for message in table.entries.values():
            if message.published > since:
                self._hear(message)

    @classmethod
    async def open(cls, broker: Broker, config_topic: str, workspace: str) -> ReportListener:
        """Raises `BrokerError`."""
        return cls(await broker.table(config_topic + REPORT), workspace)

    async def answers(self, push: str, seconds: float) -> dict[str, Collection[str] | None]:
        """What each of the workers refused of a push; None for those that did not answer in time.

        Workers that end meanwhile are left out. Raises `BrokerError`.
        """
        answers: dict[str, Collection[str]] = {}
        if not self.workers:
            return {}
        try:
            async with asyncio.timeout(seconds), aclosing(self._table.changes()) as changes:
                async for message in changes:
                    announcement = self._hear(message)
                    if announcement and push in announcement.pushes:
                        answers[message.key or ""] = announcement.pushes[push]
                    if self.workers.keys() <= answers.keys():
                        break
        except TimeoutError:
            pass
        return {name: answers.get(name) for name in sorted(self.workers.keys() | answers.keys())}

    async def close(self) -> None:
        await self._table.close()

    def _hear(self, message: Message) -> Announcement | None:
        announcement = Announcement.decode(message)
        if announcement is None or message.key is None:
            return None
        self.workers.pop(message.key, None)
        self.others.pop(message.key, None)
        if self._workspace in announcement.workspaces:
            self.workers[message.key] = message.published
        elif announcement.workspaces:
            self.others[message.key] = announcement.workspaces
        return announcement


async def refused_keys(broker: Broker, config_topic: str) -> set[str]:
    """The keys of entries that workers have refused. Raises `BrokerError`."""
    table = await broker.table(config_topic + REPORT)
    try:
        return {key for key in table.entries if not key.startswith(WORKER)}
    finally:
        await table.close()


def _record(key: str, error: ConfigError) -> bytes:
    return wire.encode(
        {
            "key": key,
            "where": error.where,
            "path": error.path,
            "message": error.message,
            "found": None if error.found is None else str(error.found)[:200],
            "expected": error.expected,
        }
    )
