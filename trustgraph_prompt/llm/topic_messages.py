"""Converts between calls and text-completion requests, and between responses and deltas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast, get_args

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import (
    PROVIDER_ERRORS,
    ProviderError,
    ProviderInvalidRequest,
    ProviderRateLimit,
    ProviderUnavailable,
    ProviderUnexplained,
    ProviderUnsupportedContentBlock,
    RequestError,
    excerpt,
)
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, Message, RuntimeConfig, SchemaPath
from trustgraph_prompt.wire import Error, TextCompletionRequest, TextCompletionResponse

#: The type of a provider's error, except for a rate limit (TrustGraph's names).
LLM_ERROR, TOO_MANY_REQUESTS = "llm-error", "too-many-requests"

#: The types of errors that the request itself causes.
_REQUESTS_FAULT = ("invalid-request", "not-implemented", "too-large")

_ROLE_NAMES: Mapping[str, str] = {"user": "User", "assistant": "Assistant"}

_SETTINGS = tuple(field.name for field in fields(RuntimeConfig))

#: Digits of the number of a call.
_LONGEST_NUMBER = 9

#: The allowed range of numbers: wider than that of any server.
_NUMBERS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_p": (0, 1),
    "frequency_penalty": (-100, 100),
    "presence_penalty": (-100, 100),
}
_MOST_TOKENS = 2**31 - 1
_LONGEST_MODEL = 200


def request(call: Call, seconds_left: float | None = None) -> TextCompletionRequest:
    """Convert a call. Raises a `ProviderError` for what a text-completion request cannot have."""
    if call.tools or any(message.role == "tool" or message.tool_calls for message in call.messages):
        raise ProviderInvalidRequest("a text-completion request cannot have tools")
    if any(message.has_images for message in call.messages):
        raise ProviderUnsupportedContentBlock("a text-completion request cannot have images")
    system = [message.text for message in call.messages if message.role == "system"]
    asked = [message for message in call.messages if not message.is_example]
    others = [message for message in asked if message.role != "system"]
    is_plain = [message.role for message in asked] == ["system"] * len(system) + ["user"]
    has_examples = len(asked) < len(call.messages)
    # TrustGraph's workers only know this one text, which fully describes a plain conversation; in any other
    # text they would take the passages of examples for what they are asked
    said = [f"{_ROLE_NAMES[message.role]}:\n{message.text}" for message in others]
    messages = [{"role": message.role, "content": message.text} for message in call.messages]
    settings = {name: value for name in _SETTINGS if (value := getattr(call.config, name)) not in (None, {})}
    return TextCompletionRequest(
        system="\n\n".join(system),
        prompt=others[0].text if is_plain else "\n\n".join(said),
        streaming=call.stream,
        response_format=None if call.response_schema is None else "json",
        schema=call.response_schema,
        messages=None if is_plain and len(system) < 2 and not has_examples else messages,
        settings=settings or None,
        schema_in_words=call.schema_in_words,
        direct=True,
        labels=call.labels,
        seconds_left=seconds_left,
    )


def call(request: TextCompletionRequest) -> Call:
    """Convert a request. Raises `RequestError` for invalid settings and labels."""
    number = request.labels.get("call", "1")
    if not (number.isascii() and number.isdecimal() and len(number) <= _LONGEST_NUMBER):
        found = excerpt(repr(number), 40)
        raise RequestError(f"TextCompletionRequest/labels/call: found {found}, expected the number of a call")
    if request.messages is None:
        system = [Message("system", request.system)] if request.system.strip() else []
        messages = [*system, Message("user", request.prompt)]
    else:
        messages = [Message(cast(Any, m["role"]), m["content"]) for m in request.messages]
    return Call(
        messages,
        config=_config(request.settings or {}),
        response_schema=request.schema if request.response_format == "json" else None,
        schema_in_words=request.schema_in_words,
        stream=request.streaming,
        labels=request.labels,
    )


def delta(response: TextCompletionResponse, text: str, model: str | None = None) -> Delta:
    """Convert a response: `text` is its new text, `model` the model where it names none."""
    has_tokens = (response.in_token, response.out_token) != (None, None)
    return Delta(
        text=text,
        thinking=response.thinking,
        finish_reason=cast(FinishReason, _one_of(response.finish_reason, FinishReason)),
        usage=_usage(response) if response.usage or has_tokens else None,
        model=response.model or model,
        schema_path=cast(SchemaPath, _one_of(response.schema_path, SchemaPath)),
    )


def error(cause: ProviderError) -> Error:
    """Convert a provider's error to the error of a response."""
    if isinstance(cause, ProviderRateLimit):
        return Error(TOO_MANY_REQUESTS, str(cause))
    return Error(LLM_ERROR, f"{cause.category}: {cause}")


