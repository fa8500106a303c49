"""The attempts of one completion: calls, validation, retries and reasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, StructuredOutputInvalid
from trustgraph_prompt.llm.complete.answer_check import Contracts, Expected, check_tool_calls, read_content
from trustgraph_prompt.llm.complete.message_parsing import text
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.records import Call, Delta, Message
from trustgraph_prompt.llm.response import Response
from trustgraph_prompt.llm.retry import RetryPolicy, transient
from trustgraph_prompt.reader import CallReport

Stream = Callable[[Call], AsyncGenerator[Delta, None]]
ListenToDeltas = Callable[[Delta], Awaitable[None]]


class Completion:
    """Makes a call as often as the policy allows, until its answer is valid."""

    def __init__(
        self,
        stream: Stream,
        call: Call,
        tools: Contracts,
        expected: Expected | None,
        policy: RetryPolicy,
        listen: ListenToDeltas | None,
    ) -> None:
        self._stream = stream
        self._call = call
        self._tools = tools
        self._expected = expected
        self._policy = policy
        self._listen = listen
        self._calls: list[CallReport] = []
        self._messages = list(call.messages)
        self._tokens = 0
        self._last = DeltaAccumulator()
        self._invalid: StructuredOutputInvalid | None = None  # what the next attempt asks to correct

    async def response(self) -> Response[Any]:
        """Return the first valid answer.

        Raises the error of the last attempt, with all calls that were made and their total usage.
        """
        try:
            return await replace(self._policy, classifier=self._is_worth_another).run(self._attempt)
        except (ProviderError, StructuredOutputInvalid) as error:
            error.calls, error.usage = tuple(self._calls), self._usage
            if len(self._calls) > 1:
                error.add_note(f"the last of {len(self._calls)} attempts, which took {self._tokens} tokens")
            raise

    @property
    def _usage(self) -> Usage:
        return Usage.sum(call.usage for call in self._calls)

    def _is_worth_another(self, error: Exception) -> bool:
        if self._policy.tokens is not None and self._tokens >= self._policy.tokens:
            return False
        was_passed_on = self._listen is not None and self._last.text
        return error is self._invalid or (not was_passed_on and self._policy.classifier(error))

    async def _attempt(self) -> Response[Any]:
        attempt, why = len(self._calls), "transient" if self._calls else "first"
        if self._policy.reask is not None and self._invalid is not None:
            why, answer_text = "invalid", self._invalid.output_content
            reask = text(self._policy.reask(self._invalid), "reask")
            if answer_text.strip():  # servers reject an empty message of the assistant's
                self._messages.append(Message("assistant", answer_text))
            self._messages.append(Message("user", reask))
            self._invalid = None
        call = replace(
            self._call,
            messages=tuple(self._messages),
            config=self._policy.config(self._call.config, attempt),
            labels={"why": why},
        )
        answer = self._last = DeltaAccumulator()
        problem: str | None = None
        try:
            problem = await self._receive(call, answer)
            await check_tool_calls(answer, self._tools)
        except ProviderError as error:
            problem = _described(error)
            raise
        except asyncio.CancelledError:
            problem = "cancelled before the answer ended"
            raise
        finally:
            self._calls.append(answer.report(why, problem))
            self._tokens += answer.tokens(call)
        try:
            return await self._checked(answer)
        except StructuredOutputInvalid as error:
            if self._policy.reask is not None and not transient(error):
                self._invalid = error
            raise

    async def _receive(self, call: Call, answer: DeltaAccumulator) -> str | None:
        """Receive the whole stream; an error after the end of the answer is returned instead of raised."""
        try:
            async with aclosing(self._stream(call)) as deltas:
                async for delta in deltas:
                    answer.take(delta)
                    if self._listen is not None:
                        await self._listen(delta)
        except ProviderError as error:
            if not answer.has_ended:
                raise
            return _described(error)
        return None

    async def _checked(self, answer: DeltaAccumulator) -> Response[Any]:
        response: Response[Any] = Response(
            Message("assistant", answer.text, answer.tool_calls),
            answer.finish_reason,
            self._usage,
            dict(answer.raw),
            model=answer.model,
            thinking=answer.thinking,
            schema_path=answer.schema_path,
            calls=tuple(self._calls),
        )
        if self._expected is None or answer.finish_reason == "tool_calls" or answer.tool_calls:
            return response
        outcome = replace(await read_content(answer, self._expected), calls=response.calls)
        return replace(response, parsed=outcome.unwrap(), stage=outcome.stage)


def _described(error: ProviderError) -> str:
    return f"{error.category}: {error}"
