"""Assembles an answer from its pieces: texts, tool calls, and the response body that `raw` holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trustgraph_prompt.errors import ProviderInvalidResponse, excerpt
from trustgraph_prompt.llm.records import FinishReason, ToolCall
from trustgraph_prompt.reader.decode import NotJson, decode

#: Tool calls of one answer.
MAX_TOOL_CALLS = 1_000

#: Bytes of data besides the answer (log probabilities and the like) after which their size is measured. At
#: most half of them may be in use, so that measuring is rare.
MAX_BESIDES = 64 * 1024 * 1024


class TextAssembler:
    """Assembles a text, and joins the halves of surrogate pairs that a server splits between two pieces."""

    def __init__(self) -> None:
        self._half = ""
        self._pieces: list[str] = []

    def take(self, piece: str) -> str:
        """The complete characters so far; half a pair without its other half becomes U+FFFD."""
        text = self._half + piece
        if not text.isascii():
            self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
            text = well_formed(text.removesuffix(self._half))
        self._pieces.append(text)
        return text

    def end(self) -> str:
        """What is left when no more pieces come."""
        half, self._half = well_formed(self._half), ""
        self._pieces.append(half)
        return half

    def whole(self) -> str:
        """The text so far."""
        return "".join(self._pieces)


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD for unpaired surrogates."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def joined_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with its list of content parts as texts, under the keys of plain messages.

    Mistral nests the text of a thinking part in a list of parts once more; other servers do not. A part
    without text, such as a reference, says nothing.
    """
    texts: dict[str, list[str]] = {"content": []}
    for part in message["content"]:
        kind = part.get("type") if isinstance(part, dict) else "text"
        texts.setdefault(_PART_KEYS.get(str(kind), "content"), []).append(_part_text(part))
    return {**message, **{key: "".join(pieces) for key, pieces in texts.items()}}


#: Where a plain message has what a part of this type says.
_PART_KEYS = {"thinking": "reasoning_content", "reasoning": "reasoning_content", "refusal": "refusal"}


def _part_text(part: Any) -> str:
    if isinstance(part, dict):
        part = next((part[key] for key in ("text", "thinking", "reasoning", "refusal") if part.get(key)), "")
    if isinstance(part, list):
        inner = (piece.get("text") if isinstance(piece, dict) else piece for piece in part)
        return "".join(text for text in inner if isinstance(text, str))
    return part if isinstance(part, str) else ""


class ToolCalls:
    """The tool calls of one answer as they arrive, in the order of their `index`."""

    def __init__(self) -> None:
        self._are_legacy = False
        self._calls: list[_PartialCall] = []
        self._last: dict[int, _PartialCall] = {}  # of each index
        self._problem = ""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: Any, *, are_whole: bool) -> int:
        """Take the `tool_calls` of an event, or of a whole body, and return how many characters they add.

        `whole` raises what is wrong with them.
        """
        added = 0
        for position, piece in enumerate(self._typed("'tool_calls'", pieces, list) or []):
            piece = self._typed("a tool call", piece, dict) or {}
            function = self._typed("the function of a tool call", piece.get("function"), dict) or {}
            id, name, arguments = (
                self._typed(f"the {key} of a tool call", of.get(key), str) or ""
                for key, of in (("id", piece), ("name", function), ("arguments", function))
            )
            index = position if are_whole else self._index(piece.get("index"), name)
            call = self._last.get(index)
            # servers repeat ids, or make one up for each piece of the arguments; some know one index only
            if call is None or (call.id and id not in ("", call.id) and (name or not arguments)):
                call = self._new_call(index)
            added += call.take(id, name, arguments)
        return added

    def add_legacy(self, function: Any) -> int:
        """Take a `function_call`, OpenAI's older form of a single tool call."""
        self._are_legacy = True
        return self.add([{"index": 0, "id": "call_0", "function": function}], are_whole=False)

    def whole(self, finish_reason: FinishReason | None) -> tuple[ToolCall, ...]:
        """The calls, once the answer has ended; `arguments` are None where they are not a JSON object.

        Raises `ProviderInvalidResponse` for malformed tool calls, except under the finish reason "error"
        (OpenArmature, section 3).
        """
        is_complete = finish_reason not in ("length", "error")
        calls = tuple(call.record(is_complete) for call in self._in_order())
        if finish_reason == "error":
            return calls
        if self._problem:
            raise ProviderInvalidResponse(self._problem)
        for call in calls:
            if not call.id or not call.name:
                missing = "name" if call.id else "id"
                raise ProviderInvalidResponse(f"a tool call has no {missing}: {excerpt(repr(call))}")
        return calls

    def wire(self) -> dict[str, Any]:
        """What the message of a whole body says of them."""
        calls = [call.wire() for call in self._in_order()]
        if self._are_legacy:
            return {"function_call": calls[0]["function"]}
        return {"tool_calls": calls} if calls else {}

    def _in_order(self) -> list[_PartialCall]:
        return sorted(self._calls, key=lambda call: call.index)

    def _index(self, index: Any, name: str) -> int:
        """The index of the call that a piece belongs to; without one, a name begins a new call."""
        if isinstance(index, int):
            return index
        return max(self._last, default=-1) + bool(name or not self._last)

    def _new_call(self, index: int) -> _PartialCall:
        if len(self._calls) == MAX_TOOL_CALLS:
            raise ProviderInvalidResponse(f"more than {MAX_TOOL_CALLS:,} tool calls")
        call = self._last[index] = _PartialCall(index)
        self._calls.append(call)
        return call

    def _typed(self, where: str, found: Any, type_: type) -> Any:
        if found is None or isinstance(found, type_):
            return found
        self._problem = self._problem or f"{where} is {type(found).__name__}, expected {type_.__name__}"
        return None


