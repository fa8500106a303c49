"""Decodes answers of chat completions: chunks or a whole body as deltas, and the body put together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderInvalidResponse, excerpt
from trustgraph_prompt.llm.openai.errors import Refusal
from trustgraph_prompt.llm.openai.tool_calls import TextAssembler, ToolCalls
from trustgraph_prompt.llm.records import Delta, FinishReason, SchemaPath

#: Bytes after which it is counted what is held besides the answer (log probabilities and the like); half of
#: them may be, so that counting is seldom.
MAX_BESIDES = 64 * 1024 * 1024


class Body:
    """What the chunks of one choice have said so far: texts joined, of all else the last word."""

    def __init__(self) -> None:
        self._envelope: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._texts: dict[str, list[str]] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._finish_reason: Any = None
        self._usage: Any = None
        self._held = 0  # bytes at most

    @property
    def has_choice(self) -> bool:
        """Whether anything was an answer."""
        return bool(self._choice)

    def add(
        self, envelope: Mapping[str, Any], choice: Mapping[str, Any], message: Mapping[str, Any], size: int
    ) -> None:
        """Take in a chunk of `size` bytes, and of it the choice that is heard, and its delta."""
        self._envelope.update(envelope)
        self._choice.update(choice)
        self._message.update(message)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        self._usage = envelope.get("usage") or self._usage
        logprobs = choice.get("logprobs")
        if logprobs:
            self._add_logprobs(logprobs)
        self._held += size
        if self._held > MAX_BESIDES:
            self._recount()

    def add_text(self, key: str, text: str) -> None:
        """What a chunk says under a key whose text comes in pieces."""
        if text:
            self._texts.setdefault(key, []).append(text)

    def whole(self, tool_calls: Mapping[str, Any]) -> dict[str, Any]:
        """The body, with the usage as it came; `tool_calls` is what its message says of them."""
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        message = {**self._message, **texts, **tool_calls}
        choice = self._choice | {"message": message, "finish_reason": self._finish_reason}
        choice.pop("delta", None)
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        body = self._envelope | {"object": "chat.completion", "choices": [choice]}
        body.pop("usage", None)
        return body if self._usage is None else body | {"usage": self._usage}

    def _add_logprobs(self, logprobs: Any) -> None:
        for key, tokens in logprobs.items() if isinstance(logprobs, dict) else ():
            if isinstance(tokens, list):
                self._logprobs.setdefault(key, []).extend(tokens)

    def _recount(self) -> None:
        """Most of what came has been replaced by what came later."""
        try:
            self._held = len(json.dumps((self._envelope, self._choice, self._message, self._logprobs)))
        except RecursionError:
            self._held = MAX_BESIDES
        if self._held > MAX_BESIDES // 2:
            raise ProviderInvalidResponse(f"more than {MAX_BESIDES // 2:,} bytes besides the answer")


#: Characters of an answer, its thinking and its tool calls included.
MAX_ANSWER = 8 * 1024 * 1024

_FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
#: What a message has that brings nothing but text.
_PLAIN = frozenset(("role", "content"))

_NO_USAGE = Usage()
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


class AnswerDecoder:
    """One answer out of its bytes: `take` each event of it, then `end`; or all of it at once with `whole`.

    `schema_path` is told by the first delta. Raises `Refusal` for an error that a server sends in place of an
    answer, and `ProviderInvalidResponse`.
    """

    def __init__(self, schema_path: SchemaPath | None = None) -> None:
        self._schema_path = schema_path
        self._tool_calls = ToolCalls()
        self._texts = {
            key: TextAssembler() for key in ("content", "refusal", "reasoning_content", "reasoning")
        }
        self._body = Body()
        self._size = 0
        self._finish_reason: FinishReason | None = None
        self._is_refusal = False

    def take(self, event: bytes) -> Delta:
        """What one event of a stream says."""
        return self._delta(_object(event), event)

    def end(self) -> Delta:
        """What only the whole answer tells: its tool calls and the body.

        Where there are tool calls the finish reason is "tool_calls", also where the server says "stop", as
        some do of a tool that was forced; `raw` has the server's word (reference: tool path).
        """
        if not self._body.has_choice:
            raise ProviderInvalidResponse("no choices in the answer")
        calls = self._tool_calls.whole(self._finish_reason)
        left = {key: text.end() for key, text in self._texts.items()}
        for key, text in left.items():
            self._body.add_text(key, text)
        return Delta(
            text=left["content"] + left["refusal"],
            thinking=left["reasoning_content"] or left["reasoning"],
            tool_calls=calls,
            finish_reason=self._reason if calls else None,
            raw=self._body.whole(self._tool_calls.wire()),
        )

    def whole(self, body: bytes, beginning: str = "") -> Iterator[Delta]:
        """The one delta of an answer that comes in one piece. Bad tool calls are raised after the rest.

        The text is what follows the `beginning` that the call gave: llama.cpp repeats it, though not in a
        stream.
        """
        envelope = _object(body)
        delta = self._delta(envelope, body)
        delta.text = delta.text.removeprefix(beginning)
        if _first_choice(envelope.get("choices") or []).get("message") is None:
            raise ProviderInvalidResponse(f"no message in {excerpt(body)}")
        try:
            end = self.end()
        except ProviderInvalidResponse:
            yield delta
            raise
        text, thinking = delta.text + end.text, delta.thinking + end.thinking
        yield replace(delta, text=text, thinking=thinking, tool_calls=end.tool_calls, raw=envelope)

    def _delta(self, envelope: Mapping[str, Any], raw: bytes) -> Delta:
        if error := envelope.get("error") or (envelope if envelope.get("object") == "error" else None):
            raise Refusal.of_event(error, raw)
        choice = _first_choice(_typed(envelope, "choices", list) or [])
        # some servers say the whole message where others say what is new of it
        part = "message" if choice.get("delta") is None else "delta"
        message = _typed(choice, part, dict) or {}
        self._body.add(envelope, choice, message, len(raw))
        text, thinking, refusal = self._text("content", message), "", ""
        if not message.keys() <= _PLAIN:
            thoughts, reasons = self._text("reasoning_content", message), self._text("reasoning", message)
            thinking = thoughts or reasons
            if refusal := self._text("refusal", message):
                text, self._is_refusal = text + refusal, True
            if calls := message.get("tool_calls"):
                self._tool_calls.add(calls, are_whole=part == "message")
            elif function := message.get("function_call"):
                self._tool_calls.add_legacy(function)
        self._size += len(text) + len(thinking)
        if self._size + self._tool_calls.size > MAX_ANSWER:
            raise ProviderInvalidResponse(f"the answer has more than {MAX_ANSWER:,} characters")
        told = _finish_reason(choice.get("finish_reason"))
        self._finish_reason = told or self._finish_reason
        path, self._schema_path = self._schema_path, None
        reason = self._reason if told or refusal else None
        model = _typed(envelope, "model", str)
        # by position: names take longer than the rest of it
        return Delta(text, thinking, (), reason, _usage(envelope.get("usage")), model, path)

    def _text(self, key: str, message: Mapping[str, Any]) -> str:
        piece = message.get(key)
        if not piece:
            return ""
        if not isinstance(piece, str):
            raise ProviderInvalidResponse(f"{key!r} is {type(piece).__name__}, expected str")
        text = self._texts[key].take(piece)
        self._body.add_text(key, text)
        return text

    @property
    def _reason(self) -> FinishReason | None:
        """Why the answer ended, as far as is known: a refusal and tool calls are told with "stop"."""
        if self._is_refusal:
            return "content_filter"
        return "tool_calls" if self._tool_calls and self._finish_reason == "stop" else self._finish_reason


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
    """The counters; one that is none is None, and stands in the body as it came. None where all are."""
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = {name: _count(value.get(name)) for name in _COUNTS}
    usage = Usage(**counts, cached_tokens=_count(cached))
    return None if usage == _NO_USAGE else usage


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
    if found is None or isinstance(found, kind):
        return found
    raise ProviderInvalidResponse(f"{key!r} is {type(found).__name__}, expected {kind.__name__}")
