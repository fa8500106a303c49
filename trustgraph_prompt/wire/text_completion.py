"""Text-completion requests and their responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError, excerpt
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.error import Error
from trustgraph_prompt.wire.records import decode, take, take_if_any

MAX_LABELS, MAX_LABEL = 16, 512
"""How many labels a request may have, and how many characters each name and value."""

_REQUEST, _RESPONSE = "TextCompletionRequest", "TextCompletionResponse"


@dataclass(frozen=True, slots=True)
class TextCompletionRequest:
    """Asks a model, with the answer held to `schema` where `response_format` is "json" and it can be.

    `operation` is "completion", or "list-models" which wants no answer of a model.

    From `messages` on the fields are ours. `messages` ({"role", "content"}) is the conversation where it is
    more than `system` and `prompt`, which then tell it in words. `settings` are those of `RuntimeConfig`
    that are not None. `schema_in_words` says whether a server that takes no schema is told it. A `direct`
    request is one call as it is: not tried again, its thinking told. `labels` are the call's, few and short.
    `seconds_left` is how long after its publication whoever sent it still waits for the first of the answer.
    """

    operation: str = "completion"
    system: str = ""
    prompt: str = ""
    streaming: bool = False
    response_format: str | None = None
    schema: Mapping[str, Any] | None = None
    messages: Sequence[Mapping[str, str]] | None = None
    settings: Mapping[str, Any] | None = None
    schema_in_words: bool = True
    direct: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    seconds_left: float | None = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises `RequestError` naming the field that is wrong."""
        record = decode(data, _REQUEST)
        messages = take_if_any(record, "messages", list, _REQUEST)
        return cls(
            operation=take(record, "operation", str, "completion", _REQUEST),
            system=take(record, "system", str, "", _REQUEST),
            prompt=take(record, "prompt", str, "", _REQUEST),
            streaming=take(record, "streaming", bool, False, _REQUEST),
            response_format=take_if_any(record, "response_format", str, _REQUEST),
            schema=take_if_any(record, "schema", dict, _REQUEST),
            messages=None if messages is None else [_message(at, m) for at, m in enumerate(messages)],
            settings=take_if_any(record, "settings", dict, _REQUEST),
            schema_in_words=take(record, "schema_in_words", bool, True, _REQUEST),
            direct=take(record, "direct", bool, False, _REQUEST),
            labels=_labels(take(record, "labels", dict, {}, _REQUEST)),
            seconds_left=take_if_any(record, "seconds_left", float, _REQUEST),
        )

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(self)


def _message(at: int, message: object) -> Mapping[str, str]:
    where = f"{_REQUEST}/messages/{at}"
    if not isinstance(message, dict):
        raise RequestError(f"{where}: expected an object with `role` and `content`")
    role = take(message, "role", str, "", where)
    if role not in ("system", "user", "assistant"):
        raise RequestError(f"{where}/role: found {role[:40]!r}, expected system, user or assistant")
    return {"role": role, "content": take(message, "content", str, "", where)}


def _labels(labels: Mapping[str, Any]) -> Mapping[str, str]:
    """They stand in the observers' records: a stranger's must not fill them."""
    where = f"{_REQUEST}/labels"
    if len(labels) > MAX_LABELS:
        raise RequestError(f"{where}: found {len(labels)}, expected at most {MAX_LABELS}")
    taken = {name: take(labels, name, str, "", where) for name in labels}
    for name, value in taken.items():
        if max(len(name), len(value)) > MAX_LABEL:
            raise RequestError(f"{where}/{excerpt(name, 40)}: expected at most {MAX_LABEL} characters")
    return taken


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that can be asked, by its `id`. TrustGraph's further fields take their defaults."""

    id: str
    name: str | None = None
    owned_by: str | None = None


@dataclass(frozen=True, slots=True)
class TextCompletionResponse:
    """Answers a `TextCompletionRequest`: a piece of the answer, the whole or the end of it, or an error.

    From `finish_reason` on the fields are ours: why the model stopped, in the last response; `at` how many
    characters of the answer stand before this piece; its reasoning; all that is known of the cost beside
    `in_token` and `out_token`; how the answer was held to a schema; how many seconds to wait before asking
    again. A count below 0 is none.
    """

    error: Error | None = None
    response: str | None = ""
    in_token: int | None = None
    out_token: int | None = None
    model: str | None = None
    end_of_stream: bool = True
    models: Sequence[ModelInfo] = ()
    finish_reason: str | None = None
    at: int | None = None
    thinking: str = ""
    usage: Mapping[str, int | None] | None = None
    schema_path: str | None = None
    retry_after: float | None = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Without `models`. Raises `RequestError` naming the field that is wrong."""
        record = decode(data, _RESPONSE)
        usage = take_if_any(record, "usage", dict, _RESPONSE)
        return cls(
            error=Error.of(record, _RESPONSE),
            response=take_if_any(record, "response", str, _RESPONSE),
            in_token=_count(record, "in_token", _RESPONSE),
            out_token=_count(record, "out_token", _RESPONSE),
            model=take_if_any(record, "model", str, _RESPONSE),
            end_of_stream=take(record, "end_of_stream", bool, False, _RESPONSE),
            finish_reason=take_if_any(record, "finish_reason", str, _RESPONSE),
            at=take_if_any(record, "at", int, _RESPONSE),
            thinking=take(record, "thinking", str, "", _RESPONSE),
            usage=usage and {name: _count(usage, name, f"{_RESPONSE}/usage") for name in usage},
            schema_path=take_if_any(record, "schema_path", str, _RESPONSE),
            retry_after=take_if_any(record, "retry_after", float, _RESPONSE),
        )

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(self)


def _count(record: Mapping[str, Any], key: str, what: str) -> int | None:
    value = take_if_any(record, key, int, what)
    return None if value is None or value < 0 else value
