"""The canary topic beside the config topic: keeps the canaries of a worker up to date."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.errors import BrokerError, ConfigError, without_frames
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.prompt_set import PREFIX
from trustgraph_prompt.worker.canary.record import CANARY, Canaries, Canary
from trustgraph_prompt.worker.config.report_topic import REFUSED_CANARY, Reports
from trustgraph_prompt.worker.config.source import (
    MORE,
    PUSH,
    VERSION_CHARACTERS,
    Prompts,
    RefusedEntries,
    watched,
)
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.watch import Watch

log = logging.getLogger(__name__)

MAX_CANARIES: Final = 50
"""Canaries that a worker serves. Each is compiled anew when its workspace changes."""

SECONDS_TO_READ = 5.0
"""Timeout for reading the topic. A worker serves without canaries if it cannot be read."""

SECONDS_BETWEEN_READINGS = 5.0
"""Before a topic that could not be read or followed is read again."""

_Served = tuple[Canary, PromptDefinition]


@dataclass(eq=False, repr=False)
class CanaryTopic:
    """Serves what is on `<config topic>-canary` as `canaries`, and reports what is rejected.

    A worker that cannot read the topic serves without canaries, or with those that it knows, and tries again.
    """

    broker: Broker
    config_topic: str
    prompts: Prompts
    flows: Sequence[Flow]
    canaries: Canaries
    reports: Reports
    refused: RefusedEntries
    watch: Watch
    _table: Table | None = field(default=None, init=False)
    _messages: dict[str, Message] = field(default_factory=dict, init=False)
    _made: dict[str, tuple[Message, PromptSet, _Served]] = field(default_factory=dict, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._topic = self.config_topic + CANARY

    async def load(self) -> None:
        """Read the whole topic and apply it; an error is only logged."""
        try:
            async with asyncio.timeout(SECONDS_TO_READ):
                await self.close()
                self._table = await self.broker.table(self._topic)
        except (BrokerError, TimeoutError) as error:
            log.warning("%s: cannot read which canaries there are: %s", self._topic, error or "no answer")
            return
        self._messages = {
            key: message for key, message in self._table.entries.items() if self._is_served(key)
        }
        await self.apply()
        if pushes := self._refused_by_push():
            self.reports.announce(pushes)

    async def follow(self) -> None:
        """Apply what is published after `load`, until cancelled."""
        while True:
            try:
                if (table := self._table) is not None:
                    with watched(self.watch, "canary topic", self._topic, table.check, table.close):
                        async for message in table.changes():
                            await self._receive(message)
            except BrokerError as error:
                log.warning("%s: lost the connection, it is read again: %s", self._topic, error)
            await asyncio.sleep(SECONDS_BETWEEN_READINGS)
            await self.load()

    async def close(self) -> None:
        """End the subscription. Idempotent."""
        table, self._table = self._table, None
        if table is not None:
            await table.close()

    async def apply(self) -> None:
        """Compile the canaries against the current prompts and serve those that are valid."""
        async with self._turn:
            try:
                await self._swap()
            except Exception:
                log.exception("internal error, the canaries stay unchanged")

    async def _swap(self) -> None:
        served: dict[tuple[str, str], _Served] = {}
        refused: dict[str, ConfigError] = {}
        messages = sorted(self._messages.items())
        for number, (key, message) in enumerate(messages):
            workspace, _, entry = key.partition("/")
            try:
                if number >= MAX_CANARIES:
                    most = f"at most {MAX_CANARIES}"
                    raise ConfigError("there are too many canaries", found=len(messages), expected=most)
                served[workspace, entry.removeprefix(PREFIX)] = await self._canary(key, message)
            except ConfigError as error:
                refused[REFUSED_CANARY + key] = without_frames(error).at(f"{self._topic} {key}")
        self._made = {key: made for key, made in self._made.items() if key in self._messages}
        self._log_changes(served)
        self.canaries.served = served
        self.reports.judged(*self.refused.replace(refused, lambda key: key.startswith(REFUSED_CANARY)))

    async def _receive(self, message: Message) -> None:
        key = message.key or ""
        if not self._is_served(key):
            return
        self._messages.pop(key, None)
        if message.data:
            self._messages[key] = message
        await self.apply()
        push = message.properties.get(PUSH)
        if push is not None and MORE not in message.properties:
            self.reports.announce({push: self._refused_by_push().get(push, [])})

    def _is_served(self, key: str) -> bool:
        return key.partition("/")[0] in self.prompts

    def _refused_by_push(self) -> dict[str, list[str]]:
        """The pushes of the canaries that are on the topic, with the keys of those that are rejected."""
        pushes: dict[str, list[str]] = {}
        for key, message in self._messages.items():
            if push := message.properties.get(PUSH):
                name = REFUSED_CANARY + key
                pushes.setdefault(push, []).extend([name] if name in self.refused else [])
        return pushes

    async def _canary(self, key: str, message: Message) -> _Served:
        """The canary of a key, compiled once for as long as nothing changes. Raises `ConfigError`."""
        snapshot = self.prompts[key.partition("/")[0]]
        made = self._made.get(key)
        if made is None or made[0] is not message or made[1] is not snapshot:
            made = self._made[key] = message, snapshot, await self._compiled(key, message.data, snapshot)
        return made[2]

    async def _compiled(self, key: str, data: bytes, snapshot: PromptSet) -> _Served:
        """The canary with its prompt as it would be in the workspace. Raises `ConfigError`."""
        workspace, _, entry = key.partition("/")
        id = entry.removeprefix(PREFIX)
        if not entry.startswith(PREFIX) or id not in snapshot.prompts:
            raise ConfigError(
                "there is no such prompt, and only a prompt can have a canary",
                found=entry,
                expected=f"{PREFIX}<id> with the id of a prompt of the workspace",
            )
        canary = Canary.decode(data)
        asking = [flow for flow in self.flows if flow.may_ask(id, workspace, self.prompts)]
        if asking and all(flow.outputs.answers is None for flow in asking):
            raise ConfigError(
                "no flow that uses the prompt keeps its answers, by which a canary is judged",
                found=", ".join(sorted(flow.name for flow in asking)),
                expected="a flow with `outputs.answers`",
            )
        changed = await self.prompts.with_entry(workspace, entry, canary.entry)
        if (error := changed.refused.get(entry)) is not None:
            raise ConfigError(f"the canary cannot be served: {error}")
        return canary, replace(changed.prompts[id], canary=canary.id)

    def _log_changes(self, served: Mapping[tuple[str, str], _Served]) -> None:
        before, now = _described(self.canaries.served), _described(served)
        for workspace, id in sorted(before.keys() | now.keys()):
            what = now.get((workspace, id), "has ended")
            if before.get((workspace, id)) != what:
                log.info("the canary of prompt %.100s of workspace %s %s", id, workspace, what)


def _described(served: Mapping[tuple[str, str], _Served]) -> dict[tuple[str, str], str]:
    return {
        key: f"answers {100 * canary.share:g} % of its requests ({prompt.version[:VERSION_CHARACTERS]})"
        for key, (canary, prompt) in served.items()
    }
