"""The tool calls of an answer: put together from their pieces, and held to the tools that were offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import (
    ContractError,
    ProviderInvalidRequest,
    ProviderInvalidResponse,
    excerpt,
)
from trustgraph_prompt.llm.records import FinishReason, Tool, ToolCall
from trustgraph_prompt.reader.decode import NotJson, decode

#: Tool calls of one answer.
MAX_TOOL_CALLS = 1_000

Contracts = Mapping[str, Contract]


def contracts(tools: Sequence[Tool]) -> Contracts:
    """What the arguments of each tool must be. Raises `ProviderInvalidRequest` for a schema that is none."""
    made = {}
    for tool in tools:
        try:
            made[tool.name] = Contract.from_schema(tool.parameters, name=tool.name)
        except ContractError as error:
            raise ProviderInvalidRequest(f"tool {tool.name!r}: {error.at('', '/parameters')}") from error
    return made


class ToolCalls:
    """The tool calls of one answer while it comes, in the order of their `index`."""

    def __init__(self, contracts: Contracts) -> None:
        self.size = 0  # characters
        self._contracts = contracts
        self._are_legacy = False
        self._calls: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: Any, *, are_whole: bool) -> None:
        """What an event has under `tool_calls`, or the whole body. What is wrong with it shows at the end."""
        if not isinstance(pieces, list):
            self._at(0).problem = f"'tool_calls' is {type(pieces).__name__}, expected list"
            return
        for position, piece in enumerate(pieces):
            if isinstance(piece, dict):
                call = self._at(position if are_whole else self._index(piece))
                self.size += call.take(piece.get("id"), piece.get("function"))
            else:
                self._at(position).problem = f"a tool call is {type(piece).__name__}, expected dict"

    def add_legacy(self, function: Any) -> None:
        """The same of `function_call`, as it was called before there were several at a time."""
        self._are_legacy = True
        self.size += self._at(0).take("call_0", function)

    def whole(self, finish_reason: FinishReason | None) -> tuple[ToolCall, ...]:
        """The calls, once the answer has ended.

        Raises `ProviderInvalidResponse` for one that is malformed, names no tool or has arguments that its
        tool does not take; but under the finish reason "error" gives what there is, with arguments None
        where they cannot be read (specification, section 3).
        """
        calls = [call for _, call in sorted(self._calls.items())]
        if finish_reason == "error":
            return tuple(ToolCall(call.id, call.name, call.readable()) for call in calls)
        try:
            return tuple(self._checked(call, finish_reason != "length") for call in calls)
        except _Malformed as error:
            why = ", for the answer was cut at its limit" if finish_reason == "length" else ""
            raise ProviderInvalidResponse(f"{error}{why}") from None

    def wire(self) -> dict[str, Any]:
        """What the message of a whole body says of them."""
        calls = [call.wire() for _, call in sorted(self._calls.items())]
        if self._are_legacy:
            return {"function_call": calls[0]["function"]}
        return {"tool_calls": calls} if calls else {}

    def _checked(self, call: _Call, is_all: bool) -> ToolCall:
        if call.problem:
            raise _Malformed(call.problem)
        arguments = call.arguments(are_all=is_all)
        if not call.id:
            raise _Malformed(f"a call of {call.name!r} has no id")
        contract = self._contracts.get(call.name)
        if contract is None:
            offered = ", ".join(self._contracts) or "none"
            raise _Malformed(f"the model calls {excerpt(call.name, 80)!r}, and the tools are: {offered}")
        if issues := contract.issues(arguments):
            said = "; ".join(map(str, issues))
            raise _Malformed(f"the arguments of {call.name!r} are not what it takes: {excerpt(said)}")
        return ToolCall(call.id, call.name, arguments)

    def _index(self, piece: Mapping[str, Any]) -> int:
        """Which call a piece is of; where the server does not say, a call begins with its name."""
        if isinstance(index := piece.get("index"), int):
            return index
        function = piece.get("function")
        begins = not self._calls or (isinstance(function, dict) and bool(function.get("name")))
        return max(self._calls, default=-1) + begins

    def _at(self, index: int) -> _Call:
        if index not in self._calls:
            if len(self._calls) == MAX_TOOL_CALLS:
                raise ProviderInvalidResponse(f"more than {MAX_TOOL_CALLS:,} tool calls")
            self._calls[index] = _Call()
        return self._calls[index]


class _Malformed(ValueError):
    """What is wrong with a tool call."""


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    problem: str = ""

    def take(self, id: Any, function: Any) -> int:
        """A piece of the call, and its size; servers repeat what they have said, except for the arguments."""
        if not isinstance(function, dict):
            self.problem = "a tool call has no function"
            return 0
        name, arguments = function.get("name"), function.get("arguments")
        self.id = self.id or self._text("id", id)
        self.name = self.name or self._text("name", name)
        self.pieces.append(self._text("arguments", arguments))
        return len(self.pieces[-1]) + 1

    def arguments(self, *, are_all: bool = True) -> dict[str, Any]:
        """The arguments; none at all are none where they are all there. Raises `_Malformed`."""
        text = "".join(self.pieces)
        if are_all and not text.strip():
            return {}
        try:
            value = decode(text)
        except NotJson as error:
            raise _Malformed(
                f"the arguments of {self.name!r} are no JSON: {error}: {excerpt(text)}"
            ) from None
        if not isinstance(value, dict):
            raise _Malformed(f"the arguments of {self.name!r} are no object: {excerpt(text)}")
        return value

    def readable(self) -> dict[str, Any] | None:
        """The arguments where they can be read."""
        try:
            return self.arguments(are_all=False)
        except _Malformed:
            return None

    def _text(self, key: str, value: Any) -> str:
        if value is not None and not isinstance(value, str):
            self.problem = f"the {key} of a tool call: {type(value).__name__}, expected str"
        return value if isinstance(value, str) else ""

    def wire(self) -> dict[str, Any]:
        """The call as a whole body has it."""
        function = {"name": self.name, "arguments": "".join(self.pieces)}
        return {"id": self.id, "type": "function", "function": function}
