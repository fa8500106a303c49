"""Text-completion requests and responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError, excerpt
from trustgraph_prompt.wire.records import Error, Record, decode, json_type, take, take_optional

MAX_LABELS, MAX_LABEL = 16, 512
"""How many labels a request may have, and how many characters each name and value may have."""

_REQUEST, _RESPONSE = "TextCompletionRequest", "TextCompletionResponse"


@dataclass(frozen=True, slots=True)
class TextCompletionRequest(Record):
    """A request to a model; with `response_format` "json" for an answer that follows `schema`.

    `operation` is "completion", or "list-models", which calls no model.

    The fields from `messages` on are ours. `messages` ({"role", "content"}) holds a conversation that is more
    than `system` and `prompt`, which then contain it as text. `settings` are those of `RuntimeConfig` that
    are not None. `schema_in_words` puts the schema into the prompt if the server has no structured output. A
    `direct` request is a single call: it is not retried, and its thinking is returned. `labels` are those of
    the call. `seconds_left` is how long the sender waits for the first piece of the answer, counted from the
    publication.
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
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, _REQUEST)
        messages = take_optional(record, "messages", list, _REQUEST)
        return cls(
            operation=take(record, "operation", str, "completion", _REQUEST),
            system=take(record, "system", str, "", _REQUEST),
            prompt=take(record, "prompt", str, "", _REQUEST),
            streaming=take(record, "streaming", bool, False, _REQUEST),
            response_format=take_optional(record, "response_format", str, _REQUEST),
            schema=take_optional(record, "schema", dict, _REQUEST),
            messages=None
            if messages is None
            else [_message(index, message) for index, message in enumerate(messages)],
            settings=take_optional(record, "settings", dict, _REQUEST),
            schema_in_words=take(record, "schema_in_words", bool, True, _REQUEST),
            direct=take(record, "direct", bool, False, _REQUEST),
            labels=_labels(take(record, "labels", dict, {}, _REQUEST)),
            seconds_left=take_optional(record, "seconds_left", float, _REQUEST),
        )


def _message(index: int, message: object) -> Mapping[str, str]:
    where = f"{_REQUEST}/messages/{index}"
    if not isinstance(message, dict):
        raise RequestError(
            f"{where}: found {json_type(message)}, expected an object with `role` and `content`"
        )
    role = take(message, "role", str, "", where)
    if role not in ("system", "user", "assistant"):
        raise RequestError(f"{where}/role: found {role[:40]!r}, expected system, user or assistant")
    return {"role": role, "content": take(message, "content", str, "", where)}


def _labels(labels: Mapping[str, Any]) -> Mapping[str, str]:
    """Observers record labels, so anybody who can publish could fill their storage."""
    where = f"{_REQUEST}/labels"
    if len(labels) > MAX_LABELS:
        raise RequestError(f"{where}: found {len(labels)} labels, expected at most {MAX_LABELS}")
    taken = {name: take(labels, name, str, "", where) for name in labels}
    for name, value in taken.items():
        if max(len(name), len(value)) > MAX_LABEL:
            longest = max(len(name), len(value))
            raise RequestError(
                f"{where}/{excerpt(name, 40)}: found {longest} characters, expected at most {MAX_LABEL}"
            )
    return taken


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """An available model. TrustGraph's further fields take their defaults."""

    id: str
    name: str | None = None
    owned_by: str | None = None


@dataclass(frozen=True, slots=True)
class TextCompletionResponse(Record):
    """A response to a `TextCompletionRequest`: a piece of the answer, the whole answer, its end, or an error.

    The fields from `finish_reason` on are ours: why the model stopped (in the last response); `at`, the
    number of characters of the answer before this piece; the model's reasoning; the usage beyond `in_token`
    and `out_token`; how the schema was enforced; the seconds to wait before a retry. A negative count means
    unknown.
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
        """Decode a response, without its `models`. Raises `RequestError`, which names the invalid field."""
        record = decode(data, _RESPONSE)
        usage = take_optional(record, "usage", dict, _RESPONSE)
        return cls(
            error=Error.of(record, _RESPONSE),
            response=take_optional(record, "response", str, _RESPONSE),
            in_token=_count(record, "in_token", _RESPONSE),
            out_token=_count(record, "out_token", _RESPONSE),
            model=take_optional(record, "model", str, _RESPONSE),
            end_of_stream=take(record, "end_of_stream", bool, False, _RESPONSE),
            finish_reason=take_optional(record, "finish_reason", str, _RESPONSE),
            at=take_optional(record, "at", int, _RESPONSE),
            thinking=take(record, "thinking", str, "", _RESPONSE),
            usage=usage and {name: _count(usage, name, f"{_RESPONSE}/usage") for name in usage},
            schema_path=take_optional(record, "schema_path", str, _RESPONSE),
            retry_after=take_optional(record, "retry_after", float, _RESPONSE),
        )


def _count(record: Mapping[str, Any], key: str, where: str) -> int | None:
    value = take_optional(record, key, int, where)
    return None if value is None or value < 0 else value
