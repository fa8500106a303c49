"""Finds objects in another shape than the one that was asked for: wrapped, under names, or in a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.object_keys import kinds_of
from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.reader.decode import decode, decode_here
from trustgraph_prompt.reader.scan_results import MAX_REFUSED, Values

LEVELS = 4  # objects around a list
_MOST_MEMBERS = 1_000  # of a value

_NEXT_MEMBER = re.compile(rf"[{{,]{grammar.SPACE}({grammar.STRING}){grammar.SPACE}:{grammar.SPACE}")
_NEXT_ELEMENT = re.compile(rf"[\[,]{grammar.SPACE}(?!\])")
_CALL = ["name", "arguments"]  # of Hermes' `<tool_call>`

# What may stand beside an empty list, and says that nothing went wrong.
_WELL = {
    "status": ("ok", "success", "done", "complete", "completed"),
    "success": (True,),
    "ok": (True,),
    "error": (None,),
    "count": (0,),
    "total": (0,),
}


class _RawValue(NamedTuple):
    """A member or element, its text, and where that begins; it has no value if the text ends within it."""

    value: Any
    raw: str
    start: int
    name: str = ""


@dataclass
class OtherShapes:
    """Finds the objects in the texts of values that the contract rejects."""

    contract: Contract

    def objects(self, raw: str, start: int) -> Values | None:
        """The objects of a complete value, which begins at `start` of the answer.

        Only one reading may be valid, unless the value wraps lists.
        """
        if raw.count("{") < 2:
            return None
        if self.contract.many and (wrapped := self.wrapped(raw, start)):
            return wrapped
        valid = [found for found in self._readings(raw, 0, LEVELS) if all(map(self._accepts, found))]
        return _values(valid[0], start) if len(valid) == 1 else None

    def wrapped(self, raw: str, start: int) -> Values | None:
        """The objects in the lists that a value wraps, truncated or not; None if none of them is valid."""
        found = self._elements(raw, 0, LEVELS) if "[" in raw else []
        return _values(found, start) if any(map(self._accepts, found[:MAX_REFUSED])) else None

    def is_nothing(self, value: dict[str, Any], levels: int = LEVELS) -> bool:
        """Whether a rejected value holds an empty list, and otherwise only says that all went well."""
        held = [item for name, item in value.items() if not _says_well(name, item)]
        if len(held) != 1 or any(map(self._declares, value)):
            return False
        is_wrapped = levels > 1 and isinstance(held[0], dict)
        return self.is_nothing(held[0], levels - 1) if is_wrapped else held[0] == []

    def _accepts(self, found: _RawValue) -> bool:
        value = [found.value] if self.contract.many and self.contract.format == "json" else found.value
        return self.contract.take(value)[1]

    def _elements(self, raw: str, at: int, levels: int) -> list[_RawValue]:
        """The objects in lists; an object with a declared key is an object of the answer, and wraps none."""
        found: list[_RawValue] = []
        for member in islice(_members(raw, at), _MOST_MEMBERS):
            if self._declares(member.name):
                return []
            if raw.startswith("[", member.start) and as_object(self.contract, {member.name: []}) is None:
                room = max(self.contract.limits.objects + 1 - len(found), 0)
                found += islice(_objects(raw, member.start), room)
            elif raw.startswith("{", member.start) and levels > 1:
                found += self._elements(raw, member.start, levels - 1)
        return found

    def _readings(self, raw: str, at: int, levels: int) -> Iterator[list[_RawValue]]:
        """The readings as a call, and with names as keys, of the value or of the only one that it wraps."""
        members = list(islice(_members(raw, at), _MOST_MEMBERS + 1))
        if [member.name for member in members] == _CALL and isinstance(members[1].value, dict):
            yield self._elements(raw, members[1].start, levels - 1) or members[1:]
        are_named = all(isinstance(each.value, dict) and not self._declares(each.name) for each in members)
        if not are_named or not 0 < len(members) <= _MOST_MEMBERS:
            return
        for key in self._name_keys:
            if not any(key in member.value for member in members):
                yield [each._replace(value={key: each.name, **each.value}) for each in members]
        if len(members) == 1 and levels > 1:
            yield from self._readings(raw, members[0].start, levels - 1)

    @cached_property
    def _declares(self) -> Callable[[str], bool]:
        return lru_cache(_MOST_MEMBERS)(self.contract.declares)

    @cached_property
    def _name_keys(self) -> frozenset[str]:
        """The keys that an object must have, and whose value may be a name."""
        kinds = list(kinds_of(self.contract))
        return frozenset(
            key
            for kind in kinds
            for key in kind.required
            if key not in kind.properties or kind.allows("string", key)
        )


def as_object(contract: Contract, wrapper: dict[str, Any]) -> dict[str, Any] | None:
    """The object, if the contract accepts what looks like a wrapper and keeps its first member; else None."""
    taken, accepted = contract.take(wrapper)
    return taken if accepted and next(iter(wrapper)) in taken else None


def _says_well(name: str, value: Any) -> bool:
    said = value.lower() if isinstance(value, str) else value
    return said in _WELL.get(name.lower(), ())


def _members(raw: str, at: int) -> Iterator[_RawValue]:
    """The members of the object at `at`, up to the end of the text."""
    end: int | None = at
    while end is not None and (name := _NEXT_MEMBER.match(raw, end)):
        value, end = decode_here(raw, name.end()) or (None, None)
        yield _RawValue(value, raw[name.end() : end], name.end(), decode(name[1]))
        end = end and grammar.skip_space(raw, end)


def _objects(raw: str, at: int) -> Iterator[_RawValue]:
    """The complete objects in the list at `at`."""
    end = at
    while (begins := _NEXT_ELEMENT.match(raw, end)) and (found := decode_here(raw, begins.end())):
        value, end = found
        if isinstance(value, dict):
            yield _RawValue(value, raw[begins.end() : end], begins.end())
        end = grammar.skip_space(raw, end)


def _values(found: list[_RawValue], start: int) -> Values:
    return Values(
        [each.value for each in found],
        [each.raw for each in found],
        [start + each.start for each in found],
        fenced=False,
    )
