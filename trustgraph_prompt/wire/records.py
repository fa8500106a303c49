"""The base of records, and the decoding of their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.json_text.encoding import encode

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The longest record that is accepted. Pulsar's default limit is 5 MB."""

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Record:
    """The base of the records that we send."""

    __slots__ = ()

    def encode(self) -> bytes:
        """Encode the record as JSON, with every field."""
        return encode(self)


def decode(data: bytes, record: str) -> dict[str, Any]:
    """Decode the JSON object in a message of type `record`. Raises `RequestError` for anything else."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise RequestError(f"{record}: found {len(data):,} bytes, expected at most {MAX_MESSAGE_BYTES:,}")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if (value := _with_lone_surrogates(data)) is None:
            raise RequestError(f"{record} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(f"{record}: found {json_type(value)}, expected an object")
    return value


def _with_lone_surrogates(data: bytes) -> Any:
    """Decode what `encode` writes of lone surrogates, which orjson refuses; None of anything else."""
    try:
        return json.loads(data.decode(), parse_constant=int) if _ESCAPED_SURROGATE.search(data) else None
    except (ValueError, RecursionError):
        return None


def take(record: Mapping[str, Any], where: str, /, **types: type) -> dict[str, Any]:
    """Return the fields of a record that `types` names, without those that are missing or null.

    So each of these gets the default of the dataclass. A whole number may stand for a float. Raises
    `RequestError` for the first field of another type.
    """
    fields = {}
    for key, expected in types.items():
        value = record.get(key)
        if expected is float and type(value) is int:
            value = float(value)
        if type(value) is expected:
            fields[key] = value
        elif value is not None:
            raise RequestError(f"{where}/{key}: found {json_type(value)}, expected {_EXPECTED[expected]}")
    return fields


_EXPECTED: Mapping[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "an array",
}
_FOUND: Mapping[type, str] = {**_EXPECTED, int: "a number", type(None): "null"}


def json_type(value: object) -> str:
    """Name the JSON type of a value, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _FOUND[type(value)]


@dataclass(frozen=True, slots=True)
class Error:
    """An error: `type` for programs, `message` for people."""

    type: str
    message: str

    @classmethod
    def of(cls, response: Mapping[str, Any], record: str) -> Self | None:
        """Take the error out of a response of type `record`, None if it has none. Raises `RequestError`."""
        error = take(response, record, error=dict).get("error")
        if error is None:
            return None
        return cls(**{"type": "", "message": "", **take(error, f"{record}/error", type=str, message=str)})
