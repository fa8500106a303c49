"""Finds messages that kill every process that receives them, and buries them by id.

Buries only an entry that has killed two child processes which received nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, quote_plus
from uuid import uuid4

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import retry_and_dead_letters, topics
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.admin.client import ADMIN_URL, PulsarAdmin, admin_of, admin_url
from trustgraph_prompt.broker.pulsar.admin.plan import topic_path
from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.producer import LetterProducer
from trustgraph_prompt.broker.pulsar.receipt_probe import Probe
from trustgraph_prompt.broker.pulsar.subscription import partitions_of
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable

log = logging.getLogger(__name__)

#: Seconds for the search, after which the worker starts anyway. The search continues at its next start.
_SEARCH_SECONDS: Final = 60.0
#: Unacknowledged messages to examine, from the first: more than the workers of a subscription have in
#: progress.
_EXAMINED: Final = 1000
#: How many messages after the last one that a process received can be the one that it died of.
_SUSPECTS: Final = 8
#: Seconds without a message after which a child process gives up: of many entries, and of a single one.
_RECEIVE_SECONDS, _RECEIVE_ONE_SECONDS = 20, 3
#: Part of the names of the temporary subscriptions of child processes.
_PROBES: Final = "-receipt-"
#: The exclusive subscription of the `-WORK` topic that is the lock of a search.
_SEARCHES: Final = "search"
_SECONDS_BETWEEN_ATTEMPTS: Final = 1.0
_PARTITION: Final = re.compile(r"-partition-(\d+)$")
_RANGE: Final = re.compile(r"\((\d+):(-?\d+)\.\.(\d+):(-?\d+)\]")
_POSITION: Final = re.compile(r"\((\d+),(\d+),")
#: How the client dies when memory runs out. Other signals say nothing about the message.
_CRASHES: Final = (-signal.SIGABRT, -signal.SIGSEGV)


class EntryPosition(NamedTuple):
    """The position of an entry in a topic."""

    ledger: int
    entry: int


async def bury_unreceivable(
    client: Client, url: str, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
) -> list[str]:
    """Implement `Broker.bury_unreceivable`. Raises `BrokerError`, `ConfigError`."""
    credentials = Credentials.from_environment()
    buried: list[str] = []
    try:
        async with (
            asyncio.timeout(_SEARCH_SECONDS),
            await admin_of(os.environ.get(ADMIN_URL) or admin_url(url), credentials) as admin,
        ):
            if await _all_alive(admin, (await partitions_of(client, topic))[0], subscription, consumers):
                return []
            async with _lock(client, topics.in_progress_topic(topic, subscription)) as waited:
                if waited:  # another worker has searched meanwhile
                    return []
                for read in (topic, topics.retry_topic(topic, subscription)):
                    for partition in await partitions_of(client, read):
                        search = _PartitionSearch(client, url, admin, topic, partition, subscription)
                        await search.delete_leftovers()
                        await search.bury_all(properties, buried)
    except TimeoutError:
        log.warning(
            "%s: the search for messages that crash the client was incomplete after %.0f s",
            topic,
            _SEARCH_SECONDS,
        )
    return buried


async def _all_alive(admin: PulsarAdmin, partition: str, subscription: str, consumers: int) -> bool:
    stats = await admin.get(f"{topic_path(partition)}/stats", dict)
    found = (stats or {}).get("subscriptions", {}).get(subscription)
    return found is None or len(found.get("consumers", ())) >= consumers


@asynccontextmanager
async def _lock(client: Client, topic: str) -> AsyncIterator[bool]:
    """Subscribe exclusively. Gives whether another search had to be waited for."""
    waited = False
    while True:
        try:
            lock = await client.subscribe(
                topic, _SEARCHES, pulsar.ConsumerType.Exclusive, receiver_queue_size=0
            )
            break
        except PulsarException as error:
            if error.error().name != "ConsumerBusy":
                raise BrokerUnavailable(f"{topic}: {error}") from error
        waited = True
        await asyncio.sleep(_SECONDS_BETWEEN_ATTEMPTS)
    try:
        yield waited
    finally:
        with suppress(PulsarException):
            await lock.unsubscribe()
            await lock.close()


@dataclass(frozen=True)
class Backlog:
    """The entries of a topic, and which of them a subscription has acknowledged."""

    ledgers: Mapping[int, int]
    """The number of entries of each ledger, in order."""
    begin: EntryPosition
    """All entries up to this one are acknowledged."""
    done: tuple[tuple[EntryPosition, EntryPosition], ...]
    """Further acknowledged ranges, each from after its first position to its second."""

    @classmethod
    def of(cls, internal: Mapping[str, Any], subscription: str) -> Self | None:
        """Parse `internalStats` of the admin API. Returns None without such a subscription."""
        cursor = internal.get("cursors", {}).get(quote_plus(subscription))
        if cursor is None:
            return None
        ledgers = {ledger["ledgerId"]: ledger["entries"] for ledger in internal["ledgers"]}
        if ledgers:
            ledgers[list(ledgers)[-1]] = internal["currentLedgerEntries"]
        ledger, _, entry = cursor["markDeletePosition"].partition(":")
        ranges = _RANGE.findall(cursor.get("individuallyDeletedMessages", ""))
        done = tuple((EntryPosition(int(a), int(b)), EntryPosition(int(c), int(d))) for a, b, c, d in ranges)
        return cls(ledgers, EntryPosition(int(ledger), int(entry)), done)

    def after(self, position: EntryPosition) -> EntryPosition | None:
        """Return the entry after a position, None at the end."""
        if position.entry + 1 < self.ledgers.get(position.ledger, 0):
            return EntryPosition(position.ledger, position.entry + 1)
        later = [ledger for ledger, entries in self.ledgers.items() if ledger > position.ledger and entries]
        return EntryPosition(later[0], 0) if later else None

    def is_done(self, position: EntryPosition) -> bool:
        index = bisect_right(self.done, position, key=lambda done: done[0]) - 1
        return position <= self.begin or (
            index >= 0 and self.done[index][0] < position <= self.done[index][1]
        )

    def entries(self, first: EntryPosition) -> Iterator[EntryPosition]:
        """Yield the entries from `first` on."""
        entry: EntryPosition | None = first
        while entry is not None:
            yield entry
            entry = self.after(entry)

    def undone(self, first: EntryPosition) -> Iterator[EntryPosition]:
        """Yield the entries from `first` on that the subscription has not acknowledged."""
        return (entry for entry in self.entries(first) if not self.is_done(entry))


class _PartitionSearch:
    """Searches one partition."""

    def __init__(
        self, client: Client, url: str, admin: PulsarAdmin, topic: str, partition: str, subscription: str
    ) -> None:
        self._client = client
        self._url = url
        self._admin = admin
        self._partition = partition
        self._path = topic_path(partition)
        self._index = int(found[1]) if (found := _PARTITION.search(partition)) else -1
        self.topic = topic
        self.subscription = subscription

    async def delete_leftovers(self) -> None:
        """Delete the temporary subscriptions of a search that was killed."""
        stats = await self._admin.get(f"{self._path}/stats", dict)
        for name in (stats or {}).get("subscriptions", ()):
            if name.startswith(self.subscription + _PROBES):
                await self._delete(name)

    async def bury_all(self, properties: Mapping[str, str], buried: list[str]) -> None:
        """Bury the messages, and add their ids to `buried`."""
        last: EntryPosition | None = None
        while culprit := await self._next_culprit(last):
            if not await self._is_whole_message(culprit):
                log.error(
                    "%s: message %s:%s crashes the client and may be a chunk of a larger one. "
                    "Only the broker can skip it: "
                    "pulsar-admin topics skip --subscription %s --count <chunks> %s",
                    *(self._partition, *culprit, self.subscription, self._partition),
                )
                return
            buried.append(await self._bury(culprit, properties))
            last = culprit

    async def _next_culprit(self, last: EntryPosition | None) -> EntryPosition | None:
        """Find the next message that kills a process, after the `last` one; None if there is none."""
        backlog = await self._backlog()
        start = next(backlog.undone(last or backlog.begin), None) if backlog else None
        if backlog is None or start is None:
            return None
        examined = list(islice(backlog.undone(start), _EXAMINED))
        received, died = await self._receive(start, examined[-1])
        if not died:
            return None
        first = start if received is None else backlog.after(received)
        for suspect in islice(backlog.undone(first), _SUSPECTS) if first else ():
            if await self._kills(suspect):
                return suspect
        position = f"{received.ledger}:{received.entry}" if received else "the acknowledged ones"
        log.warning(
            "%s: a process crashed after message %s, but none of the next %d crashes it by itself",
            *(self._partition, position, _SUSPECTS),
        )
        return None

    async def _backlog(self) -> Backlog | None:
        internal = await self._admin.get(f"{self._path}/internalStats", dict)
        return Backlog.of(internal or {}, self.subscription)

    async def _kills(self, entry: EntryPosition) -> bool:
        """Return whether two processes crash that receive only this entry."""
        return (await self._receive(entry, None))[1] and (await self._receive(entry, None))[1]

    async def _is_whole_message(self, entry: EntryPosition) -> bool:
        """Return whether the entry is no chunk. Without a first chunk, the broker never skips the others."""
        backlog = await self._backlog()
        after = backlog.after(entry) if backlog else None
        if backlog is None or after is None or backlog.is_done(after):
            return True
        received, _ = await self._receive(after, None)
        return received == after

    async def _receive(
        self, first: EntryPosition, last: EntryPosition | None
    ) -> tuple[EntryPosition | None, bool]:
        """Return the last entry that a child process received, and whether it crashed at the next one.

        Without a `last` it receives only the first. Raises `BrokerError` if it fails otherwise.
        """
        name = f"{self.subscription}{_PROBES}{uuid4().hex[:8]}"
        deadline = _RECEIVE_SECONDS if last else _RECEIVE_ONE_SECONDS
        probe = Probe(self._url, self._partition, self._index, name, first, last, deadline)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "trustgraph_prompt.broker.pulsar.receipt_probe"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,  # so that Ctrl-C reaches the worker only
        )
        try:
            output, errors = await process.communicate(probe.encode())
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
            await self._delete(name)
        code = process.returncode or 0
        if code > 0:
            why = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise BrokerError(f"{self._partition}: the child process that receives messages failed: {why}")
        ids = _POSITION.findall(output.decode())
        return EntryPosition(int(ids[-1][0]), int(ids[-1][1])) if ids else None, code in _CRASHES

    async def _bury(self, position: EntryPosition, properties: Mapping[str, str]) -> str:
        """Publish a dead letter without payload and acknowledge the entry, which needs no receipt."""
        message = Message(b"", self.topic, f"{position.ledger}:{position.entry}:{self._index}:-1")
        reason = f"crashes every process that receives it: it needs too much memory ({self._partition})"
        letters = LetterProducer(self._client)
        try:
            await letters.send(
                retry_and_dead_letters.dead_letter(self, message, reason, properties), retained=True
            )
        finally:
            await letters.close()
        with translating(self._partition):
            consumer = await self._client.subscribe(
                self._partition, self.subscription, pulsar.ConsumerType.Shared, receiver_queue_size=0
            )
            try:
                await consumer.acknowledge(pulsar.MessageId(self._index, *position, -1))
            finally:
                await consumer.close()
        return message.id

    async def _delete(self, subscription: str) -> None:
        try:
            await self._admin.send(
                "DELETE", f"{self._path}/subscription/{quote(subscription, safe='')}?force=true"
            )
        except BrokerError as error:
            log.warning(
                "subscription %s of %s could not be deleted: %s", subscription, self._partition, error
            )
