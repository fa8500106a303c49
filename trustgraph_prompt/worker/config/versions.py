"""The versions that prompts have had, by the history: found by their names, and which one came before.

A version covers the system message of its time, so a version is an entry and the system message beside it.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from trustgraph_prompt import package_data
from trustgraph_prompt.broker import Message
from trustgraph_prompt.errors import ConfigError, RequestError, suggestion
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts import files as prompt_files
from trustgraph_prompt.prompts.definition import SYSTEM, PromptDefinition, system_template
from trustgraph_prompt.prompts.pool import POOL
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.prompts.template import Template
from trustgraph_prompt.worker.config.apply_plan import state
from trustgraph_prompt.worker.config.history import (
    FOUND,
    HISTORY,
    ROLLBACK,
    Change,
    bundled_system,
    versions_of,
)
from trustgraph_prompt.worker.config.report_topic import REPORT, system_of_files
from trustgraph_prompt.worker.config.source import DEFAULT_SYSTEM, VERSION_CHARACTERS

VERSIONS_NAMED = IDS_NAMED = 10
"""Versions, the newest, and ids that an error names."""

Read = Callable[[str, str | None], Awaitable[Mapping[str, Message]]]
"""Reads the messages of one workspace on a topic, by entry, or of all, in the order of the topic."""


async def read(read: Read, workspace: str, files: Mapping[str, str] | None, *, topic: str) -> EntryVersions:
    """Read the history of a workspace.

    `files` are those of its workers; None stands for the bundled ones with the system message that workers
    have reported. Raises what `read` raises.
    """
    present = await read(topic, workspace)  # first: whatever is there by now has its record
    if files is None:
        system = system_of_files(await read(topic + REPORT, None), workspace)
        files = {**prompt_files.load(package_data.templates()), **({SYSTEM_KEY: system} if system else {})}
    return EntryVersions.of(await read(topic + HISTORY, workspace), present, files)


def version_of(key: str, entry: str, system: str) -> str | None:
    """The version of an entry under a system message; None if it is not valid."""
    return versions_of({SYSTEM_KEY: system, key: entry}).get(key)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a version: its entry, and the system message of the workspace if the prompt uses it."""

    version: str
    entry: str
    system: str | None

    def same(self, other: Text) -> bool:
        """Whether another text says the same, whichever version it was given."""
        return self.same_entry(other) and self.system == other.system

    def same_entry(self, other: Text) -> bool:
        """Whether another text has the same entry, whatever its system message."""
        return state(self.entry) == state(other.entry)


