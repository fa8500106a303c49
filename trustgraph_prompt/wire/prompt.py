"""Prompt requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.records import Error, Record, decode, json_type, take


@dataclass(frozen=True, slots=True)
class PromptRequest(Record):
    """A request to answer the prompt `id`; each value of `terms` is JSON text."""

    id: str
    terms: Mapping[str, str] = field(default_factory=dict)
    streaming: bool = False

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, "PromptRequest")
        return cls(**{"id": "", **take(record, "PromptRequest", id=str, terms=dict, streaming=bool)})

    @classmethod
    def asking(cls, prompt: str, terms: Mapping[str, object], *, streaming: bool = False) -> Self:
        """Make a request for `prompt`, encoding the terms."""
        return cls(prompt, {name: encode(value).decode() for name, value in terms.items()}, streaming)

    def values(self) -> dict[str, Any]:
        """Decode the terms. Raises `RequestError`, which names the invalid term."""
        return {name: _term(name, text) for name, text in self.terms.items()}


def _term(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise RequestError(f"PromptRequest/terms/{name}: found {json_type(text)}, expected a string of JSON")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"PromptRequest/terms/{name} is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class PromptResponse(Record):
    """The response to a `PromptRequest`: `text`, or `object` as JSON text, or an error.

    The fields from `finish_reason` on are ours: why the model stopped; whether the answer is truncated (None
    if unknown); the `Stage` of reading that succeeded; the number of rejected objects; why the request was
    escalated ("condition", "attempts").
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
    escalated: str | None = None
