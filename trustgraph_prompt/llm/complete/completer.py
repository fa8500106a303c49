"""The base class of providers: `complete` (OpenArmature) on top of their `stream`."""

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
    """The keyword options of `complete`."""

    tool_choice: str | Mapping[str, Any] | None
    retry: RetryPolicy | None
    stream: bool
    listen: ListenToDeltas | None


class Completer(Protocol):
    """Adds `complete` to a class with `stream`, and makes it an async context manager that closes it."""

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
        expected = None if contract is None else Expected(contract, extract=contract is response_schema)
        return await Completion(self.stream, call, contracts, expected, policy, listen).response()
