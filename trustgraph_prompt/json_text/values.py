"""JSON values: their types, when two of them are equal, and the values in a value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}
"""The JSON Schema types of values."""


def type_of(value: object) -> str:
    """The JSON Schema type of a value."""
    return JSON_TYPES.get(type(value), "null")


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def is_one_of(value: Any, values: Collection[Any]) -> bool:
    """Whether a value equals one of the values in JSON."""
    return value in values and (isinstance(value, str) or any(is_same(value, one) for one in values))


def within(value: object) -> Iterable[Any]:
    """The members or elements of a value."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def levels(value: object) -> Iterator[list[Any]]:
    """The value itself, then all values in it, level by level: no depth is too deep for it."""
    level = [value]
    while level:
        yield level
        level = list(chain.from_iterable(map(within, level)))


def strings(value: object) -> Iterator[str]:
    """The strings in a value, itself included, whose parts may also be tuples and mappings of any kind."""
    open_: list[Any] = [value]
    while open_:
        part = open_.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            open_ += part.values()
        elif isinstance(part, list | tuple):
            open_ += part
