"""One completion while it is under way: its attempts, what came, and the verdict on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import (
    Issue,
    ProviderError,
    ProviderInvalidResponse,
    Reason,
    StructuredOutputInvalid,
)
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, Message, SchemaPath, Tool, ToolCall
from trustgraph_prompt.llm.response import Response
from trustgraph_prompt.llm.retry import RetryPolicy
from trustgraph_prompt.llm.tokens import estimate_usage
from trustgraph_prompt.reader import CallReport, Outcome, Stage, read

Stream = Callable[[Call], AsyncGenerator[Delta, None]]
ListenToDeltas = Callable[[Delta], Awaitable[None]]

_ONCE = RetryPolicy(max_attempts=1)


class Completion:
    """Asks as often as the policy allows; `calls` are those that were made.

    `extract` says that the contract's value may stand within other text.
    """

    def __init__(
        self,
        stream: Stream,
        call: Call,
        contract: Contract | None,
        extract: bool,
        retry: RetryPolicy | None,
        listen: ListenToDeltas | None,
    ) -> None:
        self.calls: list[CallReport] = []
        self._stream = stream
        self._call = call
        self._contract = contract
        self._extract = extract
        self._retry = retry or _ONCE
        self._listen = listen
        self._messages = list(call.messages)
        self._wrong: StructuredOutputInvalid | None = None
        self._heard = False  # text, by the listener, of the last attempt
        self._tokens = 0

    async def response(self) -> Response[Any]:
        """The first answer that is as asked. Raises the error of the last attempt."""
        policy = replace(self._retry, classifier=self._is_worth_another)
        return await policy.run(self._attempt)

    def _is_worth_another(self, error: Exception) -> bool:
        policy = self._retry
        if policy.tokens is not None and self._tokens >= policy.tokens:
            return False
        if policy.reask is not None and isinstance(error, StructuredOutputInvalid):
            return True
        return not self._heard and policy.classifier(error)

    async def _attempt(self) -> Response[Any]:
        attempt, why = len(self.calls), "transient" if self.calls else "first"
        if self._retry.reask is not None and (wrong := self._wrong) is not None:
            self._wrong, why = None, "invalid"
            said = [Message("assistant", wrong.output_content)] if wrong.output_content.strip() else []
            self._messages += [*said, Message("user", self._retry.reask(wrong))]
        call = replace(
            self._call,
            messages=tuple(self._messages),
            config=self._retry.config(self._call.config, attempt),
            labels={"why": why, "attempt": str(attempt)},
        )
        answer = _Answer()
        self._heard = False
        try:
            try:
                async with aclosing(self._stream(call)) as deltas:
                    async for delta in deltas:
                        answer.take(delta)
                        if self._call.stream and self._listen is not None:
                            self._heard = self._heard or bool(delta.text)
                            await self._listen(delta)
            finally:
                usage = answer.usage or Usage()
                self.calls.append(CallReport(why, answer.text, answer.finish_reason, usage, answer.model))
                written = answer.thinking + answer.text
                self._tokens += (usage if usage.tokens else estimate_usage(call, written)).tokens
            return self._judged(answer)
        except ProviderError as error:
            self.calls[-1] = replace(self.calls[-1], error=f"{error.category}: {error}")
            raise
        except StructuredOutputInvalid as error:
            self._wrong = error
            raise

    def _judged(self, answer: _Answer) -> Response[Any]:
        if answer.finish_reason != "error":
            for tool_call in answer.tool_calls:
                _check(tool_call, self._call.tools, answer.finish_reason)
        response: Response[Any] = Response(
            Message("assistant", answer.text, answer.tool_calls),
            "tool_calls"
            if answer.tool_calls and answer.finish_reason in (None, "stop")
            else answer.finish_reason,
            Usage.sum(call.usage for call in self.calls),
            dict(answer.raw),
            model=answer.model,
            thinking=answer.thinking,
            schema_path=answer.schema_path,
            calls=tuple(self.calls),
        )
        if self._contract is None or answer.tool_calls:
            return response
        outcome = _read(answer, self._contract, self._extract)
        outcome = replace(outcome, calls=tuple(self.calls))
        return replace(response, parsed=self._contract.build(outcome.unwrap()), stage=outcome.stage)


class _Answer:
    """What came of one call."""

    def __init__(self) -> None:
        self.text = ""
        self.thinking = ""
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.finish_reason: FinishReason | None = None
        self.usage: Usage | None = None
        self.model: str | None = None
        self.schema_path: SchemaPath | None = None
        self.raw: Any = {}

    def take(self, delta: Delta) -> None:
        self.text += delta.text
        self.thinking += delta.thinking
        self.tool_calls += delta.tool_calls
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.usage = delta.usage or self.usage
        self.model = delta.model or self.model
        self.schema_path = delta.schema_path or self.schema_path
        self.raw = delta.raw or self.raw


def _read(answer: _Answer, contract: Contract, extract: bool) -> Outcome:
    """What the content says."""
    outcome = read(answer.text, contract, finish_reason=answer.finish_reason)
    if answer.finish_reason == "content_filter":
        return _refused(outcome, Reason.REFUSED, "the model, or a filter, would not answer")
    if extract:
        return outcome
    if answer.finish_reason == "length":
        return _refused(outcome, Reason.TRUNCATED, "the answer was cut at the limit of its tokens")
    if outcome.stage is Stage.EXTRACTED:
        return _refused(outcome, Reason.INVALID_JSON, "no JSON: there is other text around the value")
    return outcome


def _refused(outcome: Outcome, reason: Reason, message: str) -> Outcome:
    issues = (Issue(reason, message), *outcome.issues)
    return replace(outcome, value=None, reason=reason, issues=issues)


def _check(call: ToolCall, tools: Any, finish_reason: FinishReason | None) -> None:
    """Raises `ProviderInvalidResponse` for a call of an unknown tool, or with arguments it does not take."""
    tool: Tool | None = next((tool for tool in tools if tool.name == call.name), None)
    cut = " (the answer was cut)" if finish_reason == "length" else ""
    if tool is None:
        raise ProviderInvalidResponse(f"the model calls {call.name!r}, which is none of the tools")
    if call.arguments is None:
        raise ProviderInvalidResponse(f"the arguments for {call.name!r} are no JSON object{cut}")
    issues = Contract.from_schema(tool.parameters).issues(call.arguments)
    if issues:
        raise ProviderInvalidResponse(f"the arguments for {call.name!r} are wrong: {issues[0]}{cut}")
