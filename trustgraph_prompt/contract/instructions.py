"""Instructions for a model: describes in words what its answer must be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trustgraph_prompt.contract.references import References, types_in, values_in
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.json_text.values import type_of
from trustgraph_prompt.json_text.values_in_strings import PATTERNS_IN_WORDS

MAX_TEXT = 6_000
"""Characters that describe a schema."""

_MAX_DESCRIPTION, _MAX_KIND = 300, 1_000
"""Characters of the description of one key, and of the kind of its value."""

_MAX_STEPS = 5_000
"""Subschemas that are visited; references can unfold a small schema to many."""

_TRIES = ((True, 8), (False, 8), (False, 2))
"""With or without descriptions, and how many levels: the first that is short enough is used."""


class Wording(NamedTuple):
    """The templates of the instructions for one value, for a list of values, and for objects one per line.

    `{schema}` is replaced by the JSON Schema, or `{kind}` (`{kinds}` for several values) and `{keys}` by its
    description in words.
    """

    one: str
    many: str
    lines: str

    def of(self, *, format: str, many: bool, schema: Any, closed: bool = False) -> str:
        """The instructions for an answer; `schema` is that of the value, or of each object of several.

        `closed`: objects must not have keys that the schema does not declare.
        """
        wording = self.lines if format == "jsonl" else self.many if many else self.one
        if "{kind" not in wording:
            return wording.replace("{schema}", json.dumps(schema, indent=2, ensure_ascii=False))
        kind, keys = _describe(schema, closed)
        if format == "jsonl" and kind.startswith(_ANYTHING):
            kind = kind.replace(_ANYTHING, "object", 1)
        before, _, after = wording.partition("{keys}")
        several = _several(kind)
        if not kind.startswith(_NOUNS):
            kind = f"{_ANYTHING}: {kind}"
        name, words = ("{kinds}", several) if "{kinds}" in before else ("{kind}", kind)
        if not several.startswith("objects"):
            before = before.replace("one object per line", "one per line")
        lines = "".join(f"{line}\n" for line in ["", *keys, ""] if keys)
        return before.replace(name, words) + lines + after


_NOTHING_ELSE = "Write nothing else: no explanation, no Markdown, no code fence."

PLAIN = Wording(
    one="Answer with one JSON {kind}.\n{keys}" + _NOTHING_ELSE,
    many="Answer with a JSON array of {kinds}.\n{keys}If there are none, write []. " + _NOTHING_ELSE,
    lines="Answer with JSON {kinds}, one object per line.\n{keys}"
    "No array around them, no commas between the lines. If there are none, write []. " + _NOTHING_ELSE,
)
"""Our own wording, also for small models: short, and without an example, which they would repeat."""

_ANYTHING = "value"
_KEYS_BELOW = "object with the keys below"
_ABOVE = "as above"
_NOUNS = ("object", "array", "string", "number", "whole number", _ANYTHING)
_TYPES = {
    **dict.fromkeys(("string", "number", "object", "array", "null"), ""),
    "integer": "whole number",
    "boolean": "true or false",
}
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "in the format {}",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
    "uniqueItems": "no two the same",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
}
_UNDESCRIBED = frozenset(
    (
        *("allOf", "not", "if", "then", "else", "contains", "prefixItems", "additionalItems"),
        *("patternProperties", "propertyNames", "dependentSchemas", "dependentRequired", "dependencies"),
        *("unevaluatedProperties", "unevaluatedItems", "contentSchema", "$dynamicRef", "$recursiveRef"),
    )
)
"""Keywords that are not described in words: a schema with one of them is shown as JSON."""

_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_WITH_ALTERNATIVES = _OF_OBJECTS | {"anyOf", "oneOf", "type", "enum", "const", "items"}
"""Keywords whose meaning changes beside alternatives."""

_CONSTRAINTS = _WITH_ALTERNATIVES | _BOUNDS.keys() | _UNDESCRIBED
"""All keywords that constrain values; their meaning changes beside a reference."""


class _Undescribable(Exception):
    """The schema cannot be described in words."""


class _TooLong(Exception):
    """The description exceeds the limits."""


def _describe(schema: Any, closed: bool) -> tuple[str, Sequence[str]]:
    """The kind of value that a schema describes, and lines about it and its keys."""
    try:
        for described, levels in _TRIES:
            words = _Words(schema, closed, described, levels, is_last=(described, levels) == _TRIES[-1])
            try:
                kind, lines = words.kind(schema)
                lines = [*words.labelled("Description", schema), *lines]
            except _TooLong:
                continue
            return kind, excerpt("\n".join(lines), 2 * MAX_TEXT).splitlines()
    except (_Undescribable, RecursionError):
        pass
    text = json.dumps(schema, indent=2, ensure_ascii=False)
    if len(text) > MAX_TEXT:
        text = excerpt(json.dumps(schema, separators=(",", ":"), ensure_ascii=False), MAX_TEXT)
    others = " that has no other keys than it declares" if closed else ""
    return f"{_ANYTHING} valid against the JSON Schema below{others}", text.splitlines()


class _Words:
    """Describes one schema; with `is_last`, only the first keys if there are too many."""

    def __init__(self, schema: Any, closed: bool, described: bool, levels: int, *, is_last: bool) -> None:
        self._references = References(schema if isinstance(schema, Mapping) else {})
        self._trail = self._references.trail(_reference_alone)
        self._closed = closed
        self._described = described
        self._levels = levels
        self._is_last = is_last
        self._room = MAX_TEXT
        self._steps = _MAX_STEPS

    def kind(self, schema: Any, above: tuple[int, ...] = ()) -> tuple[str, list[str]]:
        """The kind of value, and lines about its parts; `above` are the ids of the enclosing subschemas."""
        self._steps -= 1
        if self._steps < 0:
            raise _TooLong
        schema = self._trail.end(schema)
        if schema is False:
            raise _Undescribable
        if not isinstance(schema, Mapping):
            return _ANYTHING, []
        if id(schema) in above:
            return _ABOVE, []
        if not _UNDESCRIBED.isdisjoint(schema) or isinstance(schema.get("items"), list):
            raise _Undescribable
        above = (*above, id(schema))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                if schema.keys() & _CONSTRAINTS != {keyword}:
                    raise _Undescribable
                return self._one_of(schema[keyword], above)
        if "const" in schema or "enum" in schema:
            return ", ".join([_values_of(schema), *_bounds(schema)]), []
        implied = {"object": _OF_OBJECTS, "array": {"items"}}
        kinds = [name for name, keywords in implied.items() if schema.keys() & keywords]
        return self._of_types(types_in(schema) if "type" in schema else kinds, schema, above)

    def _of_types(
        self, types: Sequence[str], schema: Mapping[str, Any], above: tuple[int, ...]
    ) -> tuple[str, list[str]]:
        kinds: list[str] = []
        lines: list[str] = []
        for name in sorted(types, key=lambda name: name == "null"):
            kind, below = _TYPES[name] or name, list[str]()
            if name == "object" and schema.keys() & _OF_OBJECTS and len(above) <= self._levels:
                kind, below = self._object(schema, above)
            elif name == "array" and "items" in schema and len(above) <= self._levels:
                item, below = self.kind(schema["items"], above)
                kind = f"array of {_several(item)}"
                if item != _ABOVE:
                    below = [*self.labelled("Each", schema["items"]), *below]
            if lines and below:
                raise _Undescribable
            lines = lines or below
            kinds.append(kind)
        return ", ".join([" or ".join(kinds) or _ANYTHING, *_bounds(schema)]), lines

    def _one_of(self, branches: Sequence[Any], above: tuple[int, ...]) -> tuple[str, list[str]]:
        described = [(*self.kind(branch, above), branch) for branch in branches]
        listed = [each for each in described if each[1] or self._described_by(each[2])]
        plain = {kind for kind, lines, branch in described if not (lines or self._described_by(branch))}
        kinds, below = [], []
        if len(listed) == 1:
            [(kind, lines, branch)] = listed
            kinds, below = [kind], [*self.labelled("Description", branch), *lines]
        elif listed:
            are_objects = all(kind.startswith("object") and " or " not in kind for kind, _, _ in listed)
            kinds = [f"{'object' if are_objects else _ANYTHING} of one of the kinds below"]
            for number, (kind, lines, branch) in enumerate(listed, 1):
                below += [f"{number}. {kind}{self._description(branch) or ':'}"]
                below += [f"   {line}" for line in lines]
        kinds += sorted(plain, key=lambda kind: (kind == "null", kind))
        return excerpt(" or ".join(kinds), _MAX_KIND), below

    def _object(self, schema: Mapping[str, Any], above: tuple[int, ...]) -> tuple[str, list[str]]:
        lines = list(self._keys(schema, above))
        if self._closes(schema):
            return f"{_KEYS_BELOW} and no others" if lines else "object without keys", lines
        return _KEYS_BELOW if lines else "object", lines

    def _closes(self, schema: Mapping[str, Any]) -> bool:
        others = schema.get("additionalProperties", True)
        return others is False or (self._closed and "properties" in schema and others in (True, {}))

    def _keys(self, schema: Mapping[str, Any], above: tuple[int, ...]) -> Iterator[str]:
        """A line for each key, followed by the indented lines of the objects in it."""
        required = schema.get("required", ())
        keys = {name: value for name, value in schema.get("properties", {}).items() if value is not False}
        for name in required:
            keys.setdefault(name, True)
        for number, (name, value) in enumerate(keys.items()):
            kind, below = self.kind(value, above)
            optional = "" if name in required else ", optional"
            line = f"- {_short(name)} ({kind}{optional})"
            self._room -= len(line)
            if self._room < 0:
                if not self._is_last:
                    raise _TooLong
                yield f"- … and {len(keys) - number:,} more keys"
                return
            yield line + self._description(value)
            yield from (f"  {each}" for each in below)
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping) and not self._closes(schema):
            kind, below = self.kind(others, above)
            yield f"- any {'other ' if keys else ''}key ({kind}){self._description(others)}"
            yield from (f"  {each}" for each in below)

    def labelled(self, label: str, schema: Any) -> list[str]:
        """A line with the author's description of a value that has no line of its own, if there is one."""
        description = self._description(schema)
        return [f"{label}{description}"] if description else []

    def _description(self, schema: Any) -> str:
        text = self._described_by(schema)
        if not text:
            return ""
        text = f": {excerpt(text, _MAX_DESCRIPTION)}"
        self._room -= len(text)
        if self._room < 0:
            raise _TooLong
        return text

    def _described_by(self, schema: Any) -> str:
        if not self._described or not isinstance(schema, Mapping):
            return ""
        text = schema.get("description") or (self._references.followed(schema) or {}).get("description")
        return " ".join(str(text or "").split())


