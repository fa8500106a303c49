"""What came of one call, put together, and the verdict on it (seed 2, sections 3, 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import (
    Issue,
    ProviderInvalidResponse,
    ProviderUnavailable,
    Reason,
    StructuredOutputInvalid,
)
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, SchemaPath, Tool, ToolCall
from trustgraph_prompt.llm.tokens import estimate_usage
from trustgraph_prompt.reader import CallReport, Outcome, Stage, read


@dataclass(frozen=True, slots=True)
class Expected:
    """Of what contract the content is a value.

    It must be the value and nothing else, and whole, unless `extract` leaves both to the contract.
    """

    contract: Contract
    extract: bool


class Answer:
    """Takes deltas until there are no more; what is None has not been said."""

    def __init__(self) -> None:
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.usage: Usage | None = None
        self.model: str | None = None
        self.schema_path: SchemaPath | None = None
        self.raw: Mapping[str, Any] = {}
        self._said: FinishReason | None = None
        self._text: list[str] = []
        self._thinking: list[str] = []

    def take(self, delta: Delta) -> None:
        """Add what has just become known."""
        self._text.append(delta.text)
        self._thinking.append(delta.thinking)
        self.tool_calls += delta.tool_calls
        self._said = delta.finish_reason or self._said
        self.usage = delta.usage or self.usage
        self.model = delta.model or self.model
        self.schema_path = delta.schema_path or self.schema_path
        self.raw = delta.raw or self.raw

    @property
    def text(self) -> str:
        """The content, byte for byte."""
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        """What the model thought, which is no part of the content."""
        return "".join(self._thinking)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped. Servers say "stop" of a tool that they were told to call: it is a call."""
        return "tool_calls" if self.tool_calls and self._said in (None, "stop") else self._said

    def report(self, why: str, error: str | None) -> CallReport:
        """The call as it stands among all that were made; `error` is why it did not end by itself."""
        return CallReport(
            why,
            self.text,
            finish_reason=self.finish_reason,
            usage=self.usage or Usage(),
            model=self.model,
            error=error,
            schema_path=self.schema_path,
        )

    def tokens(self, call: Call) -> int:
        """What the call took: as reported, else estimated, and nothing where it failed before it began."""
        if self.usage is not None and self.usage.tokens:
            return self.usage.tokens
        written = self.thinking + self.text
        return estimate_usage(call, written).tokens if written or self._said else 0

    def check_tool_calls(self, tools: Sequence[Tool]) -> None:
        """Raises `ProviderInvalidResponse` for a call that no tool takes, unless the provider broke off."""
        if self.finish_reason == "error":
            return
        offered = {tool.name: tool for tool in tools}
        cut = "; the answer was cut" if self.finish_reason == "length" else ""
        for call in self.tool_calls:
            if call.name not in offered:
                raise ProviderInvalidResponse(f"the model calls {call.name!r}, which is none of the tools")
            if call.arguments is None:
                raise ProviderInvalidResponse(f"the arguments for {call.name!r} are no JSON object{cut}")
            if issues := Contract.from_schema(offered[call.name].parameters).issues(call.arguments):
                raise ProviderInvalidResponse(f"the arguments for {call.name!r} are wrong: {issues[0]}{cut}")

    def read(self, expected: Expected) -> Outcome:
        """What the content says; an instance where the contract is of a type."""
        outcome = read(self.text, expected.contract, finish_reason=self.finish_reason)
        native = outcome.stage is Stage.DIRECT and self.schema_path in ("strict", "native")
        match self.finish_reason:
            case "content_filter":
                return _refused(outcome, Reason.REFUSED, "the model, or a filter, would not answer")
            case "length" if not expected.extract:
                return _refused(outcome, Reason.TRUNCATED, "the answer was cut at the limit of its tokens")
            case "error" if not outcome.ok:
                return replace(outcome, cause=ProviderUnavailable("the provider broke off the answer"))
        if outcome.stage is Stage.EXTRACTED and not expected.extract:
            return _refused(outcome, Reason.INVALID_JSON, "no JSON: there is other text around the value")
        if not outcome.ok:
            return outcome
        try:
            value = expected.contract.build(outcome.value)
        except StructuredOutputInvalid as error:
            return replace(
                outcome, value=None, reason=error.issues[0].reason, issues=error.issues, cause=error
            )
        return replace(outcome, value=value, stage=Stage.NATIVE if native else outcome.stage)


def _refused(outcome: Outcome, reason: Reason, message: str) -> Outcome:
    return replace(outcome, value=None, reason=reason, issues=(Issue(reason, message), *outcome.issues))
