"""Messages that kill whoever receives them: found by a process that may die, buried by their ids.

Nothing is buried but an entry that has killed two processes which received it and nothing else.
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

from trustgraph_prompt.broker import envelope, topics
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.admin import ADMIN_URL, PulsarAdmin, admin_of, admin_url
from trustgraph_prompt.broker.pulsar.admin.plan import topic_path
from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.receipt_probe import Probe
from trustgraph_prompt.broker.pulsar.retry_topics import RetryTopics
from trustgraph_prompt.broker.pulsar.subscription import partitions_of
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable

log = logging.getLogger(__name__)

#: Then the worker serves. What it dies of is looked for again at its next start.
_SECONDS: Final = 60.0
#: Messages that were not acknowledged, from the first on: more than workers of a subscription have in work.
_LOOKED_AT: Final = 1000
#: Of which one is the culprit, behind what a process has received when it died.
_SUSPECTS: Final = 8
#: Seconds without a message after which a process gives up: where there are more to come, and alone.
_PATIENCE, _PATIENCE_ALONE = 20, 3
#: Of subscriptions that a process of ours uses for a moment; one that was left behind has this name.
_PROBES: Final = "-receipt-"
#: Who searches holds this subscription of the `-WORK` topic.
_SEARCHES: Final = "search"
_SECONDS_BETWEEN_TRIES: Final = 1.0
_PARTITION: Final = re.compile(r"-partition-(\d+)$")
_RANGE: Final = re.compile(r"\((\d+):(-?\d+)\.\.(\d+):(-?\d+)\]")
_POSITION: Final = re.compile(r"\((\d+),(\d+),")
#: What the client does where there is no memory; others that end a process say nothing about the message.
_DEATHS: Final = (-signal.SIGABRT, -signal.SIGSEGV)


class EntryPosition(NamedTuple):
    """Of an entry in a topic."""

    ledger: int
    entry: int


async def bury_unreceivable(
    client: Client, url: str, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
) -> list[str]:
    """What `Broker.bury_unreceivable` promises. Raises `BrokerError`, `ConfigError`."""
    access = Credentials.from_environment()
    buried: list[str] = []
    try:
        async with (
            asyncio.timeout(_SECONDS),
            await admin_of(os.environ.get(ADMIN_URL) or admin_url(url), access) as admin,
        ):
            if await _all_live(admin, (await partitions_of(client, topic))[0], subscription, consumers):
                return []
            async with _alone(client, topics.in_progress_topic(topic, subscription)) as at_once:
                if not at_once:  # another worker has looked meanwhile
                    return []
                for read in (topic, topics.retry_topic(topic, subscription)):
                    for partition in await partitions_of(client, read):
                        search = _Search(client, url, admin, topic, partition, subscription)
                        await search.clear_away()
                        await search.bury_all(properties, buried)
    except TimeoutError:
        log.warning("%s: not all was looked at in %.0f s", topic, _SECONDS)
    return buried


async def _all_live(admin: PulsarAdmin, partition: str, subscription: str, consumers: int) -> bool:
    stats = await admin.get(f"{topic_path(partition)}/stats", dict)
    found = (stats or {}).get("subscriptions", {}).get(subscription)
    return found is None or len(found.get("consumers", ())) >= consumers


@asynccontextmanager
async def _alone(client: Client, topic: str) -> AsyncIterator[bool]:
    """Waits for who is here; tells whether nobody was."""
    at_once = True
    while True:
        try:
            lock = await client.subscribe(
                topic, _SEARCHES, pulsar.ConsumerType.Exclusive, receiver_queue_size=0
            )
            break
        except PulsarException as error:
            if error.error().name != "ConsumerBusy":
                raise BrokerUnavailable(f"{topic}: {error}") from error
        at_once = False
        await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        yield at_once
    finally:
        with suppress(PulsarException):
            await lock.unsubscribe()
            await lock.close()


@dataclass(frozen=True)
class Backlog:
    """The entries of a topic, and which of them a subscription has acknowledged."""

    ledgers: Mapping[int, int]
    """How many entries each has, in order."""
    begin: EntryPosition
    """All up to here are acknowledged."""
    done: tuple[tuple[EntryPosition, EntryPosition], ...]
    """And all of each of these ranges, from behind the first position to the second."""

    @classmethod
    def of(cls, internal: Mapping[str, Any], subscription: str) -> Self | None:
        """As the admin API tells it (`internalStats`); None where there is no such subscription."""
        cursor = internal.get("cursors", {}).get(quote_plus(subscription))
        if cursor is None:
            return None
        ledgers = {each["ledgerId"]: each["entries"] for each in internal["ledgers"]}
        if ledgers:
            ledgers[list(ledgers)[-1]] = internal["currentLedgerEntries"]
        ledger, _, entry = cursor["markDeletePosition"].partition(":")
        ranges = _RANGE.findall(cursor.get("individuallyDeletedMessages", ""))
        done = tuple((EntryPosition(int(a), int(b)), EntryPosition(int(c), int(d))) for a, b, c, d in ranges)
        return cls(ledgers, EntryPosition(int(ledger), int(entry)), done)

    def after(self, position: EntryPosition) -> EntryPosition | None:
        """The next entry; None at the end."""
        if position.entry + 1 < self.ledgers.get(position.ledger, 0):
            return EntryPosition(position.ledger, position.entry + 1)
        later = [ledger for ledger, entries in self.ledgers.items() if ledger > position.ledger and entries]
        return EntryPosition(later[0], 0) if later else None

    def entries(self, first: EntryPosition) -> Iterator[EntryPosition]:
        """From that one on."""
        entry: EntryPosition | None = first
        while entry is not None:
            yield entry
            entry = self.after(entry)

    def is_done(self, position: EntryPosition) -> bool:
        index = bisect_right(self.done, position, key=lambda each: each[0]) - 1
        return position <= self.begin or (
            index >= 0 and self.done[index][0] < position <= self.done[index][1]
        )

    def undone(self, first: EntryPosition) -> Iterator[EntryPosition]:
        """What the subscription has not acknowledged, from that entry on."""
        return (entry for entry in self.entries(first) if not self.is_done(entry))


class _Search:
    """For such messages in one partition."""

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

    async def clear_away(self) -> None:
        """Delete what a search has left behind that was killed."""
        stats = await self._admin.get(f"{self._path}/stats", dict)
        for name in (stats or {}).get("subscriptions", ()):
            if name.startswith(self.subscription + _PROBES):
                await self._delete(name)

    async def bury_all(self, properties: Mapping[str, str], buried: list[str]) -> None:
        """Adds the ids of those that were buried."""
        backlog = await self._backlog()
        start = next(backlog.undone(backlog.begin), None) if backlog else None
        while backlog is not None and start is not None:
            last = list(islice(backlog.undone(start), _LOOKED_AT))[-1]
            received, died = await self._receive(start, last)
            if not died:
                return
            first = start if received is None else backlog.after(received)
            suspects = () if first is None else backlog.undone(first)
            for suspect in islice(suspects, _SUSPECTS):
                if await self._kills(suspect):
                    if not await self._stands_alone(suspect):
                        log.error("%s", self._in_chunks(suspect))
                        return
                    buried.append(await self._bury(suspect, properties))
                    break
            else:
                behind = f"{received.ledger}:{received.entry}" if received else "what is acknowledged"
                log.warning("%s: a process died behind %s, of no single message", self._partition, behind)
                return
            backlog = await self._backlog()
            start = next(backlog.undone(suspect), None) if backlog else None

    async def _backlog(self) -> Backlog | None:
        internal = await self._admin.get(f"{self._path}/internalStats", dict)
        return Backlog.of(internal or {}, self.subscription)

    async def _kills(self, entry: EntryPosition) -> bool:
        """Whether two processes have died that received this entry and no other."""
        return (await self._receive(entry, None))[1] and (await self._receive(entry, None))[1]

    async def _stands_alone(self, entry: EntryPosition) -> bool:
        """Whether it is no chunk of a message: without its first chunk the broker would go past no other."""
        backlog = await self._backlog()
        after = backlog.after(entry) if backlog else None
        if backlog is None or after is None or backlog.is_done(after):
            return True
        received, _ = await self._receive(after, None)
        return received == after

    def _in_chunks(self, entry: EntryPosition) -> str:
        return (
            f"{self._partition}: message {entry.ledger}:{entry.entry} kills whoever receives it, and is "
            "perhaps one of several chunks, which only the broker can skip: pulsar-admin topics skip "
            f"--subscription {self.subscription} --count <chunks> {self._partition}"
        )

    async def _receive(
        self, first: EntryPosition, last: EntryPosition | None
    ) -> tuple[EntryPosition | None, bool]:
        """The last that a process of ours has received, and whether it has died of what came then.

        Without a `last` it receives the first and nothing else. Raises `BrokerError` where it could not.
        """
        name = f"{self.subscription}{_PROBES}{uuid4().hex[:8]}"
        deadline = _PATIENCE if last else _PATIENCE_ALONE
        probe = Probe(self._url, self._partition, self._index, name, first, last, deadline)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "trustgraph_prompt.broker.pulsar.receipt_probe"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,  # Ctrl-C is for the worker
        )
        try:
            told, errors = await process.communicate(probe.encode())
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
            await self._delete(name)
        code = process.returncode or 0
        if code > 0:
            why = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise BrokerError(f"{self._partition}: the process that was to receive failed: {why}")
        ids = _POSITION.findall(told.decode())
        return EntryPosition(int(ids[-1][0]), int(ids[-1][1])) if ids else None, code in _DEATHS

    async def _bury(self, position: EntryPosition, properties: Mapping[str, str]) -> str:
        """Who acknowledges need not have received."""
        message = Message(b"", self.topic, f"{position.ledger}:{position.entry}:{self._index}:-1")
        reason = f"whoever receives it dies: it takes more memory than a message may ({self._partition})"
        letters = RetryTopics(self._client)
        try:
            await letters.post(envelope.dead_letter(self, message, reason, properties), retained=True)
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
