"""The config topic: prompts that change while the worker runs.

One compacted topic for all workspaces, with one key per entry: `<workspace>/system`,
`<workspace>/template.<id>` and `<workspace>/pool.<sha256>`. An empty message deletes. The entries of one push
carry its id, and all but the last have the property `more`: they are applied at once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import time

from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.broker.opened import opened
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerClosed, BrokerError, ConfigError
from trustgraph_prompt.prompts.pool import POOL
from trustgraph_prompt.prompts.prompt_set import MAX_PROMPTS, PREFIX, SYSTEM_KEY
from trustgraph_prompt.worker.canary.record import Canaries
from trustgraph_prompt.worker.config.canary_topic import CanaryTopic
from trustgraph_prompt.worker.config.recent_changes import RecentChanges, author_properties
from trustgraph_prompt.worker.config.report_topic import SECONDS_FOR_A_REPORT, Reports, refused_keys
from trustgraph_prompt.worker.config.source import MORE, PUSH, Prompts, RefusedEntries, log_changes, watched
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import Watch

log = logging.getLogger(__name__)

TOPIC = "persistent://tg/config/prompt"

SECONDS_FOR_A_PUSH = 10.0
"""How long an entry waits for the next one of its push. After that the publisher has died, and they apply."""

SECONDS_BETWEEN_SWAPS = 0.1
"""Minimum, because a swap costs milliseconds however little has changed. Later changes wait and merge."""

RECORDED = "recorded"
"""Property of an entry: the history has it."""


@dataclass(eq=False, repr=False)
class ConfigTopic:
    """The config topic as a `ConfigSource`, with the `canaries` of its prompts.

    Reports applied and rejected entries on `<topic>-report`.
    """

    broker: Broker
    prompts: Prompts
    producers: ProducerPool
    metrics: Metrics
    watch: Watch
    topic: str = TOPIC
    flows: Sequence[Flow] = ()
    canaries: Canaries = field(default_factory=Canaries)
    changes: RecentChanges = field(default_factory=RecentChanges)
    refused: RefusedEntries = field(default_factory=RefusedEntries, init=False)

    def __post_init__(self) -> None:
        self._reports = Reports(self.producers, self.topic, self.prompts)
        self._canary_topic = CanaryTopic(
            self.broker,
            self.topic,
            self.prompts,
            self.flows,
            self.canaries,
            self._reports,
            self.refused,
            self.watch,
        )
        self._table: Table | None = None
        self._pushes: dict[str, _Push] = {}
        self._push_of: dict[str, str] = {}  # by the key of a waiting entry
        self._begin_pending()

    def _begin_pending(self) -> None:
        self._entries: dict[str, bytes] = {}
        self._complete_pushes: dict[str, Collection[str]] = {}
        self._is_due = asyncio.Event()
        self._ended = False

    async def load(self) -> None:
        """Read the whole topic and apply it. Raises `BrokerError`."""
        await self._close_table()
        self._begin_pending()
        self._table = await self.broker.table(self.topic)
        gone = dict.fromkeys(self.prompts.on_topic, b"")
        unfinished = _unfinished(self._table.entries.values())
        for message in unfinished:
            self._receive(message)
        waiting = {message.key for message in unfinished}
        there = {key: message for key, message in self._table.entries.items() if key not in waiting}
        pushes: dict[str, list[str]] = {}
        for key, message in sorted(there.items(), key=lambda item: item[1].published):
            self.changes.received(message)
            if id := message.properties.get(PUSH):
                pushes.setdefault(id, []).append(key)
        refused = await self._refused_before(there)
        in_order = sorted(there.items(), key=lambda item: (item[0] in refused, item[1].published))
        await self._apply(
            {key: data for key, data in gone.items() if key not in waiting}
            | {key: message.data for key, message in in_order},
            pushes,
        )
        await self._canary_topic.load()
        self._reports.files(self.prompts.file_system)
        self._reports.announce({})

    async def _refused_before(self, keys: Collection[str]) -> Collection[str]:
        """The entries that workers have rejected, if the topic may hold too many prompts.

        With these last, the prompts that were served before the restart are served again.
        """
        if len(keys) + len(self.prompts.base.prompts) <= MAX_PROMPTS:
            return ()
        try:
            async with asyncio.timeout(SECONDS_FOR_A_REPORT):
                return await refused_keys(self.broker, self.topic)
        except (BrokerError, TimeoutError) as error:
            why = error or "no answer"
            log.warning("%s: cannot read which entries were rejected before: %s", self.topic, why)
            return ()

    async def follow(self) -> None:
        """Apply what is published after `load`, in order, until closed. Raises `BrokerError`."""
        table = self._table
        if table is None:
            raise BrokerClosed("the config topic was not loaded")
        applying = asyncio.create_task(self._apply_pending())
        canaries = asyncio.create_task(self._canary_topic.follow())
        try:
            with watched(self.watch, "config topic", self.topic, table.check, table.close):
                async for message in table.changes():
                    self._receive(message)
        finally:
            for push in self._pushes.values():
                push.stop_waiting()
            self._pushes.clear()
            self._push_of.clear()
            self._ended = True
            self._is_due.set()
            canaries.cancel()
            await asyncio.wait([canaries])
            await applying

    async def close(self) -> None:
        """End `follow`; pending reports are sent if that takes no longer than a moment. Idempotent."""
        await self._close_table()
        await self._canary_topic.close()
        await self._reports.close()

    async def _close_table(self) -> None:
        if self._table is not None:
            await self._table.close()

    def _receive(self, message: Message) -> None:
        """Add an entry to the pending changes, or keep it until its push is complete."""
        key = message.key or ""
        self.changes.received(message)
        if (former := self._push_of.pop(key, None)) is not None:
            # the entry published last counts, in whatever order the pushes end
            del self._pushes[former].changes[key]
        id = message.properties.get(PUSH)
        if id is None:
            self._add({key: message.data}, {})
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
        self._add(push.changes, {id: push.changes.keys()})

    def _add(self, entries: Mapping[str, bytes], pushes: Mapping[str, Collection[str]]) -> None:
        """Add changed entries by key, and the keys of each push among them; of one key the last counts."""
        self._entries.update(entries)
        self._complete_pushes.update(pushes)
        if self._entries:
            self._is_due.set()

    async def _apply_pending(self) -> None:
        while await self._is_due.wait() and self._entries:
            entries, pushes = self._entries, self._complete_pushes
            self._entries, self._complete_pushes = {}, {}
            if not self._ended:
                self._is_due.clear()
            await self._apply(entries, pushes)
            await asyncio.sleep(SECONDS_BETWEEN_SWAPS)

    async def _apply(self, changes: Mapping[str, bytes], pushes: Mapping[str, Collection[str]]) -> None:
        """Apply changed entries and report what each push had rejected."""
        try:
            await self._swap(changes)
        except Exception:
            log.exception("internal error, the prompts stay unchanged")
            return
        self.changes.applied(changes, self.refused, self.prompts)
        served = {
            id: [key for key in keys if key in self.refused]
            for id, keys in pushes.items()
            if any((parts := _split(key)) and parts[0] in self.prompts for key in keys)
        }
        if served:
            self._reports.announce(served)

    async def _swap(self, changes: Mapping[str, bytes]) -> None:
        """Swap in changed entries, log and report which are rejected."""
        refused: dict[str, ConfigError] = {}
        served: dict[tuple[str, str], bytes] = {}
        for key, data in changes.items():
            if parts := _split(key):
                if parts[0] in self.prompts:  # other workspaces are not served here, and cost nothing
                    served[parts] = data
            elif data:
                refused[key] = ConfigError(
                    "the key names no entry of a prompt config",
                    where=self.topic,
                    found=key,
                    expected="<workspace>/system, <workspace>/template.<id> or <workspace>/pool.<sha256>",
                )
        before = dict(self.prompts)
        snapshots = await self.prompts.change(served)
        for workspace, snapshot in snapshots.items():
            refused |= {
                f"{workspace}/{entry}": error.at(f"{self.topic} {workspace}/{entry}")
                for entry, error in snapshot.refused.items()
            }
            self.metrics.configured(workspace, snapshot)
            log_changes(workspace, before[workspace], snapshot)
        if snapshots:
            await self._canary_topic.apply()

        def in_scope(key: str) -> bool:
            parts = _split(key)
            return changes.get(key) == b"" or (parts is not None and parts[0] in snapshots)

        self._reports.judged(*self.refused.replace(refused, in_scope))


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


def _split(key: str) -> tuple[str, str] | None:
    """Workspace and entry of a key; None if it is not a key of a prompt config."""
    workspace, _, entry = key.partition("/")
    is_named = entry.startswith((PREFIX, POOL)) and entry not in (PREFIX, POOL)
    return (workspace, entry) if workspace and (entry == SYSTEM_KEY or is_named) else None


def _unfinished(messages: Iterable[Message]) -> list[Message]:
    """The entries of recent pushes whose last entry is missing: they are probably still being published."""
    pushes: dict[str, list[Message]] = {}
    for message in messages:
        if id := message.properties.get(PUSH):
            pushes.setdefault(id, []).append(message)
    since = time() - SECONDS_FOR_A_PUSH
    return [
        message
        for push in pushes.values()
        if all(MORE in entry.properties for entry in push) and max(entry.published for entry in push) > since
        for message in push
    ]


async def entries(broker: Broker, workspace: str | None = None, *, topic: str = TOPIC) -> dict[str, bytes]:
    """The current entries of a workspace, or of all as `<workspace>/<entry>`. Raises `BrokerError`."""
    found = await messages(broker, workspace, topic=topic)
    return {key: message.data for key, message in found.items()}


async def messages(broker: Broker, workspace: str | None = None, *, topic: str = TOPIC) -> dict[str, Message]:
    """As `entries`, with the messages that carry them, in the order of the topic. Raises `BrokerError`."""
    prefix = "" if workspace is None else f"{workspace}/"
    async with opened(broker.table(topic)) as table:
        there = table.entries.items()
        return {key.removeprefix(prefix): message for key, message in there if key.startswith(prefix)}


def check_room(workspace: str, keys: Collection[str]) -> None:
    """Check that a workspace with these keys has at most `MAX_PROMPTS` prompts. Raises `ConfigError`.

    The keys are without the workspace, as in `push`.
    """
    count = sum(key.startswith(PREFIX) for key in keys)
    if count > MAX_PROMPTS:
        raise ConfigError(
            f"workspace {workspace} would have too many prompts",
            found=f"{count:,}",
            expected=f"at most {MAX_PROMPTS:,}",
        )


async def push(
    broker: Broker,
    workspace: str,
    changes: Mapping[str, str | bytes],
    *,
    topic: str = TOPIC,
    recorded_as: str | None = None,
    by: str = "",
    why: str = "",
) -> str:
    """Publish entries (`system`, `template.<id>`, `pool.<sha256>`) of a workspace, to be applied at once.

    Empty data deletes. Does not check the entries: build a `PromptSet` from them first. `recorded_as` is the
    id of the push in the history, None if it is not there (`history.push` records it). Workers show `by` and
    `why`. Returns the id of the push, under which workers report. Raises `BrokerError`.
    """
    id = recorded_as or uuid.uuid4().hex
    always = {PUSH: id, **author_properties(by, why)}
    if recorded_as:
        always[RECORDED] = "true"
    async with opened(broker.producer(topic)) as producer:
        for number, (entry, data) in enumerate(changes.items(), 1):
            properties = {**always, MORE: "true"} if number < len(changes) else always
            text = data.encode() if isinstance(data, str) else data
            await producer.send(text, key=f"{workspace}/{entry}", properties=properties)
    return id
