"""One answer, whole and judged: `complete` (seed 2) over the one primitive of every provider."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.llm.complete import validation
from trustgraph_prompt.llm.complete.answer_check import Expected
from trustgraph_prompt.llm.complete.attempts import Completion, ListenToDeltas
from trustgraph_prompt.llm.complete.message_parsing import each
from trustgraph_prompt.llm.records import Call, Delta, Message, RuntimeConfig, Tool
from trustgraph_prompt.llm.response import Response
from trustgraph_prompt.llm.retry import RetryPolicy

T = TypeVar("T")

ONCE = RetryPolicy(max_attempts=1)

Messages = Sequence[Message | Mapping[str, Any]]
Tools = Sequence[Tool | Mapping[str, Any]]


class Options(TypedDict, total=False):
    """What every way to complete takes by name."""

    tool_choice: str | Mapping[str, Any] | None
    retry: RetryPolicy | None
    stream: bool
    listen: ListenToDeltas | None


class Completer(Protocol):
    """Whoever streams answers can complete; also as an async context manager, which closes it."""

    @abstractmethod
    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer as it comes. Raises a `ProviderError`, before the first delta or between two.

        Leaving it (`aclosing`) ends the call on the wire.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give back connections. Idempotent."""

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
        **options: Unpack[Options],
    ) -> Response[None]: ...

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: Mapping[str, Any] = ...,
        **options: Unpack[Options],
    ) -> Response[dict[str, Any]]: ...

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: type[T] = ...,
        **options: Unpack[Options],
    ) -> Response[T]: ...

    @overload
    async def complete(
        self,
        messages: Messages,
        tools: Tools | None = None,
        config: RuntimeConfig | None = None,
        response_schema: Contract = ...,
        **options: Unpack[Options],
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
        """One answer of the model. Changes nothing it is passed; any number at a time.

        Messages and tools are records or mappings in OpenAI's shape. With a `response_schema` (a JSON Schema
        with an object at its root, a dataclass or a Pydantic model) the whole content must be the value,
        which is `parsed`. With a `Contract` the reader looks for it, in fences and prose, and mends what the
        contract allows. Where the model asks for tools there is nothing to parse.

        Tries once, unless `retry` says more. `stream` has the answer come over the wire in pieces, and
        `listen` is awaited with each. An attempt of which it has heard text is not sent again after a
        failure.

        Raises `ProviderInvalidRequest` before anything is sent, the provider's errors,
        `ProviderInvalidResponse` for tool calls that no tool takes, and `StructuredOutputInvalid` for content
        that is not as asked.
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
        for one, place in each(policy.per_attempt_override, "retry.per_attempt_override"):
            validation.config(one, place)
        expected = None if contract is None else Expected(contract, extract=contract is response_schema)
        return await Completion(self.stream, call, contracts, expected, policy, listen).response()
