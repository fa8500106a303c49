"""What the two sources of config share: the protocols, the prompts in force, changes, rejections."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from time import time
from typing import Final, Protocol

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.errors import BrokerClosed, ConfigError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.definition import SYSTEM
from trustgraph_prompt.prompts.prompt_set import SYSTEM_KEY
from trustgraph_prompt.worker.config.recent_changes import RecentChanges
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.call_metrics import Ended
from trustgraph_prompt.worker.telemetry.watch import Action, Watch

log = logging.getLogger(__name__)

MAX_CHANGES_LOGGED = 10
"""Prompts that one log line names: hashing the versions of a thousand would hold up requests."""

VERSION_CHARACTERS = 12
"""Characters of a version in the log."""

DEFAULT_SYSTEM: Final = json.dumps({"dialect": SYSTEM.dialect, "prompt": SYSTEM.source})
"""The system message where neither the config topic nor the files of a worker have one."""

PUSH, MORE = "push", "more"
"""Properties of an entry: the id of its push, and that more entries follow."""


class ConfigSource(Protocol):
    """Keeps prompts, and possibly flows, up to date. Call `load`, then `follow`, then `close`."""

    @property
    def refused(self) -> Mapping[str, ConfigError]:
        """The errors of the rejected entries, by key."""

    async def load(self) -> None:
        """Subscribe to changes and read the current config. Raises `BrokerError`."""

    async def follow(self) -> None:
        """Apply changes until closed. Raises `BrokerError`; then call `load` again."""

    async def close(self) -> None:
        """End `follow`. Idempotent."""


class FlowOrigin(Protocol):
    """Another system, in whose place the worker stands. `trustgraph.origin` has one, in a room above."""

    def source(
        self,
        broker: Broker,
        prompts: Prompts,
        serve: Callable[[Iterable[Flow]], None],
        notes: MutableMapping[str, str],
        watch: Watch,
        changes: RecentChanges,
    ) -> ConfigSource:
        """What keeps prompts up to date, and calls `serve` with all flows whenever one has changed.

        `notes` gets the reasons why something cannot be fetched.
        """

    def broker(self, broker: Broker) -> Broker:
        """Wrap the broker of the process, around traces."""

    def calls(self, flow: Flow, provider: Provider) -> Ended:
        """What is to hear of the end of each call of a flow that starts."""

    def forget(self, flow: Flow) -> None:
        """Forget a flow that has ended."""


class Prompts(Mapping[str, PromptSet]):
    """The current snapshot of each workspace: the entries of the config over those of files.

    A new snapshot is built completely, then replaces the old one. An entry that does not compile is rejected,
    and its last good version stays. Only workspaces that flows serve are built.

    `base` is the snapshot of the files alone, the same for every workspace.
    """

    def __init__(
        self, base: Mapping[str, str] | None = None, workspaces: Iterable[str] = ("default",)
    ) -> None:
        self.base = PromptSet.build(base or {})
        self._files = dict(base or {})
        self._entries: dict[str, dict[str, str | bytes]] = {}
        self._snapshots = dict.fromkeys(workspaces, self.base)
        self._since: dict[str, dict[str, float]] = {}
        self._began = time()

    def __getitem__(self, workspace: str) -> PromptSet:
        return self._snapshots[workspace]

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)

    @property
    def on_topic(self) -> list[str]:
        """The keys (`<workspace>/<entry>`) of the entries that are not from files."""
        return [f"{workspace}/{key}" for workspace, entries in self._entries.items() for key in entries]

    @property
    def file_system(self) -> str:
        """The system message of the files, as an entry."""
        return self._files.get(SYSTEM_KEY, DEFAULT_SYSTEM)

    def since(self, workspace: str, prompt: str) -> float:
        """Since when this version of a prompt is served, in seconds since the epoch."""
        return self._since.get(workspace, {}).get(prompt, self._began)

    async def change(self, changes: Mapping[tuple[str, str], bytes]) -> dict[str, PromptSet]:
        """Apply changed entries, by workspace and key, at once; returns the new snapshots.

        Empty data deletes an entry; an entry of the files with the same key then counts again. Not safe for
        concurrent calls.
        """
        for (workspace, key), data in changes.items():
            entries = self._entries.setdefault(workspace, {})
            if data:
                entries[key] = data
            else:
                entries.pop(key, None)
        return await self._build({workspace for workspace, _ in changes})

    async def replace(self, workspace: str, entries: Mapping[str, str | bytes]) -> PromptSet:
        """Replace all entries of a workspace, which may be new; returns its new snapshot.

        Concurrent calls must be for different workspaces.
        """
        self._entries[workspace] = dict(sorted(entries.items()))
        return (await self._build({workspace}))[workspace]

    async def with_entry(self, workspace: str, key: str, text: str) -> PromptSet:
        """The snapshot of a workspace as it would be with another text of an entry; it is not served."""
        entries = {**self._files, **self._entries.get(workspace, {}), key: text}
        return await asyncio.to_thread(PromptSet.build, entries, self._snapshots[workspace])

    def forget(self, workspace: str) -> None:
        """Remove a workspace."""
        self._entries.pop(workspace, None)
        self._since.pop(workspace, None)
        self._snapshots.pop(workspace, None)

    async def _build(self, workspaces: Iterable[str]) -> dict[str, PromptSet]:
        changed = {}
        for workspace in workspaces:
            entries = {**self._files, **self._entries[workspace]}
            # Compiling takes milliseconds per entry, too long for the event loop.
            changed[workspace] = await asyncio.to_thread(
                PromptSet.build, entries, self._snapshots.get(workspace)
            )
        for workspace, snapshot in changed.items():
            self._note_since(workspace, snapshot)
        self._snapshots.update(changed)
        return changed

    def _note_since(self, workspace: str, snapshot: PromptSet) -> None:
        before = self._snapshots.get(workspace)
        old, since, now = before.prompts if before else {}, self._since.get(workspace, {}), time()
        self._since[workspace] = {
            id: since.get(id, self._began) if old.get(id) is prompt else now
            for id, prompt in snapshot.prompts.items()
        }


class RefusedEntries(dict[str, ConfigError]):
    """The errors of the rejected entries of a source, by key."""

    def replace(
        self, refused: Mapping[str, ConfigError], in_scope: Callable[[str], bool]
    ) -> tuple[set[str], dict[str, ConfigError]]:
        """Replace the errors whose keys are in scope, and log the new ones.

        Returns the keys that are no longer rejected, and the errors that are new or have changed.
        """
        repaired = {key for key in self if key not in refused and in_scope(key)}
        for key in repaired:
            del self[key]
        new = {key: error for key, error in refused.items() if str(self.get(key)) != str(error)}
        for error in new.values():
            log.error("config entry rejected, its last good version (if any) stays in use: %s", error)
        self.update(refused)
        return repaired, new


@contextmanager
def watched(watch: Watch, part: str, topic: str, check: Action, close: Action) -> Iterator[Action]:
    """Watch the subscription to changes during the block, which ends when the subscription is closed.

    Yields what closes it as lost. Raises `BrokerClosed` at the end of the block if it was lost.
    """
    lost = False

    async def lose() -> None:
        nonlocal lost
        lost = True
        await close()

    with watch.over(part, check, lose):
        yield lose
    if lost:
        raise BrokerClosed(f"{topic}: the broker no longer sends changes")


def log_changes(workspace: str, before: PromptSet | None, after: PromptSet) -> None:
    """Log which prompts have changed, with their old and new version, and warn of new notes."""
    old, new = {} if before is None else before.prompts, after.prompts
    changed = sorted(id for id in old.keys() | new.keys() if old.get(id) is not new.get(id))
    if changed:
        named = ", ".join(_change(id, old.get(id), new.get(id)) for id in changed[:MAX_CHANGES_LOGGED])
        others = len(changed) - MAX_CHANGES_LOGGED
        more = f" and {others:,} more" if others > 0 else ""
        log.info("prompts of workspace %s changed: %s%s", workspace, named, more, extra={"prompts": len(new)})
    for key, note in after.notes.items():
        if before is None or before.notes.get(key) != note:
            log.warning("config entry %s/%s %s", workspace, key, note)


def _change(id: str, old: PromptDefinition | None, new: PromptDefinition | None) -> str:
    before, after = ("" if prompt is None else prompt.version[:VERSION_CHARACTERS] for prompt in (old, new))
    if not before:
        return f"{id:.100} added ({after})"
    if not after:
        return f"{id:.100} deleted ({before})"
    return f"{id:.100} {before} -> {after}"
