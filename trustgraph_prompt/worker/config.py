"""The config topic: prompts that change while the worker runs.

One compacted topic for all workspaces, one key for each entry: `<workspace>/system` and
`<workspace>/template.<id>`; an empty message deletes. The entries of one push carry its id, and all but the
last say that there is `more`: they are swapped in as one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.errors import BrokerClosed, BrokerError, ConfigError
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker.metrics import Metrics
from trustgraph_prompt.worker.outbox import Producers

log = logging.getLogger(__name__)

TOPIC = "persistent://tg/config/prompt"

SECONDS_FOR_A_PUSH = 10.0
"""How long entries wait for the rest of their push; then whoever pushed them has died, and they count."""

PUSH, MORE = "push", "more"
"""Properties of an entry: the id of its push, and that others of it follow."""


class Prompts(Mapping[str, PromptSet]):
    """The current snapshot of each workspace: the entries of the config topic over those of files.

    A new snapshot is built whole beside the one that serves, then takes its place. An entry that does not
    compile is refused, and its last good version stays.
    """

    def __init__(self, base: Mapping[str, str] | None = None, workspaces: Iterable[str] = ()) -> None:
        self._base = dict(base or {})
        self._entries: dict[str, dict[str, str | bytes]] = {}
        self._snapshots = {workspace: PromptSet.build(self._base) for workspace in workspaces}

    def __getitem__(self, workspace: str) -> PromptSet:
        return self._snapshots[workspace]

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)

    def change(self, changes: Mapping[tuple[str, str], bytes]) -> dict[str, PromptSet]:
        """Swap in changed entries, by workspace and key, at once; returns the new snapshots.

        Empty data deletes an entry, so that the one of the files shows again, where there is one.
        """
        for (workspace, key), data in changes.items():
            entries = self._entries.setdefault(workspace, {})
            if data:
                entries[key] = data
            else:
                entries.pop(key, None)
        changed = {
            workspace: PromptSet.build(
                {**self._base, **self._entries[workspace]}, self._snapshots.get(workspace)
            )
            for workspace in {workspace for workspace, _ in changes}
        }
        self._snapshots.update(changed)
        return changed


class ConfigTopic:
    """Keeps `Prompts` as the topic says, and says on `<topic>-report` what it refused."""

    def __init__(
        self, broker: Broker, prompts: Prompts, producers: Producers, metrics: Metrics, *, topic: str = TOPIC
    ) -> None:
        self._broker = broker
        self._prompts = prompts
        self._producers = producers
        self._metrics = metrics
        self._topic = topic
        self._table: Table | None = None
        self._pushes: dict[str, _Push] = {}
        self._refused: dict[str, ConfigError] = {}
        self._reports: asyncio.Queue[_Report | None] = asyncio.Queue()

    @property
    def refused(self) -> Mapping[str, ConfigError]:
        """The keys of the topic whose entries do not serve, and why."""
        return self._refused

    async def load(self) -> None:
        """Read the topic through and swap all of it in. Raises `BrokerError`."""
        self._table = await self._broker.table(self._topic)
        self._swap({key: message.data for key, message in self._table.entries.items()})

    async def follow(self) -> None:
        """Swap in what is published after `load`, until closed. Raises `BrokerError`."""
        if self._table is None:
            raise BrokerClosed("the config topic was not loaded")
        reporting = asyncio.create_task(self._report())
        try:
            async for message in self._table.changes():
                self._take(message)
        finally:
            for push in self._pushes.values():
                push.timer.cancel()
            self._reports.put_nowait(None)
            await reporting

    async def close(self) -> None:
        """End `follow`. Idempotent."""
        if self._table is not None:
            await self._table.close()

    def _take(self, message: Message) -> None:
        """Swap in an entry, or keep it until its push is whole."""
        change = {message.key or "": message.data}
        id = message.properties.get(PUSH)
        if id is None:
            self._swap(change)
            return
        if id not in self._pushes:
            timer = asyncio.get_running_loop().call_later(SECONDS_FOR_A_PUSH, self._complete, id)
            self._pushes[id] = _Push({}, timer)
        self._pushes[id].changes.update(change)
        if MORE not in message.properties:
            self._complete(id)

    def _complete(self, id: str) -> None:
        push = self._pushes.pop(id)
        push.timer.cancel()
        self._swap(push.changes)

    def _swap(self, changes: Mapping[str, bytes]) -> None:
        """Put changed entries in force and make known which are refused."""
        refused: dict[str, ConfigError] = {}
        placed: dict[tuple[str, str], bytes] = {}
        for key, data in changes.items():
            workspace, _, entry = key.partition("/")
            if workspace and (entry == "system" or (entry.startswith("template.") and entry != "template.")):
                placed[workspace, entry] = data
            elif data:
                refused[key] = ConfigError(
                    "no key of a prompt config",
                    where=self._topic,
                    found=key,
                    expected="<workspace>/system or <workspace>/template.<id>",
                )
        for workspace, snapshot in self._prompts.change(placed).items():
            refused |= {
                f"{workspace}/{entry}": error.at(f"{self._topic} {workspace}/{entry}")
                for entry, error in snapshot.refused.items()
            }
            self._metrics.configured(workspace, snapshot)
            log.info("prompts of workspace %s changed", workspace, extra={"prompts": len(snapshot.prompts)})
            self._forget(
                key for key in self._refused if key.startswith(f"{workspace}/") and key not in refused
            )
        self._forget(key for key, data in changes.items() if not data and key not in refused)
        for key, error in refused.items():
            if str(self._refused.get(key)) != str(error):
                log.error("config entry refused, its last good version stays: %s", error)
                self._reports.put_nowait(_Report(key, error))
        self._refused |= refused

    def _forget(self, keys: Iterable[str]) -> None:
        """These entries are good again, or gone."""
        for key in [key for key in keys if key in self._refused]:
            del self._refused[key]
            self._reports.put_nowait(_Report(key, None))

    async def _report(self) -> None:
        """Say on the report topic what is refused, key by key; an empty message says that it is mended."""
        while report := await self._reports.get():
            try:
                producer = await self._producers.get(f"{self._topic}-report")
                await producer.send(report.encode(), key=report.key)
            except BrokerError as error:
                log.warning("the refusal of %s could not be reported: %s", report.key, error)


@dataclass(slots=True)
class _Push:
    """Entries that wait for the rest of their push."""

    changes: dict[str, bytes]
    timer: asyncio.TimerHandle


@dataclass(frozen=True, slots=True)
class _Report:
    key: str
    error: ConfigError | None

    def encode(self) -> bytes:
        if self.error is None:
            return b""
        e = self.error
        found = None if e.found is None else str(e.found)[:200]
        return wire.encode(
            {
                "key": self.key,
                "where": e.where,
                "path": e.path,
                "message": e.message,
                "found": found,
                "expected": e.expected,
            }
        )


async def entries(broker: Broker, workspace: str | None = None, *, topic: str = TOPIC) -> dict[str, bytes]:
    """What stands on the config topic now, by key; of one workspace, or of all. Raises `BrokerError`."""
    table = await broker.table(topic)
    try:
        return {
            key: message.data
            for key, message in table.entries.items()
            if workspace is None or key.startswith(f"{workspace}/")
        }
    finally:
        await table.close()


async def push(
    broker: Broker, workspace: str, changes: Mapping[str, str | bytes], *, topic: str = TOPIC
) -> None:
    """Publish entries (`system`, `template.<id>`) of a workspace so that they swap in as one; empty deletes.

    Publishes whatever it is given: build a `PromptSet` from it first. Raises `BrokerError`.
    """
    producer = await broker.producer(topic)
    id = uuid.uuid4().hex
    try:
        for remaining, (entry, data) in zip(range(len(changes) - 1, -1, -1), changes.items(), strict=True):
            properties = {PUSH: id, MORE: "true"} if remaining else {PUSH: id}
            text = data.encode() if isinstance(data, str) else data
            await producer.send(text, key=f"{workspace}/{entry}", properties=properties)
    finally:
        await producer.close()
