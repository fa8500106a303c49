"""Checks whether a JSON Schema is within the subset of OpenAI's strict structured outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Keywords of the whole schema only.
_AT_THE_ROOT = frozenset(("$schema", "$defs", "definitions"))
_ANYWHERE = frozenset(("type", "enum", "const", "anyOf", "title", "description"))
_OF_A_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "minItems", "maxItems")),
    "string": frozenset(("pattern", "format")),
    "number": frozenset(("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "integer": frozenset(("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "boolean": frozenset(),
    "null": frozenset(),
}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")

#: OpenAI's limits of a schema as a whole.
_MOST_PROPERTIES = 5_000
_MOST_LEVELS = 10  # of objects and arrays
_MOST_VALUES = 1_000  # of all enums together

_MOST_SUBSCHEMAS = 20_000

Schema = Mapping[str, Any]


def is_strict(schema: Schema) -> bool:
    """Whether each keyword is known to be accepted, every object closed, and every property required.

    True is a guess about the server, which has the last word; False only costs the server's guarantee. Takes
    bounded time for any schema, and raises nothing.
    """
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    definitions = [schema.get(key, {}) for key in ("$defs", "definitions")]
    if not all(isinstance(named, Mapping) for named in definitions):
        return False
    root = {key: value for key, value in schema.items() if key not in _AT_THE_ROOT}
    todo: list[tuple[Any, int]] = [(root, 1)]
    todo += [(part, 1) for named in definitions for part in named.values()]
    properties = values = seen = 0
    while todo:
        part, level = todo.pop()
        seen += 1
        if level > _MOST_LEVELS or seen > _MOST_SUBSCHEMAS or not _is_known(part, schema):
            return False
        properties += len(part.get("properties", ()))
        values += len(part.get("enum", ()))
        if properties > _MOST_PROPERTIES or values > _MOST_VALUES:
            return False
        todo += _parts(part, level)
    return True


def _is_known(part: Any, root: Schema) -> bool:
    """Whether a subschema, apart from its parts, is known to be accepted."""
    if not isinstance(part, Mapping):
        return False
    if "$ref" in part:
        return len(part) == 1 and _resolves(part["$ref"], root)
    types = part.get("type", [])
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list) or not all(isinstance(name, str) and name in _OF_A_TYPE for name in types):
        return False
    if not types and not part.keys() & {"enum", "const", "anyOf"}:
        return False
    if not part.keys() <= _ANYWHERE.union(*(_OF_A_TYPE[name] for name in types)):
        return False
    return (
        _is_list(part.get("enum", [None]))
        and _is_list(part.get("anyOf", [None]))
        and part.get("format", "date") in _FORMATS
        and ("object" not in types or _is_closed(part))
        and ("array" not in types or "items" in part)
    )


def _is_closed(part: Schema) -> bool:
    """Whether an object must have all the properties that are named, and no others."""
    properties, required = part.get("properties", {}), part.get("required", [])
    return (
        isinstance(properties, Mapping)
        and isinstance(required, list)
        and part.get("additionalProperties") is False
        and all(isinstance(name, str) for name in required)
        and set(required) == properties.keys()
    )


def _parts(part: Schema, level: int) -> Iterator[tuple[Any, int]]:
    yield from ((branch, level) for branch in part.get("anyOf", ()))
    yield from ((inner, level + 1) for inner in part.get("properties", {}).values())
    if "items" in part:
        yield part["items"], level + 1


def _resolves(reference: Any, root: Schema) -> bool:
    if not isinstance(reference, str):
        return False
    start, _, name = reference.rpartition("/")
    key = {"#/$defs": "$defs", "#/definitions": "definitions"}.get(start)
    return reference == "#" or (key is not None and name in root.get(key, {}))


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)