def cause(error: Error, retry_after: float | None = None) -> ProviderError:
    """Convert the error of a response to a provider's error.

    TrustGraph's own workers name no category, and do not tell whether a retry may help.
    """
    category, _, message = error.message.partition(": ")
    if error.type == TOO_MANY_REQUESTS:
        return ProviderRateLimit(error.message, retry_after=retry_after)
    if error.type == LLM_ERROR and category in PROVIDER_ERRORS:
        return PROVIDER_ERRORS[category](message, retry_after=retry_after)
    kind: type[ProviderError] = ProviderUnavailable
    if error.type in _REQUESTS_FAULT:
        kind = ProviderInvalidRequest
    elif error.type == LLM_ERROR:
        kind = ProviderUnexplained
    return kind(f"{error.type}: {error.message}", retry_after=retry_after)


def _config(settings: Mapping[str, Any]) -> RuntimeConfig:
    for name, value in settings.items():
        if value is not None:
            _check(name, value, "TextCompletionRequest/settings")
    values = {name: value for name, value in settings.items() if name in _SETTINGS and value is not None}
    if "stop_sequences" in values:
        values["stop_sequences"] = tuple(values["stop_sequences"])
    return RuntimeConfig(**values)


def _check(name: str, value: Any, where: str) -> None:
    """Raise `RequestError` for an invalid value of a setting."""
    match name:
        case "max_tokens" | "max_completion_tokens":
            fits = _is_a(value, int) and 1 <= value <= _MOST_TOKENS
            expected = f"a whole number from 1 to {_MOST_TOKENS}"
        case "model":
            fits = isinstance(value, str) and 1 <= len(value) <= _LONGEST_MODEL
            expected = f"the name of a model, {_LONGEST_MODEL} characters at most"
        case "seed":
            fits, expected = _is_a(value, int), "a whole number"
        case "stop_sequences":
            fits = isinstance(value, list) and all(isinstance(text, str) for text in value)
            expected = "an array of strings"
        case "extras":
            fits, expected = isinstance(value, dict), "an object"
        case _ if name in _NUMBERS:
            least, most = _NUMBERS[name]
            fits = _is_a(value, int | float) and least <= value <= most
            expected = f"a number from {least} to {most}"
        case _:
            return
    if not fits:
        raise RequestError(f"{where}/{name}: found {excerpt(repr(value), 40)}, expected {expected}")
    if name == "extras":
        for limit in ("max_tokens", "max_completion_tokens"):
            if value.get(limit) is not None:
                _check(limit, value[limit], f"{where}/extras")


def _is_a(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _usage(response: TextCompletionResponse) -> Usage:
    if response.usage:
        return Usage(**{field.name: response.usage.get(field.name) for field in fields(Usage)})
    prompt, completion = response.in_token, response.out_token
    total = prompt + completion if prompt is not None and completion is not None else None
    return Usage(prompt, completion, total)


def _one_of(value: str | None, names: Any) -> str | None:
    return value if value in get_args(names) else None
