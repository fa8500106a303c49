"""What the span of a call says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from tests.support.traces import Traces, attributes
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderRateLimit
from trustgraph_prompt.llm import (
    Call,
    Completer,
    Delta,
    Identity,
    Message,
    OpenAIProvider,
    RuntimeConfig,
    ScriptedAnswer,
    ScriptedProvider,
    ToolCall,
)
from trustgraph_prompt.llm.records import ImageBlock, TextBlock

QUESTION = [Message("system", "Be brief."), Message("user", "Say it.")]


async def drain(provider: object, call: Call) -> None:
    async with aclosing(provider.stream(call)) as deltas:  # type: ignore[attr-defined]
        async for _ in deltas:
            pass


class TestTheSpanOfACall:
    async def test_span_has_the_settings_of_the_call_and_the_usage_of_the_answer(self) -> None:
        traces = Traces()
        answer = ScriptedAnswer("said", usage=Usage(12, 3, 15, 8, 4), model="small-2026")
        provider = traces.tracing.provider(ScriptedProvider([answer], name="demo"))
        config = RuntimeConfig(temperature=0.0, max_tokens=64, seed=7, stop_sequences=("END",))

        labels = {"prompt": "say", "call": "2", "why": "transient"}
        await drain(provider, Call(QUESTION, config, labels=labels))

        [span] = traces.spans
        assert (span.name, span.kind, span.status.status_code) == ("chat", SpanKind.CLIENT, StatusCode.UNSET)
        assert attributes(span) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "scripted",
            "gen_ai.system": "scripted",
            "gen_ai.request.temperature": 0.0,
            "gen_ai.request.max_tokens": 64,
            "gen_ai.request.seed": 7,
            "gen_ai.request.stop_sequences": ("END",),
            "gen_ai.response.model": "small-2026",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 3,
            "gen_ai.usage.cache_read.input_tokens": 8,
            "gen_ai.usage.cache_creation.input_tokens": 4,
            "trustgraph_prompt.prompt.id": "say",
            "trustgraph_prompt.call.number": 2,
            "trustgraph_prompt.call.why": "transient",
        }

    async def test_span_names_model_and_server_without_secrets(self) -> None:
        traces = Traces()
        inner = OpenAIProvider("http://me:secret-word@127.0.0.1:9/v1?key=secret-key", "qwen3")
        provider = traces.tracing.provider(inner)

        with pytest.raises(Exception, match="9"):
            await drain(provider, Call(QUESTION))
        await provider.close()

        [span] = traces.spans
        told = attributes(span)
        assert span.name == "chat qwen3"
        assert (told["gen_ai.provider.name"], told["gen_ai.request.model"]) == ("openai", "qwen3")
        assert (told["server.address"], told["server.port"]) == ("127.0.0.1", 9)
        assert "secret" not in span.to_json()

    async def test_span_of_a_failed_call_has_the_category_and_not_the_message(self) -> None:
        traces = Traces()
        failing = ScriptedAnswer("so far", error=ProviderRateLimit("you said: Say it."))
        provider = traces.tracing.provider(ScriptedProvider([failing]))

        with pytest.raises(ProviderRateLimit):
            await drain(provider, Call(QUESTION))

        [span] = traces.spans
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == "provider_rate_limit"
        assert attributes(span)["gen_ai.response.model"] == "scripted"
        assert "Say it" not in span.to_json()

    async def test_span_of_an_abandoned_call_ends_without_an_error(self) -> None:
        traces = Traces()
        provider = traces.tracing.provider(ScriptedProvider([ScriptedAnswer("x" * 1000)]))

        async with aclosing(provider.stream(Call(QUESTION))) as deltas:
            await anext(deltas)

        [span] = traces.spans
        assert span.status.status_code is StatusCode.UNSET

    async def test_span_of_a_cancelled_call_ends(self) -> None:
        traces = Traces()
        provider = traces.tracing.provider(ScriptedProvider([ScriptedAnswer("x", delay=600)]))
        task = asyncio.create_task(drain(provider, Call(QUESTION)))
        await asyncio.sleep(0)

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert len(traces.spans) == 1

    async def test_span_is_current_in_the_provider_and_not_in_the_listener(self) -> None:
        traces = Traces()
        within: list[str] = []

        class Inner(Completer):
            identity = Identity("test", "m")
            prefill = False

            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                for _ in range(2):
                    within.append(str(get_current_span().get_span_context().is_valid))
                    yield Delta("x")

            async def close(self) -> None: ...

        async with aclosing(traces.tracing.provider(Inner()).stream(Call(QUESTION))) as deltas:
            async for _ in deltas:
                assert not get_current_span().get_span_context().is_valid

        assert within == ["True", "True"]

    async def test_span_has_contents_only_where_they_are_asked_for(self) -> None:
        quiet, showing = Traces(), Traces(content=True)
        call = Call(
            [
                Message("system", "Be brief."),
                Message("user", (TextBlock("What is it?"), ImageBlock(url="http://secret"))),
                Message("assistant", "", (ToolCall("1", "look", {"at": "it"}),)),
                Message("tool", "a stone", tool_call_id="1"),
            ]
        )
        for traces in (quiet, showing):
            await drain(traces.tracing.provider(ScriptedProvider(lambda _: "Chalk.")), call)

        assert not [name for name in attributes(quiet.spans[0]) if "messages" in name]
        told = attributes(showing.spans[0])
        assert json.loads(told["gen_ai.output.messages"]) == [
            {"role": "assistant", "parts": [{"type": "text", "content": "Chalk."}], "finish_reason": "stop"}
        ]
        assert [message["parts"] for message in json.loads(told["gen_ai.input.messages"])] == [
            [{"type": "text", "content": "Be brief."}],
            [{"type": "text", "content": "What is it?"}, {"type": "image"}],
            [
                {"type": "text", "content": ""},
                {"type": "tool_call", "id": "1", "name": "look", "arguments": {"at": "it"}},
            ],
            [{"type": "tool_call_response", "response": "a stone"}],
        ]

    async def test_span_has_the_tools_that_an_answer_calls(self) -> None:
        traces = Traces(content=True)
        answer = [Delta(tool_calls=(ToolCall("1", "look", {"at": "it"}),)), Delta(finish_reason="stop")]
        await drain(traces.tracing.provider(ScriptedProvider(lambda _: answer)), Call(QUESTION))

        told = attributes(traces.spans[0])
        [message] = json.loads(told["gen_ai.output.messages"])
        assert message["parts"][-1] == {
            "type": "tool_call",
            "id": "1",
            "name": "look",
            "arguments": {"at": "it"},
        }
        assert told["gen_ai.response.finish_reasons"] == ("tool_calls",)

    async def test_long_contents_of_a_span_are_cut_and_say_their_length(self) -> None:
        traces = Traces(content=True)
        provider = traces.tracing.provider(ScriptedProvider(lambda _: "ok"))

        await drain(provider, Call([Message("user", "ü" * 100_000 + "\ud800")]))

        shown = attributes(traces.spans[0])["gen_ai.input.messages"]
        assert len(shown.encode()) <= 65_536
        assert shown.endswith("bytes total]")
