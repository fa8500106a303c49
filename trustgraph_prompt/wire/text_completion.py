"""Text-completion requests and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError, excerpt
from trustgraph_prompt.wire.records import Error, Record, decode, json_type, take

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
        fields = take(record, _REQUEST, messages=list, operation=str, system=str, prompt=str)
        fields |= take(record, _REQUEST, streaming=bool, response_format=str, schema=dict)
        if "messages" in fields:
            fields["messages"] = [_message(*numbered) for numbered in enumerate(fields["messages"])]
        fields |= take(record, _REQUEST, settings=dict, schema_in_words=bool, direct=bool, labels=dict)
        if "labels" in fields:
            fields["labels"] = _labels(fields["labels"])
        return cls(**fields, **take(record, _REQUEST, seconds_left=float))


def _message(index: int, message: object) -> Mapping[str, str]:
    where = f"{_REQUEST}/messages/{index}"
    if not isinstance(message, dict):
        raise RequestError(
            f"{where}: found {json_type(message)}, expected an object with `role` and `content`"
        )
    role = take(message, where, role=str).get("role", "")
    if role not in ("system", "user", "assistant"):
        raise RequestError(f"{where}/role: found {role[:40]!r}, expected system, user or assistant")
    return {"role": role, "content": "", **take(message, where, content=str)}


def _labels(labels: Mapping[str, Any]) -> Mapping[str, str]:
    """Observers record labels, so anybody who can publish could fill their storage."""
    where = f"{_REQUEST}/labels"
    if len(labels) > MAX_LABELS:
        raise RequestError(f"{where}: found {len(labels)} labels, expected at most {MAX_LABELS}")
    taken = {**dict.fromkeys(labels, ""), **take(labels, where, **dict.fromkeys(labels, str))}
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
        usage = take(record, _RESPONSE, usage=dict).get("usage")
        fields: dict[str, Any] = {"response": None, "end_of_stream": False}
        fields["error"] = Error.of(record, _RESPONSE)
        fields |= take(record, _RESPONSE, response=str)
        fields |= _counts(record, _RESPONSE, ("in_token", "out_token"))
        fields |= take(record, _RESPONSE, model=str, end_of_stream=bool, finish_reason=str, at=int)
        fields |= take(record, _RESPONSE, thinking=str)
        if usage is not None:
            fields["usage"] = _counts(usage, f"{_RESPONSE}/usage", usage)
        return cls(**fields, **take(record, _RESPONSE, schema_path=str, retry_after=float))


def _counts(record: Mapping[str, Any], where: str, names: Iterable[str]) -> dict[str, int | None]:
    """Take numbers of tokens; None for one that is missing or negative."""
    taken = take(record, where, **dict.fromkeys(names, int))
    return {name: taken[name] if taken.get(name, -1) >= 0 else None for name in names}