@dataclass(frozen=True)
class EntryVersions:
    """The changes of a workspace, oldest first, with its `present` entries and the `files` of its workers.

    `skipped` has the reason for each record that is not valid, by key. `files` has a system message.
    """

    changes: Sequence[Change]
    present: Mapping[str, str]
    files: Mapping[str, str]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, records: Mapping[str, Message], present: Mapping[str, Message], files: Mapping[str, str]
    ) -> EntryVersions:
        """Combine the records with the present entries; those without a record count as found."""
        changes: list[Change] = []
        skipped: dict[str, str] = {}
        for key, message in records.items():
            try:
                changes.append(Change.decode(key, message))
            except RequestError as error:
                skipped[key] = str(error)
        texts = {key: message.data.decode(errors="replace") for key, message in present.items()}
        recorded = {(change.key, state(change.entry)) for change in changes if not change.is_canary}
        found = [
            Change(key, "", FOUND, text, None, published=present[key].published)
            for key, text in texts.items()
            if not key.startswith(POOL) and (key, state(text)) not in recorded
        ]
        files, by_time = {SYSTEM_KEY: DEFAULT_SYSTEM, **files}, attrgetter("published")
        # Recorded changes stay in the order of the topic: the clocks of those who publish may differ.
        merged = heapq.merge(changes, sorted(found, key=by_time), key=by_time)
        return cls(_as_served(merged, files[SYSTEM_KEY]), texts, files, skipped)

    @property
    def system(self) -> str:
        """The present system message of the workspace, as an entry."""
        return self.present.get(SYSTEM_KEY, self.files[SYSTEM_KEY])

    def of_entry(self, key: str) -> list[Change]:
        """The changes of an entry, and those of the system message that changed its version.

        Raises `ConfigError` if there has never been such an entry.
        """
        changes = [change for change in self.changes if change.key == key or change.version_of(key)]
        if not any(change.key == key for change in changes):
            ids = sorted({change.key.removeprefix(PREFIX) for change in self.changes})
            id = key.removeprefix(PREFIX)
            named = f"it has {', '.join(ids[:IDS_NAMED])}{', …' if len(ids) > IDS_NAMED else ''}"
            near = suggestion(id, ids) or (f"; {named}" if ids else "; it is empty")
            raise ConfigError(f"the history has no prompt {id!r}{near}")
        return changes

    @cached_property
    def on_topic(self) -> Mapping[str, Change]:
        """The last change of each entry that is on the config topic as the change left it, by key."""
        now = {key: state(text) for key, text in self.present.items()}
        made = (change for change in self.changes if not change.is_canary)
        return {change.key: change for change in made if now.get(change.key) == state(change.entry)}

    def in_force(self, key: str) -> Change | None:
        """The change that gave an entry its present version; None if the entry is not there."""
        if key not in self.present:
            return None
        version = self.text(key).version
        made = [each for each in self.changes if each.version_of(key) == version and not each.is_canary]
        return made[-1] if made else self.on_topic.get(key)

    @property
    def unpublished(self) -> list[str]:
        """The keys whose newest change is not on the config topic."""
        newest = {change.key: change.entry for change in self.changes if not change.is_canary}
        return sorted(key for key, entry in newest.items() if state(entry) != state(self.present.get(key)))

    def text(self, key: str) -> Text:
        """The present text of an entry. Raises `ConfigError` if it is not there."""
        if key not in self.present:
            self.of_entry(key)
            raise ConfigError(f"it is deleted; its versions are {self._named(key)}", where=key)
        version = version_of(key, self.present[key], self.system)
        computed = _text(key, version or "", self.present[key], self.system)
        had = [text for change, text in self._made(key) if text and not change.is_canary]
        return next((text for text in reversed(had) if text.same(computed)), computed)

    def previous(self, key: str) -> Text:
        """The text of the version before the present one, or before the entry was deleted.

        A version that was rolled back is not among them, so that the next rollback goes further back. Raises
        `ConfigError` if there is none.
        """
        line = self._line(key)
        now = self.text(key) if key in self.present else None
        end = max((index for index, text in enumerate(line) if text == now), default=len(line))
        for text in reversed(line[:end]):
            if not (now and text.same(now)):
                return text
        self.of_entry(key)
        raise ConfigError(
            f"there is no version before the present one (`config delete {key}` deletes it); "
            f"its versions are {self._named(key)}",
            where=key,
        )

    def find(self, key: str, version: str) -> Text:
        """The text of a version, which may be abbreviated.

        If no record names the version, it is searched for among all texts of the entry under all system
        messages, those of files included. Raises `ConfigError` if it is unknown, or not the only one.
        """
        for texts in (self._recorded, self._possible):
            found = {text.version: text for text in texts(key) if text.version.startswith(version)}
            if len(found) > 1:
                raise ConfigError(
                    "several versions begin like this",
                    where=key,
                    found=version,
                    expected=f"one of {_abbreviated(found)}",
                )
            if found:
                return found.popitem()[1]
        self.of_entry(key)
        raise ConfigError("there is no such version", where=key, found=version, expected=self._named(key))

    def _named(self, key: str) -> str:
        known = list(dict.fromkeys(text.version for text in self._recorded(key)))
        more = f" and {len(known) - VERSIONS_NAMED:,} more" if len(known) > VERSIONS_NAMED else ""
        return f"{_abbreviated(known[-VERSIONS_NAMED:])}{more}"

    def _recorded(self, key: str) -> Iterator[Text]:
        """The versions of an entry that were recorded, oldest first, and the present one."""
        yield from (text for _, text in self._made(key) if text)
        if key in self.present:
            yield self.text(key)

    def _line(self, key: str) -> list[Text]:
        """The versions that led to the newest one, oldest first.

        Without those that were rolled back, and those of pushes that died before they were published.
        """
        line: list[Text] = []
        for change, text in self._made(key):
            if change.is_canary:
                continue
            versions = [each.version for each in line]
            is_back = text is not None and change.action == ROLLBACK and text.version in versions
            last = text.version if text and is_back else change.replaced if change.key == key else None
            if last in versions:
                del line[len(versions) - versions[::-1].index(last) :]
            if text and not is_back:
                line.append(text)
        return line

    def _made(self, key: str) -> Iterator[tuple[Change, Text | None]]:
        """The changes of an entry, oldest first, each with the text that it made; None for a deletion."""
        entry, system = "", self.files[SYSTEM_KEY]
        for change in self.changes:
            if change.is_canary:
                if change.key == key and change.version:
                    yield change, _text(key, change.version, change.entry, system)
                continue
            if change.key == SYSTEM_KEY:
                system = change.entry or self.files[SYSTEM_KEY]
            if change.key == key:
                entry = change.entry
                if not entry:
                    yield change, None
            if not (version := change.version_of(key)):
                continue
            said = entry if change.key == key else self._text_given(version, key, entry, system)
            if said:
                yield change, _text(key, version, said, system)

    def _text_given(self, version: str, key: str, newest: str, system: str) -> str:
        """The text that got a version from a new system message.

        The newest one, unless that was recorded by a push that died before it was published.
        """
        texts = filter(None, (newest, *reversed([*self._texts(key)])))
        return next((text for text in texts if version_of(key, text, system) == version), newest)

    def _possible(self, key: str) -> Iterator[Text]:
        """The versions of all texts of an entry under all system messages."""
        if key == SYSTEM_KEY:
            yield from (Text(state(text), text, None) for text in self._texts(key))
            return
        systems = {text: _template(text) for text in [*self._texts(SYSTEM_KEY), DEFAULT_SYSTEM]}
        for entry in self._texts(key):
            if (prompt := _prompt(key, entry)) is None:
                continue
            if prompt.own_system:
                yield Text(prompt.version, entry, None)
            else:
                for text, template in systems.items():
                    yield Text(prompt.with_system(template).version, entry, text)

    def _texts(self, key: str) -> Iterable[str]:
        known = [change.entry for change in self.changes if change.key == key]
        return filter(None, dict.fromkeys([*known, self.files.get(key, "")]))


