"""The history of the config topic, on `<config topic>-history`: what changed, when, by whom and why.

Compacted, with one key for each change, `<workspace>/<entry>@<id of the push>`: nothing is overwritten, not
even by two who push at the same time. A change is recorded before its entry is published. A process that dies
in between leaves the record of a change that workers never saw; what they serve is on the config topic.
`versions.py` reads it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from trustgraph_prompt import package_data, wire
from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.broker.opened import opened
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.prompts.pool import pools_in
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.wire.records import take
from trustgraph_prompt.worker.canary.record import Canary
from trustgraph_prompt.worker.config import config_topic
from trustgraph_prompt.worker.config.apply_plan import state

HISTORY: Final = "-history"
"""Suffix of the config topic's name."""

PUSH, DELETE, ROLLBACK, CANARY, FOUND = "push", "delete", "rollback", "canary", "found"
"""What changed an entry. A canary changes none, but makes objects. What was found was published by something
that keeps no history."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who makes a change, and why."""

    by: str
    why: str = ""


_RECORDED: Final = ("action", "entry", "version", "replaced", "by", "why", "versions")
"""What a record has of a change; its key and its message have the rest."""

NOBODY: Final = Author("")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one entry of a workspace.

    `entry` is its text, empty if it was deleted. `version` is that of the prompt, under the system message of
    that time; a system message has the digest of its entry. None: deleted, or not valid. `replaced` is the
    version before, or the one that is served beside a canary. `versions` are those that a system message gave
    to other prompts, by id. `published` is in seconds since the epoch, 0 if unknown.
    """

    key: str
    push: str
    action: str
    entry: str
    version: str | None
    replaced: str | None = None
    by: str = ""
    why: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    published: float = 0.0

    def encode(self) -> bytes:
        """Encode the record of the change."""
        return wire.encode({name: getattr(self, name) for name in _RECORDED})

    @classmethod
    def decode(cls, key: str, message: Message) -> Change:
        """Decode a record; `key` is without the workspace. Raises `RequestError` if it is not valid."""
        where = "the record"
        entry, at, push = key.rpartition("@")
        if not at or not (entry == SYSTEM_KEY or entry.startswith(PREFIX)):
            raise RequestError("the key is not <workspace>/<entry>@<id>")
        record = wire.decode(message.data, where)
        versions = take(record, where, versions=dict).get("versions", {})
        if not all(isinstance(version, str) for version in versions.values()):
            raise RequestError(f"{where}/versions: expected strings")
        known = take(record, where, action=str, entry=str, version=str, replaced=str, by=str, why=str)
        known = {"action": PUSH, "entry": "", "version": None, **known}
        return cls(entry, push, **known, versions=versions, published=message.published)

    @property
    def is_canary(self) -> bool:
        """Whether the entry stayed as it was, and a canary had this text."""
        return self.action == CANARY

    def version_of(self, key: str) -> str | None:
        """The version that the change gave to an entry, None if it did not change it."""
        return self.version if key == self.key else self.versions.get(key.removeprefix(PREFIX))


def versions_of(entries: Mapping[str, str | bytes]) -> dict[str, str]:
    """The version of each valid entry, by key. There must be a system message; its version is a digest."""
    prompts = PromptSet.build(entries, pools=False).prompts
    versions = {PREFIX + id: prompt.version for id, prompt in prompts.items()}
    return versions | {SYSTEM_KEY: state(entries[SYSTEM_KEY])}


def bundled_system() -> dict[str, str]:
    """The system message of a worker without other files, as an entry by its key."""
    return files.load(package_data.templates() / "system.prompt")


async def push(
    broker: Broker,
    workspace: str,
    changes: Mapping[str, str],
    author: Author,
    *,
    action: str | None = None,
    topic: str = config_topic.TOPIC,
) -> str:
    """Record the changes of a workspace, then publish them as `config_topic.push` does, pools first.

    Entries that stay as they are get no record, and neither do pools: what a key names never changes, so one
    that is there is not published again. Returns the id of the push. Raises `BrokerError`.
    """
    id = uuid.uuid4().hex
    present = await config_topic.messages(broker, workspace, topic=topic)
    pools = pools_in(changes)
    others = {key: text for key, text in changes.items() if key not in pools}
    await _record(broker, workspace, _changes(id, present, others, author, action), topic)
    changes = {key: text for key, text in pools.items() if not text or key not in present} | others
    return await config_topic.push(
        broker, workspace, changes, topic=topic, recorded_as=id, by=author.by, why=author.why
    )


async def record_canaries(
    broker: Broker,
    workspace: str,
    present: Mapping[str, bytes],
    canaries: Mapping[str, Canary],
    *,
    topic: str = config_topic.TOPIC,
) -> None:
    """Record canaries of the present entries, by key: the text of one that is aborted is nowhere else.

    Raises `BrokerError`.
    """
    concerned = present.keys() & {*canaries, SYSTEM_KEY}
    now: dict[str, str | bytes] = {**bundled_system(), **{key: present[key] for key in concerned}}
    served = versions_of(now)
    made = versions_of({**now, **{key: canary.entry for key, canary in canaries.items()}})
    changes = [
        Change(key, each.id, CANARY, each.entry, made.get(key), served.get(key), each.by, each.why)
        for key, each in canaries.items()
    ]
    await _record(broker, workspace, changes, topic)


async def _record(broker: Broker, workspace: str, changes: Iterable[Change], topic: str) -> None:
    async with opened(broker.producer(topic + HISTORY)) as producer:
        for change in changes:
            await producer.send(change.encode(), key=f"{workspace}/{change.key}@{change.push}")


def _changes(
    push: str, present: Mapping[str, Message], changes: Mapping[str, str], author: Author, action: str | None
) -> Iterator[Change]:
    """What a push records: the present entries that have no record yet, then each entry that it changes.

    The system message comes first, because the versions of the others depend on it.
    """
    concerned = present.keys() if SYSTEM_KEY in changes else present.keys() & {*changes, SYSTEM_KEY}
    now: dict[str, str | bytes] = {key: present[key].data for key in concerned}
    later = {key: data for key, data in {**now, **changes}.items() if data}
    system = bundled_system()
    before, after = versions_of({**system, **now}), versions_of({**system, **later})
    keys = sorted(changes, key=lambda key: key != SYSTEM_KEY)
    for key in keys:
        old = present.get(key)
        if old is not None and config_topic.RECORDED not in old.properties:
            # The same id for all who find this message, and another one when its text is published again.
            id = state(f"{old.id} {old.published}")[:32]
            yield Change(key, id, FOUND, old.data.decode(errors="replace"), before.get(key))
    changed = [key for key in keys if state(changes[key]) != state(now.get(key))]
    for key in changed:
        new = changes[key]
        yield Change(
            key,
            push,
            action or (PUSH if new else DELETE),
            new,
            after.get(key) if new else None,
            before.get(key) if key in now else None,
            author.by,
            author.why,
            _given_versions(changed, before, after) if key == SYSTEM_KEY else {},
        )


def _given_versions(
    changed: Collection[str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """The versions that a new system message gives to the prompts that do not change themselves."""
    return {
        key.removeprefix(PREFIX): version
        for key, version in after.items()
        if key not in changed and before.get(key) != version
    }
