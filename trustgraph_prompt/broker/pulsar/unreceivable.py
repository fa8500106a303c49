"""Messages that kill whoever receives them: found by a process that may die, buried by their ids."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice, takewhile
from time import monotonic
from typing import Any, Final, NamedTuple, Self
from uuid import uuid4

import pulsar
from pulsar.asyncio import Client

from trustgraph_prompt.broker import envelope, topics
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.access import Access
from trustgraph_prompt.broker.pulsar.admin import PulsarAdmin, admin_url, authorization, trust
from trustgraph_prompt.broker.pulsar.admin.plan import topic_path
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.letter_box import LetterBox
from trustgraph_prompt.broker.pulsar.partitions import partitions_of
from trustgraph_prompt.broker.pulsar.receipt_probe import Probe
from trustgraph_prompt.errors import BrokerError

log = logging.getLogger(__name__)

ADMIN_URL: Final = "TRUSTGRAPH_PROMPT_ADMIN_URL"

#: Messages behind the first that is not acknowledged: more than workers of a subscription have in work.
_LOOKED_AT: Final = 1000
#: Then the worker serves. What it dies of is looked for again at its next start.
_SECONDS: Final = 60.0
#: Of subscriptions that a process of ours uses for a moment; one that was left behind has this name.
_PROBES: Final = "-receipt-"
_PARTITION: Final = re.compile(r"-partition-(\d+)$")
_RANGE: Final = re.compile(r"\((\d+):(-?\d+)\.\.(\d+):(-?\d+)\]")
_POSITION: Final = re.compile(r"\((\d+),(\d+),")


class Position(NamedTuple):
    """Of an entry in a topic."""

    ledger: int
    entry: int


class Received(NamedTuple):
    """A message that was received: its entry, or those of its first and last chunk."""

    first: Position
    last: Position

    @classmethod
    def of(cls, id: str) -> Self:
        """As the client prints an id."""
        places = [Position(int(ledger), int(entry)) for ledger, entry in _POSITION.findall(id)]
        return cls(places[0], places[-1])


async def bury_unreceivable(
    client: Client, url: str, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
) -> list[str]:
    """What `Broker.bury_unreceivable` promises. Raises `BrokerError`, `ConfigError`."""
    access = Access.from_environment()
    buried: list[str] = []
    async with PulsarAdmin(
        os.environ.get(ADMIN_URL) or admin_url(url),
        authorization=await authorization(access),
        trust=trust(access),
    ) as admin:
        for read in (topic, topics.retry_topic(topic, subscription)):
            for partition in await partitions_of(client, read):
                path = topic_path(partition)
                stats = await admin.get(f"{path}/stats", dict)
                found = (stats or {}).get("subscriptions", {}).get(subscription)
                if found is None:
                    continue
                if len(found.get("consumers", ())) >= consumers:
                    return buried
                for name, other in (stats or {})["subscriptions"].items():
                    if name.startswith(subscription + _PROBES) and not other.get("consumers"):
                        await _delete(admin, path, name)
                search = _Search(client, url, admin, topic, partition, subscription)
                buried += await search.bury_all(properties)
    return buried


@dataclass(frozen=True)
class Backlog:
    """The entries of a topic, and which of them a subscription has acknowledged."""

    ledgers: Mapping[int, int]
    """How many entries each has, in order."""
    begin: Position
    """All up to here are acknowledged."""
    done: tuple[tuple[Position, Position], ...]
    """And all of each of these ranges, from behind the first position to the second."""

    @classmethod
    def of(cls, internal: Mapping[str, Any], subscription: str) -> Self | None:
        """As the admin API tells it (`internalStats`); None where there is no such subscription."""
        cursor = internal.get("cursors", {}).get(subscription)
        if cursor is None:
            return None
        ledgers = {each["ledgerId"]: each["entries"] for each in internal["ledgers"]}
        if ledgers:
            ledgers[list(ledgers)[-1]] = internal["currentLedgerEntries"]
        ledger, _, entry = cursor["markDeletePosition"].partition(":")
        ranges = _RANGE.findall(cursor.get("individuallyDeletedMessages", ""))
        done = tuple((Position(int(a), int(b)), Position(int(c), int(d))) for a, b, c, d in ranges)
        return cls(ledgers, Position(int(ledger), int(entry)), done)

    def after(self, position: Position) -> Position | None:
        """The next entry; None at the end."""
        if position.entry + 1 < self.ledgers.get(position.ledger, 0):
            return Position(position.ledger, position.entry + 1)
        later = [ledger for ledger, entries in self.ledgers.items() if ledger > position.ledger and entries]
        return Position(later[0], 0) if later else None

    def entries(self, first: Position) -> Iterator[Position]:
        """From that one on."""
        entry: Position | None = first
        while entry is not None:
            yield entry
            entry = self.after(entry)

    def is_done(self, position: Position) -> bool:
        index = bisect_right(self.done, position, key=lambda each: each[0]) - 1
        return position <= self.begin or (
            index >= 0 and self.done[index][0] < position <= self.done[index][1]
        )


class _Search:
    """For such messages in one partition."""

    def __init__(
        self, client: Client, url: str, admin: PulsarAdmin, topic: str, partition: str, subscription: str
    ) -> None:
        self._client = client
        self._url = url
        self._admin = admin
        self._partition = partition
        self._index = int(found[1]) if (found := _PARTITION.search(partition)) else -1
        self.topic = topic
        self.subscription = subscription

    async def bury_all(self, properties: Mapping[str, str]) -> list[str]:
        """Returns the ids of those that were buried."""
        internal = await self._admin.get(f"{topic_path(self._partition)}/internalStats", dict)
        backlog = Backlog.of(internal or {}, self.subscription)
        if backlog is None or (first := backlog.after(backlog.begin)) is None:
            return []
        last = list(islice(backlog.entries(first), _LOOKED_AT))[-1]
        buried: list[str] = []
        until = monotonic() + _SECONDS
        while first is not None and first <= last and monotonic() < until:
            received, survived = await self._receive(first, last)
            if buried and received:
                await self._drop_pieces(backlog, first, received[0].first)
            if survived:
                if buried and not received:
                    await self._drop_pieces(backlog, first, backlog.after(last))
                break
            culprit = backlog.after(received[-1].last) if received else first
            if culprit is None:
                break
            if not backlog.is_done(culprit):
                buried.append(await self._bury(culprit, properties))
            first = backlog.after(culprit)
        return buried

    async def _drop_pieces(self, backlog: Backlog, first: Position, end: Position | None) -> None:
        """Acknowledge what is left of a message in chunks whose first one was buried, up to `end`.

        Nobody is given these, and a broker goes no further on a shared subscription until they are gone.
        """
        entries = takewhile(lambda entry: entry != end, backlog.entries(first))
        if pieces := [entry for entry in entries if not backlog.is_done(entry)]:
            log.warning("%s: dropped %d pieces of what was buried", self._partition, len(pieces))
            await self._acknowledge(pieces)

    async def _receive(self, first: Position, last: Position) -> tuple[list[Received], bool]:
        """What a process of ours has received, and whether it has survived.

        Raises `BrokerError` where it could not receive at all.
        """
        async with self._subscription() as name:
            probe = Probe(self._url, self._partition, self._index, name, *first, *last)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "trustgraph_prompt.broker.pulsar.receipt_probe"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
            )
            told, _ = await process.communicate(probe.encode())
        code = process.returncode or 0
        if code > 0:
            raise BrokerError(f"{self._partition}: the process that was to receive ended with {code}")
        return [Received.of(line) for line in told.decode().splitlines()], code in (0, -signal.SIGALRM)

    @asynccontextmanager
    async def _subscription(self) -> AsyncIterator[str]:
        name = f"{self.subscription}{_PROBES}{uuid4().hex[:8]}"
        try:
            yield name
        finally:
            await _delete(self._admin, topic_path(self._partition), name)

    async def _bury(self, position: Position, properties: Mapping[str, str]) -> str:
        """Who acknowledges need not have received."""
        message = Message(b"", self.topic, f"{position.ledger}:{position.entry}:{self._index}:-1")
        reason = f"whoever receives it dies: it takes more memory than a message may ({self._partition})"
        letters = LetterBox(self._client)
        try:
            await letters.post(envelope.dead_letter(self, message, reason, properties), retained=True)
        finally:
            await letters.close()
        await self._acknowledge([position])
        return message.id

    async def _acknowledge(self, positions: Iterable[Position]) -> None:
        with translating(self._partition):
            consumer = await self._client.subscribe(
                self._partition, self.subscription, pulsar.ConsumerType.Shared, receiver_queue_size=0
            )
            try:
                for position in positions:
                    await consumer.acknowledge(pulsar.MessageId(self._index, *position, -1))
            finally:
                await consumer.close()


async def _delete(admin: PulsarAdmin, path: str, subscription: str) -> None:
    try:
        await admin.send("DELETE", f"{path}/subscription/{subscription}?force=true")
    except BrokerError as error:
        log.warning("subscription %s could not be deleted: %s", subscription, error)
