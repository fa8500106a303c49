"""Decides what `config apply` publishes: compares the config topic with what is wanted and what was applied.

Each owner has a record of what it applied last, so that it deletes only its own entries, and notices what
another client has changed since. No I/O: `apply.py` carries the plan out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from trustgraph_prompt import wire
from trustgraph_prompt.prompts.pool import POOL

Record = Mapping[str, Collection[str]]
"""What an owner applied last in a workspace: for each entry, the states in which it may have left it.

A state is a digest, or `ABSENT`. There are several only from before a push until after it: whatever part of
the push a killed process has published, the next one finds it in the record.
"""

ABSENT: Final = ""
"""The state of an entry that is not on the topic."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to publish for an owner, in this order: the record `before`, the `changes`, the record `after`.

    An empty change deletes; a record that is None need not be published. `left` are entries that are not the
    owner's to change, each with the reason. `present` are the entries until now.
    """

    changes: Mapping[str, str]
    left: Mapping[str, str]
    before: Record | None
    after: Record | None
    present: Mapping[str, bytes]


def plan(
    owner: str,
    wanted: Mapping[str, str],
    present: Mapping[str, bytes],
    records: Mapping[str, Record],
    *,
    force: bool = False,
) -> Proposal:
    """Plan how the entries of a workspace become what `owner` wants, given the records of all owners.

    An entry that is present as wanted and belongs to nobody becomes the owner's. An entry that another client
    changed, deleted or owns is left alone unless `force`; one that the owner no longer wants and that another
    owner has taken over always is. A pool is never deleted: earlier versions of prompts name it.
    """
    record = records.get(owner, {})
    others = sorted(records.keys() - {owner})
    changes: dict[str, str] = {}
    left: dict[str, str] = {}
    before, after = dict(record), dict(record)
    for key in sorted(wanted.keys() | record.keys()):
        now, want = state(present.get(key)), state(wanted.get(key))
        other = next((name for name in others if now in records[name].get(key, ())), None)
        if want == ABSENT and (other is not None or key.startswith(POOL)):
            after.pop(key, None)
        elif not force and (reason := _conflict(now, want, record.get(key), other)):
            left[key] = reason
        else:
            if now != want:
                changes[key] = wanted.get(key, "")
                before[key] = tuple(dict.fromkeys([*record.get(key, (ABSENT,)), want]))
            after[key] = (want,)
    after = {key: states for key, states in after.items() if tuple(states) != (ABSENT,)}
    return Proposal(
        changes,
        left,
        before if before != record else None,
        after if after != record else None,
        present,
    )


def _conflict(now: str, want: str, applied: Collection[str] | None, other: str | None) -> str | None:
    """Why an entry is not the owner's to change. Of two owners in agreement, either may change it."""
    if other is not None and now not in (applied or ()):
        return f"it belongs to owner {other}"
    if now == want or now in (applied or (ABSENT,)):
        return None
    if applied is None:
        return "another client published it"
    return f"another client {'deleted' if now == ABSENT else 'changed'} it since it was last applied"


def state(data: str | bytes | None) -> str:
    """The state of an entry with this data: the same for JSON that differs only in layout.

    The order of keys counts below the top, because a prompt describes its schema in that order.
    """
    if not data:
        return ABSENT
    try:
        value = orjson.loads(data)
        canonical = orjson.dumps(dict(sorted(value.items())) if isinstance(value, dict) else value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        canonical = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    return hashlib.sha256(canonical).hexdigest()


def encode(record: Record) -> bytes:
    """A record as JSON; empty, which deletes it, if the owner has no entries."""
    return wire.encode({"entries": {key: list(states) for key, states in record.items()}}) if record else b""


def decode(data: bytes) -> Record:
    """Parse a record. Raises `ValueError` if it is none."""
    match orjson.loads(data):
        case {"entries": dict(entries)} if all(map(_are_states, entries.values())):
            return {key: tuple(states) for key, states in entries.items()}
        case _:
            raise ValueError("not an object `entries` of lists of digests")


def _are_states(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(state, str) for state in value)