def _reference_alone(schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema and not _CONSTRAINTS.isdisjoint(schema):
        raise _Undescribable
    return schema.get("$ref")


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, words in _BOUNDS.items():
        bound = schema.get(keyword, False)
        if bound is True and keyword != "uniqueItems":  # draft 4: exclusiveMinimum
            raise _Undescribable
        if bound is not False:
            in_words = PATTERNS_IN_WORDS.get(bound) if keyword == "pattern" else None
            yield in_words or words.format(_short(bound))


def _values_of(schema: Mapping[str, Any]) -> str:
    others = schema.keys() & _WITH_ALTERNATIVES - {"type"}
    values, types = values_in(schema) or [], set(types_in(schema))
    if "number" in types:
        types.add("integer")
    if len(others) > 1 or (types and not types.issuperset(map(type_of, values))):
        raise _Undescribable
    text = excerpt(" or ".join(map(_short, values[:_MAX_KIND])), _MAX_KIND)
    return f"always {text}" if len(values) == 1 else text


def _short(value: Any) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _MAX_DESCRIPTION)


def _several(kind: str) -> str:
    """The plural of a kind."""
    noun = next((noun for noun in _NOUNS if kind.startswith(noun)), None)
    if noun is None or " or " in kind:
        return f"values, each {kind}"
    return f"{noun}s{kind.removeprefix(noun)}"
