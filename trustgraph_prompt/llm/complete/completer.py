"""The base class of providers: `complete` and its `Response` (OpenArmature) on top of their `stream`."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, StructuredOutputInvalid
from trustgraph_prompt.json_text.thinking import Notation
from trustgraph_prompt.llm.complete import validation
from trustgraph_prompt.llm.complete.answer_check import Contracts, Expected, check_tool_calls, read_content
from trustgraph_prompt.llm.complete.message_parsing import each, text
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, Message, RuntimeConfig, SchemaPath, Tool
from trustgraph_prompt.llm.retry import RetryPolicy, transient
from trustgraph_prompt.reader import CallReport, Stage

T = TypeVar("T")

ONCE = RetryPolicy(max_attempts=1)

Stream = Callable[[Call], AsyncGenerator[Delta, None]]
ListenToDeltas = Callable[[Delta], Awaitable[None]]
Messages = Sequence[Message | Mapping[str, Any]]
Tools = Sequence[Tool | Mapping[str, Any]]


class CompleteOptions(TypedDict, total=False):
    """The keyword options of `complete`."""

    tool_choice: str | Mapping[str, Any] | None
    retry: RetryPolicy | None
    stream: bool
    listen: ListenToDeltas | None


class Completer(Protocol):
    """Adds `complete` to a class with `stream`, and makes it an async context manager that closes it.

    `thinking` is what opens and what closes the thinking in its answers, if the reader does not know that.
    """

    thinking: Notation | None = None

    @abstractmethod
    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer. Raises a `ProviderError`, before the first delta or between two.

        Closing the generator (`aclosing`) aborts the call.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: None = None,
        **options: Unpack[CompleteOptions],
    ) -> Response[None]: ...

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: Mapping[str, Any] = ...,
        **options: Unpack[CompleteOptions],
    ) -> Response[dict[str, Any]]: ...

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: type[T] = ...,
        **options: Unpack[CompleteOptions],
    ) -> Response[T]: ...

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: Contract = ...,
        **options: Unpack[CompleteOptions],
    ) -> Response[Any]: ...

    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: Mapping[str, Any] | type[Any] | Contract | None = None,
        *,
        tool_choice: str | Mapping[str, Any] | None = None,
        retry: RetryPolicy | None = None,
        stream: bool = False,
        listen: ListenToDeltas | None = None,
    ) -> Response[Any]:
        """Return one answer of the model. Arguments are not changed; any number of calls at a time.

        Messages and tools are records, or mappings in OpenAI's format. With a `response_schema` (a JSON
        Schema with an object at its root, a dataclass or a Pydantic model) the whole content must be the
        value, which is `parsed`. With a `Contract` the value is looked for, in fences and prose, and repaired
        as the contract allows. An answer with tool calls is not parsed.

        Makes one attempt, unless `retry` allows more. With `stream` the answer comes over the wire in pieces,
        and `listen` is awaited with each. An attempt of which `listen` received text is not retried after an
        error.

        Raises `ProviderInvalidRequest` before anything is sent, the provider's errors,
        `ProviderInvalidResponse` for tool calls that no tool accepts, and `StructuredOutputInvalid` for
        content that does not match the schema.
        """
        offered, contracts = validation.tools(tools)
        contract = validation.response_schema(response_schema)
        call = Call(
            validation.messages(messages),
            config=validation.config(config),
            tools=offered,
            tool_choice=validation.tool_choice(tool_choice, offered),
            response_schema=None if contract is None else validation.object_schema(contract),
            stream=stream,
        )
        policy = retry or ONCE
        for override, where in each(policy.per_attempt_override, "retry.per_attempt_override"):
            validation.config(override, where)
        expected = (
            None if contract is None else Expected(contract, contract is response_schema, self.thinking)
        )
        return await _Completion(self.stream, call, contracts, expected, policy, listen).response()


@dataclass(frozen=True, slots=True)
class Response(Generic[T]):
    """A model's answer. `message.content` is what the model wrote, byte for byte.

    `parsed` is the value of the content, if a schema was asked for and no tool was called; `stage` says how
    it was read, `schema_path` how the schema was enforced. `finish_reason` is None where the server did not
    give one. `raw` is the body that the server sent, {} for providers without one.

    `calls` are all calls that were made, this answer the last of them; `usage` is the sum over them.
    """

    message: Message
    finish_reason: FinishReason | None
    usage: Usage
    raw: dict[str, Any] = field(repr=False)
    parsed: T | None = None
    model: str | None = None
    thinking: str = ""
    stage: Stage | None = None
    schema_path: SchemaPath | None = None
    calls: tuple[CallReport, ...] = field(default=(), repr=False)


@dataclass(eq=False, slots=True)
class _Completion:
    """Makes a call as often as the policy allows, until its answer is valid.

    `invalid` is the error of the last answer, where the next attempt asks to correct it.
    """

    stream: Stream
    call: Call
    tools: Contracts
    expected: Expected | None
    policy: RetryPolicy
    listen: ListenToDeltas | None
    calls: list[CallReport] = field(default_factory=list)
    tokens: int = 0
    last: DeltaAccumulator = field(default_factory=DeltaAccumulator)
    invalid: StructuredOutputInvalid | None = None

    async def response(self) -> Response[Any]:
        """Return the first valid answer.

        Raises the error of the last attempt, with all calls that were made and their total usage.
        """
        try:
            return await replace(self.policy, classifier=self._is_worth_another).run(self._attempt)
        except (ProviderError, StructuredOutputInvalid) as error:
            error.calls, error.usage = tuple(self.calls), self._usage
            if len(self.calls) > 1:
                error.add_note(f"the last of {len(self.calls)} attempts, which took {self.tokens} tokens")
            raise

    @property
    def _usage(self) -> Usage:
        return Usage.sum(call.usage for call in self.calls)

    def _is_worth_another(self, error: Exception) -> bool:
        if self.policy.tokens is not None and self.tokens >= self.policy.tokens:
            return False
        was_passed_on = self.listen is not None and self.last.text
        return error is self.invalid or (not was_passed_on and self.policy.classifier(error))

    async def _attempt(self) -> Response[Any]:
        attempt, why = len(self.calls), "transient" if self.calls else "first"
        if self.policy.reask is not None and self.invalid is not None:
            why, answer_text = "invalid", self.invalid.output_content
            reask = text(self.policy.reask(self.invalid), "reask")
            # servers reject an empty message of the assistant's
            answered = [Message("assistant", answer_text)] if answer_text.strip() else []
            messages = (*self.call.messages, *answered, Message("user", reask))
            self.call, self.invalid = replace(self.call, messages=messages), None
        config = self.policy.config(self.call.config, attempt)
        call = replace(self.call, config=config, labels={"why": why})
        answer = self.last = DeltaAccumulator()
        problem: str | None = None
        try:
            problem = await self._receive(call, answer)
            await check_tool_calls(answer, self.tools)
        except ProviderError as error:
            problem = _described(error)
            raise
        except asyncio.CancelledError:
            problem = "cancelled before the answer ended"
            raise
        finally:
            self.calls.append(answer.report(why, problem))
            self.tokens += answer.usage_of(call).tokens
        try:
            return await self._checked(answer)
        except StructuredOutputInvalid as error:
            if self.policy.reask is not None and not transient(error):
                self.invalid = error
            raise

    async def _receive(self, call: Call, answer: DeltaAccumulator) -> str | None:
        """Receive the whole stream; an error after the end of the answer is returned instead of raised."""
        try:
            async with aclosing(self.stream(call)) as deltas:
                async for delta in deltas:
                    answer.take(delta)
                    if self.listen is not None:
                        await self.listen(delta)
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
            calls=tuple(self.calls),
        )
        if self.expected is None or answer.finish_reason == "tool_calls" or answer.tool_calls:
            return response
        outcome = replace(await read_content(answer, self.expected), calls=response.calls)
        return replace(response, parsed=outcome.unwrap(), stage=outcome.stage)


def _described(error: ProviderError) -> str:
    return f"{error.category}: {error}"
