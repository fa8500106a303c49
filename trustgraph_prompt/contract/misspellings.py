"""Misspelt words of a schema: JSON Schema ignores what it does not know, authors do not mean that."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from trustgraph_prompt.contract.references import BY_NAME, ONE_OR_MORE, Path, References
from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.pointer import pointer

_LOOKED_UP = 100  # words; each takes a tenth of a millisecond

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_FORMATS = frozenset(
    (
        *("date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6"),
        *("iri", "iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri"),
        *("uri-reference", "uri-template", "uuid"),
    )
)
_OF_SOURCES = ("x-from", "x-grounding")  # ours
_KEYWORDS = frozenset(
    (
        *BY_NAME,
        *ONE_OR_MORE,
        *("type", "enum", "const", "required", "dependentRequired", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "contentEncoding", "contentMediaType"),
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$schema", "$id", "$ref", "$anchor", "$comment", "$vocabulary"),
        *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
        *_OF_SOURCES,
    )
)
_KEYWORDS_OF_OTHERS = frozenset(("id", "example", "discriminator", "nullable", "xml", "externalDocs"))
_TYPES_OF_OTHERS = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
    "none": "null",
}


def check_spelling(references: References) -> None:
    """Raise `ContractError` for a keyword or a format that is nearly one, and so does nothing."""
    for what, path, found, known in islice(_unknown(references), _LOOKED_UP):
        if meant := _near(found, known):
            raise ContractError(
                f"unknown {what}, did you mean {meant!r}?",
                path=pointer(path),
                found=found,
                expected=f"a {what} of JSON Schema",
            )


def check_types(types: object, path: str) -> None:
    """Raise `ContractError` for a value of the keyword `type` which names none; `path` is the keyword's."""
    named = enumerate(types) if isinstance(types, list) else [("", types)]
    for index, name in named:
        if isinstance(name, str) and name not in _TYPES:
            meant = _TYPES_OF_OTHERS.get(name.lower()) or _near(name, _TYPES)
            raise ContractError(
                "unknown type" + (f", did you mean {meant!r}?" if meant else ""),
                path=path if index == "" else f"{path}/{index}",
                found=name,
                expected=f"one of {', '.join(_TYPES)}",
            )


def of_sources(notes: Mapping[Any, Any]) -> dict[str, Any]:
    """Which of a field's notes are, or nearly are, `x-from` and `x-grounding`: those a schema refuses."""
    said = {name: note for name, note in notes.items() if isinstance(name, str) and note is not None}
    return {name: note for name, note in said.items() if _near(name, _OF_SOURCES)}


def _unknown(references: References) -> Iterator[tuple[str, Path, str, Iterable[str]]]:
    for path, schema in references.subschemas():
        for word in schema.keys() - _KEYWORDS - _KEYWORDS_OF_OTHERS:
            yield "keyword", (*path, word), word, _KEYWORDS
        form = schema.get("format")
        if isinstance(form, str) and form not in _FORMATS:
            yield "format", (*path, "format"), form, _FORMATS


def _near(word: str, known: Iterable[str]) -> str | None:
    by_letters = {_letters(name): name for name in known}
    near = difflib.get_close_matches(_letters(word), by_letters, n=1, cutoff=0.8)
    return by_letters[near[0]] if near else None


def _letters(word: str) -> str:
    return word[:40].lower().replace("_", "").replace("-", "").replace("$", "")
