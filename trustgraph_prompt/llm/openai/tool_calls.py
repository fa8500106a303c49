"""Puts the tool calls of an answer together from their pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trustgraph_prompt.errors import ProviderInvalidResponse, excerpt
from trustgraph_prompt.llm.records import FinishReason, ToolCall
from trustgraph_prompt.reader.decode import NotJson, decode


class TextAssembler:
    """Takes the pieces of a text and gives what is whole of it."""

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """What is whole so far; half a character without its other half becomes U+FFFD."""
        text = self._half + piece
        if text.isascii():
            return text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return well_formed(text.removesuffix(self._half))

    def end(self) -> str:
        """What is left of it when nothing more comes."""
        half, self._half = self._half, ""
        return well_formed(half)


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs put together, and U+FFFD for those that are alone."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


#: Tool calls of one answer.
MAX_TOOL_CALLS = 1_000


class ToolCalls:
    """The tool calls of one answer while it comes, in the order of their `index`."""

    def __init__(self) -> None:
        self.size = 0  # characters
        self._are_legacy = False
        self._calls: list[_Call] = []
        self._last: dict[int, _Call] = {}  # of each index
        self._problem = ""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: Any, *, are_whole: bool) -> None:
        """What an event has under `tool_calls`, or the whole body. What is wrong with it shows at the end."""
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
                call = self._begun(index)
            self.size += call.take(id, name, arguments)

    def add_legacy(self, function: Any) -> None:
        """The same of `function_call`, as it was called before there were several at a time."""
        self._are_legacy = True
        self.add([{"index": 0, "id": "call_0", "function": function}], are_whole=False)

    def whole(self, finish_reason: FinishReason | None) -> tuple[ToolCall, ...]:
        """The calls, once the answer has ended; arguments are None where they cannot be read.

        Raises `ProviderInvalidResponse` for what is no tool call at all, except under the finish reason
        "error" (specification, section 3).
        """
        is_all = finish_reason not in ("length", "error")
        calls = tuple(call.read(is_all) for call in self._in_order())
        if finish_reason == "error":
            return calls
        if self._problem:
            raise ProviderInvalidResponse(self._problem)
        for call in calls:
            if not call.id or not call.name:
                what = "name" if call.id else "id"
                raise ProviderInvalidResponse(f"a tool call has no {what}: {excerpt(repr(call))}")
        return calls

    def wire(self) -> dict[str, Any]:
        """What the message of a whole body says of them."""
        calls = [call.wire() for call in self._in_order()]
        if self._are_legacy:
            return {"function_call": calls[0]["function"]}
        return {"tool_calls": calls} if calls else {}

    def _in_order(self) -> list[_Call]:
        return sorted(self._calls, key=lambda call: call.index)

    def _index(self, told: Any, name: str) -> int:
        """Which call a piece is of; where the server does not say, a call begins with its name."""
        if isinstance(told, int):
            return told
        return max(self._last, default=-1) + bool(name or not self._last)

    def _begun(self, index: int) -> _Call:
        if len(self._calls) == MAX_TOOL_CALLS:
            raise ProviderInvalidResponse(f"more than {MAX_TOOL_CALLS:,} tool calls")
        call = self._last[index] = _Call(index)
        self._calls.append(call)
        return call

    def _typed(self, what: str, found: Any, kind: type) -> Any:
        if found is None or isinstance(found, kind):
            return found
        self._problem = self._problem or f"{what} is {type(found).__name__}, expected {kind.__name__}"
        return None


@dataclass(slots=True)
class _Call:
    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    def take(self, id: str, name: str, arguments: str) -> int:
        """A piece of the call, and the size of what is new; only arguments come in pieces."""
        before = len(self.id) + len(self.name)
        self.id, self.name = self.id or id, self.name or name
        self.pieces.append(arguments)
        return len(self.id) + len(self.name) - before + len(arguments) + 1

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        return well_formed("".join(self.pieces))

    def read(self, is_all: bool) -> ToolCall:
        """The call as a record; no arguments are none where they are all there."""
        text = self.text
        try:
            value = {} if is_all and not text.strip() else decode(text)
        except NotJson:
            value = None
        return ToolCall(self.id, self.name, value if isinstance(value, dict) else None, text)

    def wire(self) -> Mapping[str, Any]:
        """The call as a whole body has it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.text}}
