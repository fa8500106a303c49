"""Finds the rule that a rejected value breaks: the line of the schema, and the rule in that line."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from trustgraph_prompt.contract.contract import Contract
from trustgraph_prompt.contract.grounded_keys import FROM, GROUNDING, QUOTE
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.json_text.pointer import follow, pointer, steps

LONGEST = 160
"""Characters of a part of the schema. A longer part is reduced to its rule, and a longer rule is cut."""


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
            rule = follow([each.rule for each in contract.invariants], pointer([index]))
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
        return None if schema is None else _all_of(root, _json(schema))
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
            given = {QUOTE if policy == "quote" else FROM: terms[0] if len(terms) == 1 else terms}
            return {**given, GROUNDING: policy} if policy in ("strict", "mark") else given
    return {}


def _member(where: str, holder: dict[str, Any], name: str) -> BrokenRule:
    """A subschema in one line with one member marked; `…` stands for what is nested in the others."""
    members = {
        key: f"{_json(key)}: {'…' if key != name and isinstance(value, dict | list) else _json(value)}"
        for key, value in holder.items()
    }
    rule, above = members[name], list(members.values())[: list(members).index(name)]
    start = len("".join(["{", *(f"{member}, " for member in above)]))
    text = "{" + ", ".join(members.values()) + "}"
    return _all_of(where, rule) if len(text) > LONGEST else BrokenRule(where, text, start, start + len(rule))


def _json(value: Any) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), LONGEST)
