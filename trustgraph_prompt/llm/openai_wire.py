"""The chat completions wire: what a call is as a request body, what a chunk or a body is as a delta."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderInvalidResponse, excerpt
from trustgraph_prompt.llm import openai_errors
from trustgraph_prompt.llm.records import Call, Delta, FinishReason

_CONFIG = {
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "top_p": "top_p",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "stop_sequences": "stop",
}
_FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def request(call: Call, model: str) -> bytes:
    """The body of a request. Raises `ProviderInvalidRequest` for what does not go onto this wire."""
    if call.tools or any(message.role == "tool" or message.tool_calls for message in call.messages):
        raise ProviderInvalidRequest("tools do not go onto this wire")
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in call.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for name, key in _CONFIG.items():
        if (value := getattr(call.config, name)) is not None:
            body[key] = value
    for key, value in call.config.extras.items():
        if body.setdefault(key, value) != value:
            raise ProviderInvalidRequest(f"extras say another {key!r} than the call itself")
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise ProviderInvalidRequest(f"the call cannot be written as JSON: {error}") from error


def delta(event: bytes) -> Delta:
    """What one event of a stream says. Raises the error that it holds, or `ProviderInvalidResponse`."""
    return _delta(_object(event), event)


def completion(body: bytes) -> Delta:
    """What the body of a server that does not stream says, the same way."""
    answer = _object(body)
    if not answer.get("choices") and not answer.get("error"):
        raise ProviderInvalidResponse(f"no choices in {excerpt(body)}")
    return _delta(answer, body)


def _delta(envelope: Mapping[str, Any], raw: bytes) -> Delta:
    if error := envelope.get("error"):
        raise openai_errors.from_event(error, raw)
    choice = _first_choice(_typed(envelope, "choices", list) or [])
    # some servers say the whole message where others say what is new of it
    part = "message" if choice.get("delta") is None else "delta"
    said = _typed(choice, part, dict) or {}
    refusal = _typed(said, "refusal", str) or ""
    return Delta(
        text=(_typed(said, "content", str) or "") + refusal,
        thinking=_typed(said, "reasoning_content", str) or _typed(said, "reasoning", str) or "",
        finish_reason="content_filter" if refusal else _finish_reason(choice.get("finish_reason")),
        usage=_usage(envelope.get("usage")),
        model=_typed(envelope, "model", str),
    )


class WholeText:
    """Text out of pieces that may end within a character: who counts in UTF-16 cuts an emoji in two."""

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """What is whole so far; half a character without its other half becomes U+FFFD."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        whole = text.removesuffix(self._half)
        return whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _first_choice(choices: list[Any]) -> Mapping[str, Any]:
    """The choice that is heard: where several answers were asked for, the others are let go."""
    for choice in choices:
        if not isinstance(choice, dict):
            raise ProviderInvalidResponse(f"a choice is {type(choice).__name__}, expected dict")
        if not choice.get("index"):
            return choice
    return {}


def _finish_reason(value: Any) -> FinishReason | None:
    if value is None:
        return None
    return _FINISH_REASONS.get(value, "error") if isinstance(value, str) else "error"


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(*(_count(value.get(f"{kind}_tokens")) for kind in ("prompt", "completion", "total")))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _leniently(data)
    if not isinstance(value, dict):
        raise ProviderInvalidResponse(f"no JSON object: {excerpt(data)}")
    return value


def _leniently(data: bytes) -> Any:
    """JSON that orjson refuses because of half a character, whose other half is in another event."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ProviderInvalidResponse(f"not JSON: {excerpt(data)}") from None


def _typed(value: Mapping[str, Any], key: str, kind: type) -> Any:
    found = value.get(key)
    if found is not None and not isinstance(found, kind):
        raise ProviderInvalidResponse(f"{key!r} is {type(found).__name__}, expected {kind.__name__}")
    return found
