"""Copies, checks and compiles the JSON Schemas of authors, with readable errors for invalid ones."""

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
from trustgraph_prompt.json_text.values import JSON_TYPES

MAX_DEPTH = 100
MAX_NODES = 10_000
MAX_MESSAGE = 200

_KEPT = 256  # compiled schemas in the cache, as most prompts are unchanged when they are reloaded
_KEPT_SIZE = 16_384  # bytes; a large schema takes megabytes when compiled

_UNAVAILABLE = {
    "look-around": re.compile(r"(?<!\\)\(\?<?[=!]"),
    "a back-reference": re.compile(r"(?<!\\)\\(?:[1-9]|k<)"),
}
"""What patterns that are matched in linear time cannot contain."""

_SCALARS = frozenset((str, bool, int, type(None)))

Schema = dict[str, Any] | bool


def plain_schema(schema: object) -> Schema:
    """Copy a schema to plain JSON types.

    Raises `ContractError` if it is not JSON, is nested deeper than `MAX_DEPTH`, or has more than `MAX_NODES`
    values.
    """
    _check_is_schema(schema, "")
    copy: Schema = _Copy().of(schema, ())
    return copy


def plain_versions(schemas: Mapping[str, object]) -> dict[str, Schema]:
    """Copy several schemas, which together must not exceed the size of one. Raises `ContractError`."""
    copy = _Copy()
    for version, schema in schemas.items():
        _check_is_schema(schema, pointer(("versions", version)))
    return {version: copy.of(schema, ("versions", version)) for version, schema in schemas.items()}


def _check_is_schema(schema: object, path: str) -> None:
    if not isinstance(schema, Mapping | bool):
        raise ContractError("not a JSON Schema", path=path, found=schema, expected="an object, true or false")


def compile_schema(schema: Schema, depth: int) -> Validator:
    """Return the validator of a schema, for values of at most `depth` levels; small schemas are cached.

    Raises `ContractError` with path and reason.
    """
    try:
        text = orjson.dumps(schema)
    except TypeError:  # an integer of more than 64 bits
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
            if error.message.startswith("Unknown meta-schema"):
                draft = schema.get("$schema")
                expected = "draft 4, 6, 7, 2019-09 or 2020-12"
                raise ContractError(
                    "unknown draft", path="/$schema", found=draft, expected=expected
                ) from None
            deque(References(schema).subschemas(), maxlen=0)  # raises with the path of the reference
        raise _contract_error(error) from None
    except ValueError as error:
        raise ContractError(excerpt(str(error), MAX_MESSAGE)) from None
    check_spelling(validator.references)
    return validator


def _contract_error(error: jsonschema_rs.ValidationError) -> ContractError:
    """Map an error of the library: of a reference, of a pattern, or of validation by the metaschema."""
    path = pointer(error.instance_path)
    if error.kind.name == "$ref":
        return ContractError(
            excerpt(error.message, MAX_MESSAGE),
            path=path,
            found=error.instance,
            expected="a reference within the schema",
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
            for key in value:
                if not isinstance(key, str):
                    raise ContractError(
                        "a key is not a string", path=pointer(path), found=key, expected="a string"
                    )
            return {key: self._part(item, path, key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._part(item, path, index) for index, item in enumerate(value)]
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and value - value == 0:
            return value
        raise ContractError("not a JSON value", path=pointer(path), found=value, expected="a JSON value")

    def _part(self, value: Any, path: Path, step: str | int) -> Any:
        self._values += 1
        if self._values > MAX_NODES:
            expected = f"at most {MAX_NODES:,} values in it"
            raise ContractError("the schema is too large", found="more", expected=expected)
        return value if type(value) in _SCALARS else self.of(value, (*path, step))


_LOOKED_UP = 100  # unknown words; each takes a tenth of a millisecond

_TYPES = sorted(JSON_TYPES.values())

_FORMATS = frozenset(
    (
        *("date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6"),
        *("iri", "iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri"),
        *("uri-reference", "uri-template", "uuid"),
    )
)
_OF_SOURCES = ("x-from", "x-grounding", "x-quote", "x-supported")  # our own keywords
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
_OPENAPI_KEYWORDS = frozenset(("id", "example", "discriminator", "nullable", "xml", "externalDocs"))
_OTHER_NAMES_OF_TYPES = {
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
    """Raise `ContractError` for a misspelt keyword or format, which JSON Schema would ignore."""
    for what, path, found, known in islice(_unknown(references), _LOOKED_UP):
        if meant := similar(found, known):
            raise ContractError(
                f"unknown {what}, did you mean {meant!r}?",
                path=pointer(path),
                found=found,
                expected=f"a {what} of JSON Schema",
            )


def check_types(types: object, path: str) -> None:
    """Raise `ContractError` for an unknown type in the value of `type`; `path` is that of the keyword."""
    named = enumerate(types) if isinstance(types, list) else [("", types)]
    for index, name in named:
        if isinstance(name, str) and name not in _TYPES:
            meant = _OTHER_NAMES_OF_TYPES.get(name.lower()) or similar(name, _TYPES)
            raise ContractError(
                "unknown type" + (f", did you mean {meant!r}?" if meant else ""),
                path=path if index == "" else f"{path}/{index}",
                found=name,
                expected=f"one of {', '.join(_TYPES)}",
            )


def of_sources(metadata: Mapping[Any, Any]) -> dict[str, Any]:
    """The metadata of a field named as one of our keywords, or a misspelling, which the schema rejects."""
    return {
        name: value
        for name, value in metadata.items()
        if isinstance(name, str) and value is not None and similar(name, _OF_SOURCES)
    }


def _unknown(references: References) -> Iterator[tuple[str, Path, str, Iterable[str]]]:
    for path, schema in references.subschemas():
        for word in schema.keys() - _KEYWORDS - _OPENAPI_KEYWORDS:
            yield "keyword", (*path, word), word, _KEYWORDS
        name = schema.get("format")
        if isinstance(name, str) and name not in _FORMATS:
            yield "format", (*path, "format"), name, _FORMATS


def similar(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one may be a misspelling of, whatever the case and the hyphens."""
    by_letters = {_letters(name): name for name in known}
    similar = difflib.get_close_matches(_letters(word), by_letters, n=1, cutoff=0.8)
    return by_letters[similar[0]] if similar else None


def _letters(word: str) -> str:
    return word[:40].lower().replace("_", "").replace("-", "").replace("$", "")
