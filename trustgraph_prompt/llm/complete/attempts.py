"""One completion while it is under way: its attempts, what came of each, and the verdict on it."""

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
    """Makes a call as often as the policy allows, until its answer is what is expected."""

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
        self._wrong: StructuredOutputInvalid | None = None  # what the model is told of next

    async def response(self) -> Response[Any]:
        """The first answer that is as asked.

        Raises the error of the last attempt; it knows all calls that were made, and what they cost together.
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
        was_heard = self._listen is not None and self._last.text
        return error is self._wrong or (not was_heard and self._policy.classifier(error))

    async def _attempt(self) -> Response[Any]:
        attempt, why = len(self._calls), "transient" if self._calls else "first"
        if self._policy.reask is not None and self._wrong is not None:
            why, words = "invalid", self._policy.reask(self._wrong)
            self._messages += _reasked(self._wrong.output_content, text(words, "reask"))
            self._wrong = None
        call = replace(
            self._call,
            messages=tuple(self._messages),
            config=self._policy.config(self._call.config, attempt),
            labels={"why": why},
        )
        answer = self._last = DeltaAccumulator()
        problem: str | None = None
        try:
            problem = await self._hear(call, answer)
            await check_tool_calls(answer, self._tools)
        except ProviderError as error:
            problem = _named(error)
            raise
        except asyncio.CancelledError:
            problem = "left before it ended"
            raise
        finally:
            self._calls.append(answer.report(why, problem))
            self._tokens += answer.tokens(call)
        try:
            return await self._judged(answer)
        except StructuredOutputInvalid as error:
            if self._policy.reask is not None and not transient(error):
                self._wrong = error
            raise

    async def _hear(self, call: Call, answer: DeltaAccumulator) -> str | None:
        """Take in the whole stream; what broke once the answer had ended is told, and no failure."""
        try:
            async with aclosing(self._stream(call)) as deltas:
                async for delta in deltas:
                    answer.take(delta)
                    if self._listen is not None:
                        await self._listen(delta)
        except ProviderError as error:
            if not answer.has_ended:
                raise
            return _named(error)
        return None

    async def _judged(self, answer: DeltaAccumulator) -> Response[Any]:
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


def _named(error: ProviderError) -> str:
    return f"{error.category}: {error}"


def _reasked(answer: str, words: str) -> list[Message]:
    """What is said next; an assistant that said nothing has no message."""
    said = [Message("assistant", answer)] if answer.strip() else []
    return [*said, Message("user", words)]
