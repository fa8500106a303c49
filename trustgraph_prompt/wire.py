"""TrustGraph's records as they are on topics: UTF-8 JSON of flat records, every field written.

Unknown keys are ignored and missing ones take their defaults, so that fields can be added on either side
(TrustGraph 2.4 to 2.11). What we add to a `PromptResponse` stands after its own fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, TypeVar

import orjson

from trustgraph_prompt.errors import RequestError

T = TypeVar("T")

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""What is larger is no request. Pulsar itself takes 5 MB unless it was told otherwise."""


def encode(value: object) -> bytes:
    """JSON text of a value, compact; integers and strings that orjson refuses go by the standard library."""
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def canonical(value: object) -> bytes:
    """JSON text that is the same for equal values: keys sorted, compact."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def decode(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in a message. Raises `RequestError` where there is none; `what` names the record."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise RequestError(f"{what}: {len(data):,} bytes, expected at most {MAX_MESSAGE_BYTES:,}")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(f"{what}: found {_kind(value)}, expected an object")
    return value


def _take(record: Mapping[str, Any], key: str, kind: type[T], default: T, what: str) -> T:
    """A field of a record; its default where it is missing or null."""
    value = record.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise RequestError(f"{what}/{key}: found {_kind(value)}, expected {_EXPECTED[kind]}")
    return value


_EXPECTED: Mapping[type, str] = {str: "a string", bool: "true or false", dict: "an object"}


def _kind(value: object) -> str:
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


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """Asks for a prompt by `id`; each of `terms` is itself JSON text."""

    id: str
    terms: Mapping[str, str] = field(default_factory=dict)
    streaming: bool = False

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises `RequestError` naming the field that is wrong."""
        record = decode(data, "PromptRequest")
        return cls(
            id=_take(record, "id", str, "", "PromptRequest"),
            terms=_take(record, "terms", dict, {}, "PromptRequest"),
            streaming=_take(record, "streaming", bool, False, "PromptRequest"),
        )

    @classmethod
    def asking(cls, prompt: str, terms: Mapping[str, object], *, streaming: bool = False) -> Self:
        """A request for `prompt` with plain terms."""
        return cls(prompt, {name: encode(value).decode() for name, value in terms.items()}, streaming)

    def values(self) -> dict[str, Any]:
        """The terms decoded. Raises `RequestError` naming the term that is no JSON text."""
        return {name: _term(name, text) for name, text in self.terms.items()}

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(asdict(self))


def _term(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise RequestError(f"PromptRequest/terms/{name}: found {_kind(text)}, expected a string of JSON")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"PromptRequest/terms/{name} is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where a chunk comes from."""

    id: str = ""
    root: str = ""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document, as the chunker publishes it."""

    metadata: Metadata
    chunk: str
    document_id: str = ""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises `RequestError` naming the field that is wrong."""
        record = decode(data, "Chunk")
        metadata: dict[str, Any] = _take(record, "metadata", dict, {}, "Chunk")
        return cls(
            metadata=Metadata(
                **{
                    key: _take(metadata, key, str, "", "Chunk/metadata")
                    for key in ("id", "root", "collection")
                }
            ),
            chunk=_take(record, "chunk", str, "", "Chunk"),
            document_id=_take(record, "document_id", str, "", "Chunk"),
        )

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(asdict(self))


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong, in `PromptResponse.error`."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class PromptResponse:
    """Answers a `PromptRequest`: `text`, or `object` as JSON text, or an error.

    From `finish_reason` on the fields are ours: why the model stopped, whether the answer is cut (None where
    nobody can tell), what it took to read it (`Stage`), how many objects were refused.
    """

    error: Error | None = None
    text: str | None = None
    object: str | None = None
    end_of_stream: bool = True
    in_token: int | None = None
    out_token: int | None = None
    model: str | None = None
    finish_reason: str | None = None
    truncated: bool | None = None
    stage: str | None = None
    rejected: int | None = None

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(asdict(self))
