"""JSON as it is on topics: encoding, decoding, and fields taken out of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson

from trustgraph_prompt.errors import RequestError

T = TypeVar("T")

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""What is larger is no request. Pulsar itself takes 5 MB unless it was told otherwise."""


def decode(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in a message. Raises `RequestError` where there is none; `what` names the record."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise RequestError(f"{what}: {len(data):,} bytes, expected at most {MAX_MESSAGE_BYTES:,}")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(f"{what}: found {kind(value)}, expected an object")
    return value


def take(record: Mapping[str, Any], key: str, expected: type[T], default: T, what: str) -> T:
    """A field of a record; its default where it is missing or null. Raises `RequestError`."""
    value = take_if_any(record, key, expected, what)
    return default if value is None else value


def take_if_any(record: Mapping[str, Any], key: str, expected: type[T], what: str) -> T | None:
    """A field of a record; None where it is missing or null. Raises `RequestError`."""
    value = record.get(key)
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    wrong = not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool)
    if value is not None and wrong:
        raise RequestError(f"{what}/{key}: found {kind(value)}, expected {_EXPECTED[expected]}")
    return value


_EXPECTED: Mapping[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "an array",
}


def kind(value: object) -> str:
    """What a value is, in the terms of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
