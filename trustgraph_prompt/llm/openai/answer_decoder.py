"""Decodes the answer of chat completions, streamed or whole, into deltas."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderInvalidResponse, excerpt
from trustgraph_prompt.llm.openai.assembly import Body, TextAssembler, ToolCalls, joined_parts
from trustgraph_prompt.llm.openai.refusal import ServerRefusal
from trustgraph_prompt.llm.records import Delta, FinishReason, SchemaPath, ToolCall

#: Characters of an answer, including its thinking and its tool calls.
MAX_ANSWER = 8 * 1024 * 1024

#: The words of servers for the end of an answer, in any case of letters: of OpenAI, TGI, Together, Mistral,
#: Cohere, llama.cpp and watsonx, and of Anthropic, Bedrock, Gemini and GLM, which gateways pass on.
_WORDS: Mapping[FinishReason, str] = {
    "stop": "stop eos eos_token end_turn stop_sequence complete finish",
    "length": "length max_tokens model_length model_context_window_exceeded token_limit limit",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    "content_filter": "content_filter content_filtered guardrail_intervened refusal error_toxic sensitive "
    "safety recitation blocklist prohibited_content spii language",
}
_FINISH_REASONS = {word: reason for reason, words in _WORDS.items() for word in words.split()}

#: What some servers say of a piece that is not the last one.
_NOT_FINISHED = (None, "", "null")

#: The keys of a message that has nothing but text.
_PLAIN = frozenset(("role", "content"))

#: The text of an event, as written.
_CONTENT = re.compile(rb'"content":\s*("(?:[^"\\]++|\\.)*+")')

#: Frames that are tried before it is clear that the server has a new one for each event, as OpenAI has, which
#: pads each to a random length.
_FRAMES_TO_TRY = 3

_NO_USAGE = Usage()
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


class AnswerDecoder:
    """Decodes one answer: `take` each event of a stream, then call `end`; or call `whole` with a body.

    The first delta names the `schema_path`. Raises `ServerRefusal` for an error that a server sends in place
    of an answer, and `ProviderInvalidResponse`.
    """

    def __init__(self, schema_path: SchemaPath | None = None) -> None:
        self._schema_path = schema_path
        self._tool_calls: ToolCalls | None = None  # until the first one
        self._texts: defaultdict[str, TextAssembler] = defaultdict(TextAssembler)  # by their keys
        self._body = Body()
        self._size = 0
        self._finish_reason: FinishReason | None = None
        self._is_refusal = False
        self._frame = _Frame()

    def take(self, event: bytes) -> Delta:
        """Decode one event of a stream."""
        if piece := self._frame.text_of(event):
            # as `_delta` would, which finds nothing new in the rest
            text = self._texts["content"].take(piece)
            self._count_characters(len(text))
            return Delta(text, model=self._frame.model)
        envelope = _object(event)
        delta = self._delta(envelope, event)
        self._frame.learn(event, envelope)
        return delta

    def end(self) -> Delta:
        """The last delta of a stream: its tool calls and the body.

        The finish reason of an answer with tool calls is "tool_calls", even if the server says "stop", as
        some do for a tool that was forced; `raw` keeps the server's word.
        """
        if not self._body.has_choice:
            raise ProviderInvalidResponse("the answer has no choices")
        calls: tuple[ToolCall, ...] = ()
        calls_as_sent: Mapping[str, Any] = {}
        if self._tool_calls is not None:
            calls, calls_as_sent = self._tool_calls.whole(self._finish_reason), self._tool_calls.wire()
        left = defaultdict(str, {key: text.end() for key, text in self._texts.items()})
        texts = {key: whole for key, text in self._texts.items() if (whole := text.whole())}
        return Delta(
            text=left["content"] + left["refusal"],
            thinking=left["reasoning_content"] or left["reasoning"],
            tool_calls=calls,
            finish_reason=self._reason if calls else None,
            raw=self._body.whole(texts, calls_as_sent),
        )

    def whole(self, body: bytes, beginning: str = "") -> Iterator[Delta]:
        """Decode an answer that is not streamed. Errors in tool calls are raised after the delta.

        `beginning`, the prefill of the call, is removed from the text: llama.cpp repeats it, though not in a
        stream.
        """
        envelope = _object(body)
        delta = self._delta(envelope, body)
        delta.text = delta.text.removeprefix(beginning)
        if _first_choice(envelope.get("choices") or []).get("message") is None:
            raise ProviderInvalidResponse(f"the first choice has no message: {excerpt(body)}")
        try:
            end = self.end()
        except ProviderInvalidResponse:
            yield delta
            raise
        text, thinking = delta.text + end.text, delta.thinking + end.thinking
        yield replace(delta, text=text, thinking=thinking, tool_calls=end.tool_calls, raw=envelope)

    def _delta(self, envelope: Mapping[str, Any], raw: bytes) -> Delta:
        if error := envelope.get("error") or (envelope if envelope.get("object") == "error" else None):
            raise ServerRefusal.of_event(error, raw)
        choice = _first_choice(_typed(envelope, "choices", list) or [])
        # some servers send a whole message in place of a delta
        part = "message" if choice.get("delta") is None else "delta"
        message = _typed(choice, part, dict) or {}
        if isinstance(message.get("content"), list):
            message = joined_parts(message)
        self._body.add(envelope, choice, message, len(raw))
        text, thinking, refusal = self._text("content", message), "", ""
        if not message.keys() <= _PLAIN:
            thoughts, reasons = self._text("reasoning_content", message), self._text("reasoning", message)
            thinking = thoughts or reasons
            if refusal := self._text("refusal", message):
                text, self._is_refusal = text + refusal, True
            if message.get("tool_calls") or message.get("function_call"):
                self._size += self._add_tool_calls(message, are_whole=part == "message")
        self._count_characters(len(text) + len(thinking))
        finish_reason = _finish_reason(choice.get("finish_reason"))
        self._finish_reason = finish_reason or self._finish_reason
        path, self._schema_path = self._schema_path, None
        reason = self._reason if finish_reason or refusal else None
        model = _typed(envelope, "model", str)
        # by position: keyword arguments take longer than the rest of this function
        return Delta(text, thinking, (), reason, _usage(envelope.get("usage")), model, path)

    def _add_tool_calls(self, message: Mapping[str, Any], *, are_whole: bool) -> int:
        if self._tool_calls is None:
            self._tool_calls = ToolCalls()
        if calls := message.get("tool_calls"):
            return self._tool_calls.add(calls, are_whole=are_whole)
        return self._tool_calls.add_legacy(message["function_call"])

    def _count_characters(self, characters: int) -> None:
        self._size += characters
        if self._size > MAX_ANSWER:
            raise ProviderInvalidResponse(f"the answer has more than {MAX_ANSWER:,} characters")

    def _text(self, key: str, message: Mapping[str, Any]) -> str:
        piece = message.get(key)
        if not piece:
            return ""
        if not isinstance(piece, str):
            raise ProviderInvalidResponse(f"{key!r} is {type(piece).__name__}, expected str")
        return self._texts[key].take(piece)

    @property
    def _reason(self) -> FinishReason | None:
        """Why the answer ended, as far as is known: servers report refusals and tool calls as "stop"."""
        if self._is_refusal:
            return "content_filter"
        return "tool_calls" if self._tool_calls and self._finish_reason == "stop" else self._finish_reason


class _Frame:
    """What stood around the text of the last event: most servers send the same bytes around every piece.

    Of an event with this frame only the text has to be decoded. Any other event is decoded as a whole, and
    then its frame is the one that counts: what `raw` has is from the latest event.
    """

    def __init__(self) -> None:
        self.model: str | None = None
        self._before: bytes | None = None
        self._after = b""
        self._tries = _FRAMES_TO_TRY

    def text_of(self, event: bytes) -> str | None:
        """The text of an event with this frame, None for any other event."""
        before, after = self._before, self._after
        if before is None or not (event.startswith(before) and event.endswith(after)):
            return None
        try:
            text = orjson.loads(event[len(before) : len(event) - len(after)])
        except orjson.JSONDecodeError:
            return None
        self._tries = _FRAMES_TO_TRY
        return text if isinstance(text, str) else None

    def learn(self, event: bytes, envelope: Mapping[str, Any]) -> None:
        """Look at an event that was decoded as a whole: it has a frame if it has nothing but text."""
        self._before = None
        if not self._tries or not _only_text(envelope) or not (found := _CONTENT.search(event)):
            return
        self._tries -= 1
        before, after = event[: found.start(1)], event[found.end(1) :]
        # the proof that it is the text which stands there, and not the content of another object: the text of
        # this event is not empty
        if _only_text(_object(before + b'""' + after)) == "":
            self.model, self._before, self._after = envelope.get("model"), before, after


def _only_text(envelope: Mapping[str, Any]) -> str | None:
    """The text of a valid event that brings nothing else which is new; None for any other event."""
    choice = _first_choice(envelope.get("choices") or [])
    message = choice.get("delta") or {}
    has_more = choice.get("finish_reason") not in _NOT_FINISHED or choice.get("logprobs")
    if has_more or envelope.get("usage") or not message.keys() <= _PLAIN:
        return None
    text = message.get("content")
    return text if isinstance(text, str) else None


def refused_answer(refusal: ServerRefusal, *, has_begun: bool, path: SchemaPath | None) -> Delta:
    """The end of an answer that the server refuses because of its form, or all of it if nothing has come yet.

    Unless its tokens were spent, its text decides whether it is complete.
    """
    text = "" if has_begun else refusal.failed_generation or ""
    reason: FinishReason | None = "length" if "completion tokens" in refusal.words else None
    return Delta(text=text, finish_reason=reason, schema_path=None if has_begun else path)


def _first_choice(choices: list[Any]) -> Mapping[str, Any]:
    """The choice with index 0; further ones are ignored."""
    for choice in choices:
        if not isinstance(choice, dict):
            raise ProviderInvalidResponse(f"a choice is {type(choice).__name__}, expected dict")
        if not choice.get("index"):
            return choice
    return {}


def _finish_reason(value: Any) -> FinishReason | None:
    if value in _NOT_FINISHED:
        return None
    return _FINISH_REASONS.get(value.lower(), "error") if isinstance(value, str) else "error"


def _usage(value: Any) -> Usage | None:
    """The counters; None for each that is not a count, and None where there is no count at all."""
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
        try:
            value = json.loads(data)  # half a surrogate pair, whose other half is in another event
        except (ValueError, RecursionError):
            raise ProviderInvalidResponse(f"not JSON: {excerpt(data)}") from None
    if isinstance(value, list) and len(value) == 1:  # an error of Gemini's
        value = value[0]
    if not isinstance(value, dict):
        raise ProviderInvalidResponse(f"not a JSON object: {excerpt(data)}")
    return value


def _typed(value: Mapping[str, Any], key: str, type_: type) -> Any:
    found = value.get(key)
    if found is None or isinstance(found, type_):
        return found
    raise ProviderInvalidResponse(f"{key!r} is {type(found).__name__}, expected {type_.__name__}")