@dataclass(slots=True)
class _PartialCall:
    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    def take(self, id: str, name: str, arguments: str) -> int:
        """Add a piece of the call and return the size of what is new; only arguments come in pieces."""
        before = len(self.id) + len(self.name)
        self.id, self.name = self.id or id, self.name or name
        self.pieces.append(arguments)
        return len(self.id) + len(self.name) - before + len(arguments) + 1

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        return well_formed("".join(self.pieces))

    def record(self, is_complete: bool) -> ToolCall:
        """The call as a record; empty arguments of a complete call are an empty object."""
        text = self.text
        try:
            value = {} if is_complete and not text.strip() else decode(text)
        except NotJson:
            value = None
        return ToolCall(self.id, self.name, value if isinstance(value, dict) else None, text)

    def wire(self) -> Mapping[str, Any]:
        """The call as a whole body has it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.text}}


class Body:
    """The response body from the chunks of one choice: the last value of each key."""

    def __init__(self) -> None:
        self._envelope: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._logprobs: dict[str, list[Any]] = {}
        self._finish_reason: Any = None
        self._usage: Any = None
        self._size = 0  # bytes, at most, of what is kept

    @property
    def has_choice(self) -> bool:
        """Whether any chunk had a choice."""
        return bool(self._choice)

    def add(
        self, envelope: Mapping[str, Any], choice: Mapping[str, Any], message: Mapping[str, Any], size: int
    ) -> None:
        """Take a chunk of `size` bytes, its first choice and the delta of that."""
        self._envelope.update(envelope)
        self._choice.update(choice)
        self._message.update(message)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        self._usage = envelope.get("usage") or self._usage
        logprobs = choice.get("logprobs")
        for key, tokens in logprobs.items() if isinstance(logprobs, dict) else ():
            if isinstance(tokens, list):
                self._logprobs.setdefault(key, []).extend(tokens)
        self._size += size
        if self._size > MAX_BESIDES:
            self._measure()

    def whole(self, texts: Mapping[str, str], tool_calls: Mapping[str, Any]) -> dict[str, Any]:
        """The body, with the usage as it came; `texts` and `tool_calls` are merged into its message."""
        message = {**self._message, **texts, **tool_calls}
        choice = self._choice | {"message": message, "finish_reason": self._finish_reason}
        choice.pop("delta", None)
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        body = self._envelope | {"object": "chat.completion", "choices": [choice]}
        body.pop("usage", None)
        return body if self._usage is None else body | {"usage": self._usage}

    def _measure(self) -> None:
        """Measure what is kept: later chunks have replaced most of what came before."""
        try:
            self._size = len(json.dumps((self._envelope, self._choice, self._message, self._logprobs)))
        except RecursionError:
            self._size = MAX_BESIDES
        if self._size > MAX_BESIDES // 2:
            raise ProviderInvalidResponse(f"more than {MAX_BESIDES // 2:,} bytes of data besides the answer")