def _as_served(changes: Iterable[Change], system: str) -> list[Change]:
    """The changes with the versions of the workers, whose files have this system message.

    A push does not know the files: without a system message on the topic it records versions under the
    bundled one. What was found has no version yet.
    """
    is_known = state(system) == state(bundled_system()[SYSTEM_KEY])
    in_force, texts, served = "", dict[str, str](), dict[str | None, str | None]()
    made = []
    for change in changes:
        key = change.key
        if key == SYSTEM_KEY:
            in_force = change.entry
        is_right = is_known or bool(in_force)
        if (change.action == FOUND and not change.push) or not (is_right or key == SYSTEM_KEY):
            version = version_of(key, change.entry, in_force or system) if change.entry else None
            if change.version:  # what was found has none
                served[change.version] = version
            change = replace(change, version=version, replaced=served.get(change.replaced, change.replaced))
        elif not is_right:  # the system message was deleted
            new = {
                id: version_of(PREFIX + id, texts[PREFIX + id], system)
                for id in change.versions
                if PREFIX + id in texts
            }
            served |= {change.versions[id]: version for id, version in new.items()}
            change = replace(change, versions={id: version for id, version in new.items() if version})
        if not change.is_canary:
            texts[key] = change.entry
        made.append(change)
    return made


def _text(key: str, version: str, entry: str, system: str) -> Text:
    prompt = _prompt(key, entry)
    uses_system = key != SYSTEM_KEY and not (prompt and prompt.own_system)
    return Text(version, entry, system if uses_system else None)


def _prompt(key: str, entry: str) -> PromptDefinition | None:
    return PromptSet.build({key: entry}, pools=False).prompts.get(key.removeprefix(PREFIX))


def _template(system: str) -> Template:
    """Compile a system message; one that is not valid gives the default, as in a worker."""
    try:
        return system_template(json.loads(system))
    except (ConfigError, ValueError):
        return SYSTEM


def _abbreviated(versions: Iterable[str]) -> str:
    return ", ".join(version[:VERSION_CHARACTERS] for version in versions)
