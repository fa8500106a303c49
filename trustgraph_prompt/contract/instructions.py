"""How a model is told what its answer must be: one text for every way in which a contract can be written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trustgraph_prompt.contract.references import References
from trustgraph_prompt.errors import excerpt

MAX_SAID = 6_000
"""Characters that are said of a schema."""

_MAX_DESCRIPTION, _MAX_KIND = 300, 1_000
"""Characters of the description of one key, and of what kind of value it has."""

_MAX_STEPS = 5_000
"""Subschemas that are looked at: references can make many of few."""

_TRIES = ((True, 8), (False, 8), (False, 2))
"""With descriptions or without, and how many levels: the first that is short enough is said."""


class Wording(NamedTuple):
    """What is said of one value, of a list of values, and of objects one a line.

    `{schema}` stands for the JSON Schema; `{kind}`, or `{kinds}` of several, and `{keys}` say it in words.
    """

    one: str
    many: str
    lines: str

    def of(self, *, format: str, many: bool, schema: Any) -> str:
        """The instructions for an answer of this kind, with its schema, or that of each object in it."""
        wording = self.lines if format == "jsonl" else self.many if many else self.one
        if "{kind" not in wording:
            return wording.replace("{schema}", json.dumps(schema, indent=2, ensure_ascii=False))
        kind, keys = _in_words(schema)
        if format == "jsonl" and kind.startswith(_ANYTHING):
            kind = kind.replace(_ANYTHING, "object", 1)
        before, _, after = wording.partition("{keys}")
        one = kind if kind.startswith(_NOUNS) else f"{_ANYTHING}: {kind}"
        name, said = ("{kinds}", _several(kind)) if "{kinds}" in before else ("{kind}", one)
        lines = "".join(f"{line}\n" for line in ["", *keys, ""] if keys)
        return before.replace(name, said) + lines + after


_NOTHING_ELSE = "Write nothing else: no explanation, no Markdown, no code fence."

PLAIN = Wording(
    one="Answer with one JSON {kind}.\n{keys}" + _NOTHING_ELSE,
    many="Answer with a JSON array of {kinds}.\n{keys}An empty array where there is none. " + _NOTHING_ELSE,
    lines="Answer with JSON {kinds}, one object per line.\n{keys}"
    "No array around them, no commas between the lines; [] where there is none. " + _NOTHING_ELSE,
)
"""Our own words, for small models too: short, and without an example that could be taken for an answer."""

_ANYTHING = "value"
_KEYS_BELOW = "object with the keys below"
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
}
_UNSAID = frozenset(
    (
        *("allOf", "not", "if", "then", "else", "contains", "prefixItems", "additionalItems"),
        *("patternProperties", "propertyNames", "dependentSchemas", "dependentRequired", "dependencies"),
        *("unevaluatedProperties", "unevaluatedItems", "contentSchema", "$dynamicRef", "$recursiveRef"),
    )
)
"""Keywords that are easier to read than to say: a schema that has one is shown as it is."""

_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_SAID_ALONE = _OF_OBJECTS | {"anyOf", "oneOf", "type", "enum", "const", "items"}
"""Keywords that say something else beside a reference, or alternatives."""


class _Unsaid(Exception):
    """The schema cannot be said in words."""


class _TooLong(Exception):
    """It takes more words than there is room for."""


def _in_words(schema: Any) -> tuple[str, Sequence[str]]:
    """What kind of value a schema describes, and lines about its keys."""
    try:
        for described, levels in _TRIES:
            words = _Words(schema, described, levels, is_last=(described, levels) == _TRIES[-1])
            try:
                kind, lines = words.kind(schema)
            except _TooLong:
                continue
            return kind, excerpt("\n".join(lines), 2 * MAX_SAID).splitlines()
    except (_Unsaid, RecursionError):
        pass
    text = json.dumps(schema, indent=2, ensure_ascii=False)
    if len(text) > MAX_SAID:
        text = excerpt(json.dumps(schema, separators=(",", ":"), ensure_ascii=False), MAX_SAID)
    return f"{_ANYTHING} valid against the JSON Schema below", text.splitlines()


class _Words:
    """Says one schema; where `is_last`, and there are too many keys, the first of them."""

    def __init__(self, schema: Any, described: bool, levels: int, *, is_last: bool) -> None:
        self._references = References(schema if isinstance(schema, Mapping) else {})
        self._described = described
        self._levels = levels
        self._is_last = is_last
        self._room = MAX_SAID
        self._steps = _MAX_STEPS

    def kind(self, schema: Any, above: tuple[int, ...] = ()) -> tuple[str, list[str]]:
        """What kind of value it is, and lines about its keys; `above` is all that it stands in."""
        self._steps -= 1
        if self._steps < 0:
            raise _TooLong
        if isinstance(schema, Mapping) and "$ref" in schema and not _SAID_ALONE.isdisjoint(schema):
            raise _Unsaid
        schema = self._references.followed(schema)
        if schema is None:
            return _ANYTHING, []
        if id(schema) in above:
            return "object as above", []
        if not _UNSAID.isdisjoint(schema) or isinstance(schema.get("items"), list):
            raise _Unsaid
        above = (*above, id(schema))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                if schema.keys() & _SAID_ALONE != {keyword}:
                    raise _Unsaid
                return self._one_of(schema[keyword], above)
        if "const" in schema or "enum" in schema:
            return _values([schema["const"]] if "const" in schema else schema["enum"]), []
        types = schema.get("type", "object" if schema.keys() & _OF_OBJECTS else [])
        return self._of_types([types] if isinstance(types, str) else types, schema, above)

    def _of_types(
        self, types: Sequence[str], schema: Mapping[str, Any], above: tuple[int, ...]
    ) -> tuple[str, list[str]]:
        kinds, lines = [], []
        for name in sorted(types, key=lambda name: name == "null"):
            kind = _TYPES[name] or name
            if name == "object" and schema.keys() & _OF_OBJECTS and len(above) <= self._levels:
                lines = list(self._keys(schema, above))
                kind = _KEYS_BELOW if lines else kind
                kind += " and no others" if lines and schema.get("additionalProperties") is False else ""
            elif name == "array" and "items" in schema and len(above) <= self._levels:
                item, lines = self.kind(schema["items"], above)
                kind = f"array of {_several(item)}"
            kinds.append(kind)
        bounds = [
            said.format(_short(schema[keyword])) for keyword, said in _BOUNDS.items() if keyword in schema
        ]
        return ", ".join([" or ".join(kinds) or _ANYTHING, *bounds]), lines

    def _one_of(self, branches: Sequence[Any], above: tuple[int, ...]) -> tuple[str, list[str]]:
        said = [self.kind(branch, above) for branch in branches]
        objects = [(*each, branch) for each, branch in zip(said, branches, strict=True) if each[1]]
        kinds, below = [kind for kind, _, _ in objects], [line for _, lines, _ in objects for line in lines]
        if len(objects) > 1:
            kinds, below = ["object of one of the kinds below"], []
            for number, (kind, lines, branch) in enumerate(objects, 1):
                described = self._description(branch) or ":"
                below += [f"{number}. {kind}{described}", *(f"   {line}" for line in lines)]
        kinds += sorted({kind for kind, lines in said if not lines}, key=lambda kind: (kind == "null", kind))
        return excerpt(" or ".join(kinds), _MAX_KIND), below

    def _keys(self, schema: Mapping[str, Any], above: tuple[int, ...]) -> Iterator[str]:
        """A line for each key, and under it, further right, those of the objects that it holds."""
        required = schema.get("required", ())
        keys = {name: value for name, value in schema.get("properties", {}).items() if value is not False}
        for name in required:
            keys.setdefault(name, True)
        for number, (name, value) in enumerate(keys.items()):
            kind, below = self.kind(value, above)
            optional = "" if name in required else ", optional"
            line = f"- {_short(name)} ({kind}{optional}){self._description(value)}"
            self._room -= len(line)
            if self._room < 0:
                if not self._is_last:
                    raise _TooLong
                yield f"- … and {len(keys) - number:,} more keys"
                return
            yield line
            yield from (f"  {each}" for each in below)
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            kind, below = self.kind(others, above)
            yield f"- any {'other ' if keys else ''}key ({kind})"
            yield from (f"  {each}" for each in below)

    def _description(self, schema: Any) -> str:
        if not self._described or not isinstance(schema, Mapping):
            return ""
        said = schema.get("description") or (self._references.followed(schema) or {}).get("description")
        return f": {excerpt(' '.join(str(said).split()), _MAX_DESCRIPTION)}" if said else ""


def _values(values: Sequence[Any]) -> str:
    said = excerpt(" or ".join(map(_short, values[:_MAX_KIND])), _MAX_KIND)
    return f"always {said}" if len(values) == 1 else said


def _short(value: Any) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _MAX_DESCRIPTION)


def _several(kind: str) -> str:
    """The same kind, of several values."""
    noun = next((noun for noun in _NOUNS if kind.startswith(noun)), None)
    if noun is None or " or " in kind:
        return f"values, each {kind}"
    return f"{noun}s{kind.removeprefix(noun)}"
