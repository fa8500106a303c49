"""Finds the rule that a rejected value breaks: the line of the schema, and the rule in that line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from trustgraph_prompt.contract.contract import Contract
from trustgraph_prompt.contract.grounded_keys import FROM, GROUNDING
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.json_text.pointer import follow, pointer, steps

SHORT, LONGEST = 78, 160
"""Characters of a line. Beyond SHORT it shows less of what is nested, beyond LONGEST only the broken rule."""

_DEPTH = 4
_ELEMENTS = 10
_CHARACTERS = 60


class BrokenRule(NamedTuple):
    """One line, in which the characters from `start` to `end` are the rule.

    `where` is the file with line and column, or else a JSON Pointer into the contract. `text` may hold
    anything that the author of the schema wrote: escape it for its reader.
    """

    where: str
    text: str
    start: int
    end: int


class RuleSource(Protocol):
    """The file that a contract was read from."""

    def rule(self, keyword: str) -> BrokenRule | None:
        """The line of the rule at a JSON Pointer into the contract, as in `Issue`; None if unknown."""


def broken_rule(keyword: str, contract: Contract, source: RuleSource | None = None) -> BrokenRule | None:
    """The rule that an issue names by its `keyword`: its line in the source, else its part of the schema.

    None if the issue names none, or if this contract does not have it.
    """
    if not keyword.startswith("/"):
        return None
    return (source.rule(keyword) if source else None) or _part(keyword, contract)


class SchemaFile:
    """A JSON Schema in a file."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._lines = positions.Lines(text)

    def rule(self, keyword: str) -> BrokenRule | None:
        part, *path = steps(keyword)
        if part != "schema":
            return None
        span = positions.member(self._text, pointer(path))
        line, column = self._lines.at(span.start)
        text = self._text.split("\n")[line - 1].rstrip()
        end = min(len(text), column - 1 + span.end - span.start)
        return unindented(f"{self._name}:{line}:{column}", text, column - 1, end)


def unindented(where: str, line: str, start: int, end: int) -> BrokenRule:
    """Make a rule of a line of a file."""
    indent = len(line) - len(line.lstrip())
    return BrokenRule(where, line[indent:], start - indent, end - indent)


def _part(keyword: str, contract: Contract) -> BrokenRule | None:
    part, *path = steps(keyword)
    match part, path:
        case "extra", []:
            return _all_of(keyword, f"extra: {contract.extra}")
        case "invariants", [index]:
            rule = next(
                (each.rule for place, each in enumerate(contract.invariants) if str(place) == index), None
            )
            return None if rule is None else _all_of(keyword, rule)
        case "versions", [version, *path]:
            schema, root = (contract.versions or {}).get(version), pointer((part, version))
        case "schema", _:
            schema, root = contract.schema, "/schema"
        case _:
            return None
    while path and not isinstance(follow(schema, pointer(path[:-1])), dict):
        path.pop()  # the holder is a list
    if not path:
        return None if schema is None else _all_of(root, _shown(schema, 1))
    *above, name = path
    place = root + pointer(above)
    holder = follow(schema, pointer(above)) | _sources(place, contract)
    return _member(place, holder, name) if name in holder else None


def _all_of(where: str, text: str) -> BrokenRule:
    return BrokenRule(where, text, 0, len(text))


def _sources(place: str, contract: Contract) -> dict[str, Any]:
    """The keywords of grounding at a place, which the contract has removed from its schema."""
    for path, (terms, policy) in contract.sources.said if contract.sources else ():
        if place in (path, f"/schema{path}"):
            given = {FROM: terms[0] if len(terms) == 1 else terms}
            return given if policy == "refuse" else {**given, GROUNDING: policy}
    return {}


def _member(where: str, holder: dict[str, Any], name: str) -> BrokenRule:
    """A subschema in one line, as much of it as fits, with one member marked."""
    for depth in range(_DEPTH, 0, -1):
        rule = _marked(where, ((key, _shown(value, depth - 1)) for key, value in holder.items()), name)
        if len(rule.text) <= (SHORT if depth > 1 else LONGEST):
            return rule
    return _marked(where, [(name, _shown(holder[name], 1))], name)


def _marked(where: str, members: Iterable[tuple[str, str]], name: str) -> BrokenRule:
    """The members in one line. Those beyond LONGEST are left out: the line is too long anyway."""
    text, start, end = "{", 0, 0
    for key, value in members:
        if len(text) > LONGEST:
            break
        text += ", " if len(text) > 1 else ""
        begin = len(text)
        text += f"{_shown(key, 0)}: {value}"
        start, end = (begin, len(text)) if key == name else (start, end)
    return BrokenRule(where, text + "}", start, end)


def _shown(value: Any, depth: int) -> str:
    """JSON with `…` for what is long, or nested deeper than `depth`."""
    match value:
        case str():
            return json.dumps(excerpt(value, _CHARACTERS), ensure_ascii=False)
        case dict() if value and depth <= 0:
            return "{…}"
        case dict():
            members = (f"{_shown(key, 0)}: {_shown(each, depth - 1)}" for key, each in value.items())
            return f"{{{_joined(members, len(value))}}}"
        case list() if depth <= 0 and any(isinstance(each, dict | list) for each in value[:_ELEMENTS]):
            return "[…]"
        case list():
            elements = (_shown(each, depth - 1) for each in value[:_ELEMENTS])
            return f"[{_joined(elements, len(value))}]"
    return excerpt(json.dumps(value), _CHARACTERS)


def _joined(parts: Iterable[str], count: int) -> str:
    """Join the first of `count` parts. Once they are longer than LONGEST, `…` stands for the rest."""
    shown: list[str] = []
    length = 0
    for part in parts:
        shown.append(part)
        length += len(part)
        if length > LONGEST:
            break
    return ", ".join(shown + ["…"] * (count > len(shown)))
