"""Prompt requests and their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.error import Error
from trustgraph_prompt.wire.records import decode, kind, take


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
            id=take(record, "id", str, "", "PromptRequest"),
            terms=take(record, "terms", dict, {}, "PromptRequest"),
            streaming=take(record, "streaming", bool, False, "PromptRequest"),
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
        return encode(self)


def _term(name: str, text: object) -> Any:
    if not isinstance(text, str):
        raise RequestError(f"PromptRequest/terms/{name}: found {kind(text)}, expected a string of JSON")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"PromptRequest/terms/{name} is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class PromptResponse:
    """Answers a `PromptRequest`: `text`, or `object` as JSON text, or an error.

    From `finish_reason` on the fields are ours: why the model stopped, whether the answer is cut (None where
    nobody can tell), what it took to read it (`Stage`), how many objects were refused, why somebody else
    is to deal with it ("condition", "attempts").
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

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(self)
