"""Accumulates the deltas of one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, SchemaPath, ToolCall
from trustgraph_prompt.llm.token_estimates import estimate_usage
from trustgraph_prompt.reader import CallReport, Outcome, ReadReport


class DeltaAccumulator:
    """What has come of one answer so far; None is not known yet."""

    def __init__(self) -> None:
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.usage = Usage()
        self.model: str | None = None
        self.schema_path: SchemaPath | None = None
        self.raw: Mapping[str, Any] = {}
        self._finish_reason: FinishReason | None = None
        self._text: list[str] = []
        self._thinking: list[str] = []

    def take(self, delta: Delta) -> None:
        """Add a delta."""
        if delta.text:
            self._text.append(delta.text)
        if delta.thinking:
            self._thinking.append(delta.thinking)
        self.tool_calls += delta.tool_calls
        self._finish_reason = delta.finish_reason or self._finish_reason
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
        """The model's reasoning, which is not part of the content."""
        return "".join(self._thinking)

    def text_tail(self, length: int) -> str:
        """The last characters of the content."""
        return _tail(self._text, length)

    def thinking_tail(self, length: int) -> str:
        """The last characters of the reasoning."""
        return _tail(self._thinking, length)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped; "tool_calls" even if the server says "stop" of a tool that was forced."""
        if self.tool_calls and self._finish_reason in (None, "stop"):
            return "tool_calls"
        return self._finish_reason

    @property
    def has_ended(self) -> bool:
        """Whether the answer is complete: errors after its finish reason and tool calls do no harm."""
        reason = self._finish_reason
        return reason is not None and (reason != "tool_calls" or bool(self.tool_calls))

    def report(
        self, why: str, error: str | None, cost: float | None = None, read: ReadReport | None = None
    ) -> CallReport:
        """The report of the call; `error` is what ended it, if it did not end by itself."""
        return CallReport(
            why,
            self.text,
            finish_reason=self.finish_reason,
            usage=self.usage,
            model=self.model,
            error=error,
            schema_path=self.schema_path,
            cost=cost,
            read=read,
        )

    def explained(self, outcome: Outcome) -> Outcome:
        """The outcome of the text, with what else the provider says about an answer without a value."""
        if not outcome.ok and self.finish_reason == "content_filter":
            words = f": {excerpt(self.text)}" if self.text.strip() else ""
            issue = Issue(Reason.REFUSED, f"the model or a content filter refused to answer{words}")
            return replace(outcome, issues=(issue,))
        if outcome.reason is not Reason.EMPTY or not (why := self._why_empty()):
            return outcome
        return replace(outcome, issues=(Issue(Reason.EMPTY, f"the answer is empty: {why}"),))

    def _why_empty(self) -> str:
        if self.finish_reason == "length":
            tokens = self.usage.completion_tokens
            spent = "its tokens" if tokens is None else f"its {tokens:,} tokens"
            whither = "went into thinking" if self.thinking else "were spent before it began, as by thinking"
            return f"{spent} {whither}; allow more (`max-tokens`), or less thinking (`reasoning_effort`)"
        return "the server sent nothing but thinking" if self.thinking.strip() else ""

    def usage_of(self, call: Call) -> Usage:
        """The tokens of the call: as reported, else estimated; none if it failed before it began."""
        if self.usage.tokens:
            return self.usage
        written = self.thinking + self.text
        has_begun = written or self.tool_calls or self._finish_reason
        return estimate_usage(call, written, self.tool_calls) if has_begun else Usage()


def _tail(pieces: Sequence[str], length: int) -> str:
    start, found = len(pieces), 0
    while start and found < length:
        start -= 1
        found += len(pieces[start])
    return "".join(pieces[start:])[-length:]
