"""What has come of one answer so far: the one place where deltas are put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, SchemaPath, ToolCall
from trustgraph_prompt.llm.token_estimates import estimate_usage
from trustgraph_prompt.reader import CallReport


class DeltaAccumulator:
    """Takes deltas until there are no more; what is None has not been said."""

    def __init__(self) -> None:
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.usage = Usage()
        self.model: str | None = None
        self.schema_path: SchemaPath | None = None
        self.raw: Mapping[str, Any] = {}
        self._said: FinishReason | None = None
        self._text: list[str] = []
        self._thinking: list[str] = []

    def take(self, delta: Delta) -> None:
        """Add what has just become known."""
        if delta.text:
            self._text.append(delta.text)
        if delta.thinking:
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

    @property
    def has_ended(self) -> bool:
        """Whether all is there: what breaks after the model has said why it stopped breaks nothing."""
        return self._said is not None and (self._said != "tool_calls" or bool(self.tool_calls))

    def report(self, why: str, error: str | None, cost: float | None = None) -> CallReport:
        """The call as it stands among all that were made; `error` is what broke it."""
        return CallReport(
            why,
            self.text,
            finish_reason=self.finish_reason,
            usage=self.usage,
            model=self.model,
            error=error,
            schema_path=self.schema_path,
            cost=cost,
        )

    def tokens(self, call: Call) -> int:
        """What the call took: as reported, else estimated, and nothing where it failed before it began."""
        if self.usage.tokens:
            return self.usage.tokens
        written = self.thinking + self.text
        has_begun = written or self.tool_calls or self._said
        return estimate_usage(call, written, self.tool_calls).tokens if has_begun else 0
