"""JSON Schemas as authors write them: refused with a message they understand, or compiled."""

from __future__ import annotations

import difflib
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from trustgraph_prompt.contract.explain import issue_of
from trustgraph_prompt.contract.references import BY_NAME, ONE_OR_MORE, Path, References
from trustgraph_prompt.contract.validator import Validator
from trustgraph_prompt.errors import ContractError, excerpt
from trustgraph_prompt.json_text.pointer import pointer

MAX_DEPTH = 100
MAX_NODES = 10_000
MAX_MESSAGE = 200

_KEPT = 256  # compiled schemas: prompts are loaded again and again, and most of them have not changed
_KEPT_SIZE = 16_384  # bytes; large ones take megabytes once they are compiled

_UNAVAILABLE = {
    "look-around": re.compile(r"(?<!\\)\(\?<?[=!]"),
    "a back-reference": re.compile(r"(?<!\\)\\(?:[1-9]|k<)"),
}
"""What a pattern that takes linear time cannot have."""

_SCALARS = frozenset((str, bool, int, type(None)))

Schema = dict[str, Any] | bool


def plain_schema(schema: object) -> Schema:
    """A copy made of nothing but JSON.

    Raises `ContractError` where the schema holds what JSON does not know, is nested deeper than `MAX_DEPTH`
    or has more than `MAX_NODES` values.
    """
    if not isinstance(schema, Mapping | bool):
        raise ContractError("the schema is none", found=schema, expected="an object, true or false")
    copy: Schema = _Copy().of(schema, ())
    return copy


def plain_versions(schemas: Mapping[str, object]) -> dict[str, Schema]:
    """Copies of several schemas, which are together no larger than one may be. Raises `ContractError`."""
    copy = _Copy()
    for version, schema in schemas.items():
        if not isinstance(schema, Mapping | bool):
            path = pointer(("versions", version))
            raise ContractError(
                "the schema is none", path=path, found=schema, expected="an object, true or false"
            )
    return {version: copy.of(schema, ("versions", version)) for version, schema in schemas.items()}


def compile_schema(schema: Schema, depth: int) -> Validator:
    """The validator of a schema, for values nested at most `depth` deep; the same for the same schema.

    Raises `ContractError` with the path and the reason.
    """
    try:
        text = orjson.dumps(schema)
    except TypeError:  # integers of more than 64 bits
        return _compile(schema, depth)
    return _compile(schema, depth) if len(text) > _KEPT_SIZE else _compile_text(text, depth)


@lru_cache(_KEPT)
def _compile_text(text: bytes, depth: int) -> Validator:
    return _compile(orjson.loads(text), depth)


def _compile(schema: Schema, depth: int) -> Validator:
    try:
        validator = Validator(schema, depth)
    except jsonschema_rs.ValidationError as error:
        if error.kind.name == "$ref" and isinstance(schema, dict):
            _check_draft(error, schema)
            deque(References(schema).subschemas(), maxlen=0)  # finds the place
        raise _not_usable(error) from None
    except ValueError as error:
        raise ContractError(excerpt(str(error), MAX_MESSAGE)) from None
    check_spelling(validator.references)
    return validator


def _check_draft(error: jsonschema_rs.ValidationError, schema: dict[str, Any]) -> None:
    if error.message.startswith("Unknown meta-schema"):
        raise ContractError(
            "unknown draft",
            path="/$schema",
            found=schema.get("$schema"),
            expected="draft 4, 6, 7, 2019-09 or 2020-12",
        ) from None


def _not_usable(error: jsonschema_rs.ValidationError) -> ContractError:
    """A schema is a value of its metaschema; that leaves its patterns."""
    path = pointer(error.instance_path)
    if error.kind.name == "$ref":
        return ContractError(
            excerpt(error.message, MAX_MESSAGE), path=path, found=error.instance, expected="no other document"
        )
    if error.kind.name == "format":
        pattern = str(error.instance)
        unavailable = next((name for name, form in _UNAVAILABLE.items() if form.search(pattern)), None)
        message = f"{unavailable} is not available" if unavailable else excerpt(error.message, MAX_MESSAGE)
        expected = "a pattern that runs in linear time"
        return ContractError(message, path=path, found=error.instance, expected=expected)
    if error.instance_path[-1:] == ["type"] and error.kind.name in ("anyOf", "enum"):
        check_types(error.instance, path)
    return ContractError(issue_of(error).message, path=path)


class _Copy:
    def __init__(self) -> None:
        self._values = 0

    def of(self, value: Any, path: Path) -> Any:
        if len(path) > MAX_DEPTH:
            raise ContractError(
                "the schema is nested too deep",
                path=pointer(path[:4]),
                found="more",
                expected=f"at most {MAX_DEPTH} levels",
            )
        if isinstance(value, Mapping):
            return {self._key(key, path): self._part(item, path, key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._part(item, path, index) for index, item in enumerate(value)]
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and value - value == 0:
            return value
        raise ContractError("this is no JSON", path=pointer(path), found=value, expected="a JSON value")

    def _part(self, value: Any, path: Path, step: str | int) -> Any:
        self._values += 1
        if self._values > MAX_NODES:
            raise ContractError("the schema is too large", expected=f"at most {MAX_NODES} values in it")
        return value if type(value) in _SCALARS else self.of(value, (*path, step))

    def _key(self, key: object, path: Path) -> str:
        if not isinstance(key, str):
            raise ContractError("a key is no string", path=pointer(path), found=key, expected="a string")
        return key


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
