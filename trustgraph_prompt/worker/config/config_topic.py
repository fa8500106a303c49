"""The config topic: prompts that change while the worker runs.

One compacted topic for all workspaces, one key for each entry: `<workspace>/system` and
`<workspace>/template.<id>`; an empty message deletes. The entries of one push carry its id, and all but the
last say that there is `more`: they are swapped in as one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import time

from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerClosed, BrokerError, ConfigError
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.prompt_set import MAX_PROMPTS, PREFIX
from trustgraph_prompt.worker.config.report_topic import SECONDS_FOR_A_REPORT, Reports, refused_keys
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import Watch

log = logging.getLogger(__name__)

TOPIC = "persistent://tg/config/prompt"

SECONDS_FOR_A_PUSH = 10.0
"""How long an entry waits for the next of its push; then whoever pushed them has died, and they count."""

SECONDS_BETWEEN_SWAPS = 0.1
"""At the least: a swap costs milliseconds however little has changed. What comes meanwhile goes together."""

CHANGES_NAMED = 10
"""Prompts that the log names of one swap; to hash the versions of a thousand would hold up requests."""

VERSION_SHOWN = 12
"""Characters of a version in the log."""

PUSH, MORE = "push", "more"
"""Properties of an entry: the id of its push, and that others of it follow."""


class Prompts(Mapping[str, PromptSet]):
    """The current snapshot of each workspace: the entries of the config topic over those of files.

    A new snapshot is built whole beside the one that serves, then takes its place. An entry that does not
    compile is refused, and its last good version stays. Only the workspaces that flows serve are built.

    `base` is what the files alone say, of any workspace.
    """

    def __init__(
        self, base: Mapping[str, str] | None = None, workspaces: Iterable[str] = ("default",)
    ) -> None:
        self.base = PromptSet.build(base or {})
        self._files = dict(base or {})
        self._entries: dict[str, dict[str, str | bytes]] = {}
        self._snapshots = dict.fromkeys(workspaces, self.base)

    def __getitem__(self, workspace: str) -> PromptSet:
        return self._snapshots[workspace]

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)

    @property
    def on_topic(self) -> list[str]:
        """The keys of the entries that are not from files."""
        return [f"{workspace}/{key}" for workspace, entries in self._entries.items() for key in entries]

    async def change(self, changes: Mapping[tuple[str, str], bytes]) -> dict[str, PromptSet]:
        """Swap in changed entries, by workspace and key, at once; returns the new snapshots.

        Empty data deletes an entry, so that the one of the files shows again, where there is one. Not for
        several tasks at a time.
        """
        for (workspace, key), data in changes.items():
            entries = self._entries.setdefault(workspace, {})
            if data:
                entries[key] = data
            else:
                entries.pop(key, None)
        return await self._build({workspace for workspace, _ in changes})

    async def replace(self, workspace: str, entries: Mapping[str, str | bytes]) -> PromptSet:
        """Swap in all entries of a workspace, which may be a new one.

        Several workspaces may be replaced at a time, each by one task.
        """
        self._entries[workspace] = dict(sorted(entries.items()))
        return (await self._build({workspace}))[workspace]

    def forget(self, workspace: str) -> None:
        """The workspace is gone."""
        self._entries.pop(workspace, None)
        self._snapshots.pop(workspace, None)

    async def _build(self, workspaces: Iterable[str]) -> dict[str, PromptSet]:
        changed = {}
        for workspace in workspaces:
            entries = {**self._files, **self._entries[workspace]}
            # Compiling takes milliseconds an entry, in which requests want to be served.
            changed[workspace] = await asyncio.to_thread(
                PromptSet.build, entries, self._snapshots.get(workspace)
            )
        self._snapshots.update(changed)
        return changed


class ConfigTopic:
    """Keeps `Prompts` as the topic says, and says on `<topic>-report` what it took and what it refused."""

    def __init__(
        self,
        broker: Broker,
        prompts: Prompts,
        producers: ProducerPool,
        metrics: Metrics,
        watch: Watch,
        *,
        topic: str = TOPIC,
    ) -> None:
        self._broker = broker
        self._prompts = prompts
        self._reports = Reports(producers, topic, prompts)
        self._metrics = metrics
        self._watch = watch
        self._topic = topic
        self._table: Table | None = None
        self._pushes: dict[str, _Push] = {}
        self._push_of: dict[str, str] = {}  # by the key of an entry that waits
        self._refused: dict[str, ConfigError] = {}
        self._due = _Due()

    @property
    def refused(self) -> Mapping[str, ConfigError]:
        """The keys of the topic whose entries do not serve, and why."""
        return self._refused

    async def load(self) -> None:
        """Read the topic through and swap all of it in, or in again. Raises `BrokerError`."""
        await self._close_table()
        self._due = _Due()
        self._table = await self._broker.table(self._topic)
        gone = dict.fromkeys(self._prompts.on_topic, b"")
        unfinished = _unfinished(self._table.entries.values())
        for message in unfinished:
            self._take(message)
        waiting = {message.key for message in unfinished}
        there = {key: message for key, message in self._table.entries.items() if key not in waiting}
        pushes: dict[str, list[str]] = {}
        for key, message in sorted(there.items(), key=lambda each: each[1].published):
            if id := message.properties.get(PUSH):
                pushes.setdefault(id, []).append(key)
        refused = await self._refused_before(there)
        in_order = sorted(there.items(), key=lambda each: (each[0] in refused, each[1].published))
        await self._swap(
            {key: data for key, data in gone.items() if key not in waiting}
            | {key: message.data for key, message in in_order},
            pushes,
        )
        self._reports.announce({})

    async def _refused_before(self, keys: Collection[str]) -> Collection[str]:
        """Which entries workers have refused, where there may be too many: what was served goes on to be."""
        if len(keys) + len(self._prompts.base.prompts) <= MAX_PROMPTS:
            return ()
        try:
            async with asyncio.timeout(SECONDS_FOR_A_REPORT):
                return await refused_keys(self._broker, self._topic)
        except (BrokerError, TimeoutError) as error:
            why = error or "no answer"
            log.warning("%s: which entries were refused before cannot be read: %s", self._topic, why)
            return ()

    async def follow(self) -> None:
        """Swap in what is published after `load`, in order, until closed. Raises `BrokerError`."""
        table = self._table
        if table is None:
            raise BrokerClosed("the config topic was not loaded")
        lost = False

        async def lose() -> None:
            nonlocal lost
            lost = True
            await table.close()

        swapping = asyncio.create_task(self._swap_what_is_due())
        try:
            with self._watch.over("config topic", table.check, lose):
                async for message in table.changes():
                    self._take(message)
            if lost:
                raise BrokerClosed(f"{self._topic}: the broker no longer tells what changes")
        finally:
            for push in self._pushes.values():
                push.stop_waiting()
            self._pushes.clear()
            self._push_of.clear()
            self._due.end()
            await swapping

    async def close(self) -> None:
        """End `follow`. Reports get a moment. Idempotent."""
        await self._close_table()
        await self._reports.close()

    async def _close_table(self) -> None:
        if self._table is not None:
            await self._table.close()

    def _take(self, message: Message) -> None:
        """Swap in an entry, or keep it until its push is whole."""
        key = message.key or ""
        if (former := self._push_of.pop(key, None)) is not None:
            # what is published later counts, in whatever order pushes end
            del self._pushes[former].changes[key]
        id = message.properties.get(PUSH)
        if id is None:
            self._due.add({key: message.data})
            return
        push = self._pushes.setdefault(id, _Push())
        push.changes[key] = message.data
        self._push_of[key] = id
        push.wait(SECONDS_FOR_A_PUSH, partial(self._complete, id))
        if MORE not in message.properties:
            self._complete(id)

    def _complete(self, id: str) -> None:
        push = self._pushes.pop(id)
        push.stop_waiting()
        for key in push.changes:
            del self._push_of[key]
        self._due.add(push.changes, id)

    async def _swap_what_is_due(self) -> None:
        while due := await self._due.take():
            await self._swap(*due)
            await asyncio.sleep(SECONDS_BETWEEN_SWAPS)

    async def _swap(self, changes: Mapping[str, bytes], pushes: Mapping[str, Collection[str]]) -> None:
        """Swap in changed entries, of which each push has some, and say what was refused."""
        try:
            await self._put_in_force(changes)
        except Exception:
            log.exception("this is a defect of the worker; the prompts stay as they were")
            return
        served = {
            id: [key for key in keys if key in self._refused]
            for id, keys in pushes.items()
            if any((place := _place(key)) and place[0] in self._prompts for key in keys)
        }
        if served:
            self._reports.announce(served)

    async def _put_in_force(self, changes: Mapping[str, bytes]) -> None:
        """Swap in changed entries and make known which are refused."""
        refused: dict[str, ConfigError] = {}
        placed: dict[tuple[str, str], bytes] = {}
        for key, data in changes.items():
            if place := _place(key):
                if place[0] in self._prompts:  # others are not served here, and cost nothing
                    placed[place] = data
            elif data:
                refused[key] = ConfigError(
                    "the key names no entry of a prompt config",
                    where=self._topic,
                    found=key,
                    expected="<workspace>/system or <workspace>/template.<id>",
                )
        mended = {key for key, data in changes.items() if not data}
        before = dict(self._prompts)
        for workspace, snapshot in (await self._prompts.change(placed)).items():
            refused |= {
                f"{workspace}/{entry}": error.at(f"{self._topic} {workspace}/{entry}")
                for entry, error in snapshot.refused.items()
            }
            mended |= {key for key in self._refused if (place := _place(key)) and place[0] == workspace}
            self._metrics.configured(workspace, snapshot)
            log_changes(workspace, before[workspace], snapshot)
        for key in mended - refused.keys():
            if self._refused.pop(key, None) is not None:
                self._reports.mended(key)
        for key, error in refused.items():
            if str(self._refused.get(key)) != str(error):
                self._refused[key] = error
                log.error("config entry refused; its last good version, if there was one, stays: %s", error)
                self._reports.refused(key, error)


def log_changes(workspace: str, before: PromptSet | None, after: PromptSet) -> None:
    """Name the prompts that a swap has changed, with their old and new version; and warn of new notes."""
    old, new = {} if before is None else before.prompts, after.prompts
    changed = sorted(id for id in old.keys() | new.keys() if old.get(id) is not new.get(id))
    if changed:
        told = ", ".join(_change(id, old.get(id), new.get(id)) for id in changed[:CHANGES_NAMED])
        more = f" and {len(changed) - CHANGES_NAMED:,} more" if len(changed) > CHANGES_NAMED else ""
        log.info("prompts of workspace %s changed: %s%s", workspace, told, more, extra={"prompts": len(new)})
    for key, note in after.notes.items():
        if before is None or before.notes.get(key) != note:
            log.warning("config entry %s/%s %s", workspace, key, note)


def _change(id: str, old: PromptDefinition | None, new: PromptDefinition | None) -> str:
    before, after = ("" if each is None else each.version[:VERSION_SHOWN] for each in (old, new))
    if not before:
        return f"{id:.100} added ({after})"
    if not after:
        return f"{id:.100} deleted ({before})"
    return f"{id:.100} {before} -> {after}"


@dataclass(slots=True)
class _Push:
    """Entries that wait for the rest of their push."""

    changes: dict[str, bytes] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def wait(self, seconds: float, then: Callable[[], None]) -> None:
        self.stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Due:
    """Changes that are to be swapped in, all that there are together; of two of an entry the later counts."""

    def __init__(self) -> None:
        self._changes: dict[str, bytes] = {}
        self._pushes: dict[str, Collection[str]] = {}
        self._news = asyncio.Event()
        self._over = False

    def add(self, changes: Mapping[str, bytes], push: str | None = None) -> None:
        self._changes |= changes
        if push is not None:
            self._pushes[push] = changes.keys()
        if changes:
            self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def take(self) -> tuple[dict[str, bytes], dict[str, Collection[str]]] | None:
        """What is due, once anything is, and the keys of each push in it; None at the end."""
        await self._news.wait()
        if not self._over:
            self._news.clear()
        changes, self._changes = self._changes, {}
        pushes, self._pushes = self._pushes, {}
        return (changes, pushes) if changes else None


def _place(key: str) -> tuple[str, str] | None:
    """Workspace and entry of a key of the topic, None where it is no such key."""
    workspace, _, entry = key.partition("/")
    if workspace and (entry == "system" or (entry.startswith("template.") and entry != "template.")):
        return workspace, entry
    return None


def _unfinished(messages: Iterable[Message]) -> list[Message]:
    """The entries of pushes that seem to be under way: fresh, and their last one is not there yet."""
    pushes: dict[str, list[Message]] = {}
    for message in messages:
        if id := message.properties.get(PUSH):
            pushes.setdefault(id, []).append(message)
    fresh = time() - SECONDS_FOR_A_PUSH
    return [
        message
        for push in pushes.values()
        if all(MORE in each.properties for each in push) and max(each.published for each in push) > fresh
        for message in push
    ]


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


def check_room(workspace: str, keys: Collection[str]) -> None:
    """Raises `ConfigError` for keys of the topic that are more prompts than a workspace may have."""
    count = sum(key.startswith(f"{workspace}/{PREFIX}") for key in keys)
    if count > MAX_PROMPTS:
        raise ConfigError(
            f"workspace {workspace} would have too many prompts",
            found=f"{count:,}",
            expected=f"at most {MAX_PROMPTS:,}",
        )


async def push(
    broker: Broker, workspace: str, changes: Mapping[str, str | bytes], *, topic: str = TOPIC
) -> str:
    """Publish entries (`system`, `template.<id>`) of a workspace so that they swap in as one; empty deletes.

    Returns the id of the push, under which workers say what they made of it. Publishes whatever it is given:
    build a `PromptSet` from it first. Raises `BrokerError`.
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
    return id
