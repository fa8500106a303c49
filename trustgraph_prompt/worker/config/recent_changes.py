"""The last changes of config that a worker applied, with who made them and why where the entries say so."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from time import time
from typing import Final, Literal

from trustgraph_prompt.broker import Message
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.prompt_set import PREFIX

CHANGES: Final = 20
MAX_AUTHOR: Final = 200
"""Characters of who made a change, and of why. The history has all of it."""

BY, WHY = "by", "why"
"""Properties of an entry on the config topic."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change of an entry. `at` is when it was published, in seconds since the epoch.

    `prompt` is the prompt since then, None if there is none. `by` and `why` are None if unknown.
    """

    at: float
    workspace: str
    entry: str
    action: Literal["push", "delete", "rejected"]
    prompt: PromptDefinition | None
    by: str | None = None
    why: str | None = None


def author_properties(by: str, why: str) -> dict[str, str]:
    """The properties of an entry that say who published it, and why."""
    said = {BY: by, WHY: why}
    return {
        name: excerpt(text.encode(errors="replace").decode(), MAX_AUTHOR)
        for name, text in said.items()
        if text
    }


class RecentChanges:
    """Keeps the last changes in `newest`, newest first."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self.newest: list[AppliedChange] = []
        self._received: dict[str, tuple[float, Mapping[str, str]]] = {}
        self._clock = clock

    def received(self, message: Message) -> None:
        """Remember who published an entry until it is applied."""
        properties = {name: message.properties[name] for name in (BY, WHY) if name in message.properties}
        self._received[message.key or ""] = message.published, properties

    def applied(
        self, entries: Mapping[str, bytes], refused: Container[str], prompts: Mapping[str, PromptSet]
    ) -> None:
        """Add changed entries of the config topic by key (`<workspace>/<entry>`), empty if deleted."""
        changes = []
        for key, data in entries.items():
            published, author = self._received.pop(key, (0.0, {}))
            workspace, _, entry = key.partition("/")
            if workspace not in prompts:
                continue
            prompt = prompts[workspace].prompts.get(entry.removeprefix(PREFIX)) if data else None
            action: Literal["push", "delete", "rejected"] = "push" if data else "delete"
            if key in refused:
                action, prompt = "rejected", None
            at = published or self._clock()
            changes.append(
                AppliedChange(at, workspace, entry, action, prompt, author.get(BY), author.get(WHY))
            )
        self._add(changes)

    def replaced(self, workspace: str, before: PromptSet | None, after: PromptSet) -> None:
        """Add the differences of two snapshots of a workspace."""
        old, new, now = {} if before is None else before.prompts, after.prompts, self._clock()
        self._add(
            AppliedChange(now, workspace, PREFIX + id, "push" if id in new else "delete", new.get(id))
            for id in old.keys() | new.keys()
            if old.get(id) is not new.get(id)
        )

    def _add(self, changes: Iterable[AppliedChange]) -> None:
        """Add changes; one that is known, because the topic was read again, is not added twice."""
        known = {(each.workspace, each.entry, each.at): each for each in (*changes, *self.newest)}
        self.newest = sorted(known.values(), key=lambda change: -change.at)[:CHANGES]
