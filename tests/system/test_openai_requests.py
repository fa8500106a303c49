"""What goes to an OpenAI-compatible server: tools, images, extras, beginnings of answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import orjson
import pytest

from tests.support.deltas import heard, text_of
from tests.support.model_server import ModelServer, Reply, streamed, whole
from trustgraph_prompt import errors
from trustgraph_prompt.llm import (
    Call,
    ImageBlock,
    Message,
    OpenAIProvider,
    RuntimeConfig,
    TextBlock,
    Tool,
    ToolCall,
)

USER = Message("user", "What is the weather in Łódź?")
WEATHER = Tool(
    "weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["place"],
    },
)
SCHEMA = {"type": "object", "properties": {"zoo": {"type": "string"}, "ant": {"type": "string"}}}


async def sent(server: ModelServer, provider: OpenAIProvider, call: Call) -> dict[str, Any]:
    """The body of the request that a call becomes."""
    await heard(provider, call)
    return server.bodies[-1]


class TestTools:
    async def test_tools_are_offered_as_functions(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        body = await sent(server, provider, Call([USER], tools=[WEATHER]))

        function = {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": WEATHER.parameters,
        }
        assert body["tools"] == [{"type": "function", "function": function}]
        assert "tool_choice" not in body

    @pytest.mark.parametrize(
        ("choice", "wire"),
        [
            ("auto", "auto"),
            ("required", "required"),
            ("none", "none"),
            (
                {"type": "tool", "name": "weather"},
                {"type": "function", "function": {"name": "weather"}},
            ),
        ],
    )
    async def test_tool_choice_is_sent(
        self, server: ModelServer, provider: OpenAIProvider, choice: Any, wire: Any
    ) -> None:
        body = await sent(server, provider, Call([USER], tools=[WEATHER], tool_choice=choice))

        assert body["tool_choice"] == wire

    async def test_tool_calls_and_their_results_are_sent_as_messages(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        calls = (ToolCall("c1", "weather", {"place": "Łódź"}), ToolCall("c2", "weather", {}))
        messages = [
            USER,
            Message("assistant", "", tool_calls=calls),
            Message("tool", "rain", tool_call_id="c1"),
            Message("tool", "sun", tool_call_id="c2"),
            Message("assistant", "Let me look again.", tool_calls=calls[1:]),
            Message("tool", "sun", tool_call_id="c2"),
        ]

        body = await sent(server, provider, Call(messages, tools=[WEATHER]))

        _, first, rain, sun, again, _ = body["messages"]
        assert first["content"] is None
        assert [call["id"] for call in first["tool_calls"]] == ["c1", "c2"]
        assert [call["type"] for call in first["tool_calls"]] == ["function", "function"]
        arguments = [call["function"]["arguments"] for call in first["tool_calls"]]
        assert [orjson.loads(text) for text in arguments] == [{"place": "Łódź"}, {}]
        assert rain == {"role": "tool", "content": "rain", "tool_call_id": "c1"}
        assert sun == {"role": "tool", "content": "sun", "tool_call_id": "c2"}
        assert again["content"] == "Let me look again."

    @pytest.mark.parametrize(
        "written", ['{"days": 123456789012345678901234567890}', '{"place": "\\ud83d"}', '{"days":  1.0}']
    )
    async def test_arguments_of_tool_calls_are_sent_back_as_the_model_wrote_them(
        self, server: ModelServer, provider: OpenAIProvider, written: str
    ) -> None:
        function = {"name": "weather", "arguments": written}
        called = {"id": "c1", "type": "function", "function": function}
        server.reply = lambda body: whole(tool_calls=[called])
        (answer,) = await heard(provider, Call([USER], tools=[WEATHER]))
        again = [USER, Message("assistant", "", answer.tool_calls), Message("tool", "", tool_call_id="c1")]

        body = await sent(server, provider, Call(again, tools=[WEATHER]))

        assert body["messages"][1]["tool_calls"] == [called]

    async def test_arguments_that_were_put_in_their_place_are_sent(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        told = ToolCall("c1", "weather", {"place": "Łódź"}, '{"place": "secret"}')
        again = [USER, Message("assistant", "", (told,)), Message("tool", "", tool_call_id="c1")]

        body = await sent(server, provider, Call(again, tools=[WEATHER]))

        arguments = body["messages"][1]["tool_calls"][0]["function"]["arguments"]
        assert orjson.loads(arguments) == {"place": "Łódź"}

    async def test_equal_calls_are_equal_bytes(self, server: ModelServer, provider: OpenAIProvider) -> None:
        def turned(value: Any) -> Any:
            if isinstance(value, Mapping):
                return MappingProxyType({key: turned(value[key]) for key in reversed(value)})
            return value

        extras = {"user": "me", "logit_bias": {"9": 1, "10": 2}}
        other = Tool(WEATHER.name, WEATHER.description, turned(WEATHER.parameters))
        one = Call([USER], config=RuntimeConfig(extras=extras), tools=[WEATHER])
        two = Call([USER], config=RuntimeConfig(extras=turned(extras)), tools=[other])

        bodies = [orjson.dumps(await sent(server, provider, call)) for call in (one, two)]

        assert bodies[0] == bodies[1]

    async def test_arguments_of_a_call_are_not_modified(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        call = Call(
            [Message("system", "Be brief."), USER],
            config=RuntimeConfig(stop_sequences=("A",), extras={"stop": ["B"], "user": {"b": 1, "a": 2}}),
            tools=[WEATHER],
            response_schema=copy.deepcopy(SCHEMA),
        )
        before = copy.deepcopy(call)

        async with OpenAIProvider(server.url, "small", native_schema=False) as in_words:
            for asked in (provider, in_words):
                await heard(asked, call)

        assert orjson.dumps(call) == orjson.dumps(before)


class TestImages:
    @pytest.mark.parametrize(
        ("image", "wire"),
        [
            (ImageBlock(url="https://example.org/a.png"), {"url": "https://example.org/a.png"}),
            (
                ImageBlock(base64_data="aGk=", media_type="image/png", detail="low"),
                {"url": "data:image/png;base64,aGk=", "detail": "low"},
            ),
        ],
    )
    async def test_an_image_goes_beside_the_text(
        self, server: ModelServer, provider: OpenAIProvider, image: ImageBlock, wire: dict[str, str]
    ) -> None:
        body = await sent(server, provider, Call([Message("user", (TextBlock("What is it?"), image))]))

        assert body["messages"][0]["content"] == [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": wire},
        ]

    async def test_a_lone_text_is_a_string(self, server: ModelServer, provider: OpenAIProvider) -> None:
        body = await sent(server, provider, Call([Message("user", (TextBlock("What is it?"),))]))

        assert body["messages"][0]["content"] == "What is it?"

    async def test_model_without_image_support_is_sent_no_image(self, server: ModelServer) -> None:
        async with OpenAIProvider(server.url, "small", images=False) as provider:
            await heard(provider, Call([USER]))
            with pytest.raises(errors.ProviderUnsupportedContentBlock):
                await heard(provider, Call([Message("user", (ImageBlock(url="https://example.org/a.png"),))]))

        assert len(server.bodies) == 1


class TestModel:
    async def test_a_call_may_name_another_model(self, server: ModelServer, provider: OpenAIProvider) -> None:
        body = await sent(server, provider, Call([USER], config=RuntimeConfig(model="large")))
        assert body["model"] == "large"
        assert (await sent(server, provider, Call([USER])))["model"] == "small"

    async def test_the_refusal_of_an_image_names_the_model_that_was_asked(self, server: ModelServer) -> None:
        image = Message("user", (ImageBlock(url="http://x/y.png"),))
        async with OpenAIProvider(server.url, "small", images=False) as provider:
            with pytest.raises(errors.ProviderUnsupportedContentBlock, match="'large'"):
                await heard(provider, Call([image], config=RuntimeConfig(model="large")))


class TestExtras:
    @pytest.mark.parametrize(
        "extras",
        [
            {"model": "small"},
            {"stream": True},
            {"tools": [], "tool_choice": None},
            {"temperature": 1, "seed": 7.0},
            {"stream_options": {"include_usage": True}},
            {"messages": [{"content": "What is the weather in Łódź?", "role": "user"}]},
        ],
    )
    async def test_extras_that_equal_the_settings_change_nothing(
        self, server: ModelServer, provider: OpenAIProvider, extras: dict[str, Any]
    ) -> None:
        config = RuntimeConfig(temperature=1.0, seed=7)
        plain = await sent(server, provider, Call([USER], config=config))

        body = await sent(
            server, provider, Call([USER], config=RuntimeConfig(temperature=1.0, seed=7, extras=extras))
        )

        assert orjson.dumps(body) == orjson.dumps(plain)

    @pytest.mark.parametrize(
        "extras",
        [
            {"model": "large"},
            {"stream": False},
            {"stream": 1},
            {"messages": []},
            {"tools": [{"type": "function"}]},
            {"tool_choice": "auto"},
            {"temperature": 0.5},
            {"stream_options": {}},
            {"response_format": {"type": "json_object"}},
        ],
    )
    async def test_extras_that_contradict_the_settings_are_refused_before_sending(
        self, server: ModelServer, provider: OpenAIProvider, extras: dict[str, Any]
    ) -> None:
        config = RuntimeConfig(temperature=1.0, extras=extras)

        with pytest.raises(errors.ProviderInvalidRequest, match=next(iter(extras))):
            await heard(provider, Call([USER], config=config, response_schema=SCHEMA))

        assert server.bodies == []

    async def test_extras_without_a_setting_are_sent_as_they_are(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda body: whole("Hello.")
        extras = {
            "temperature": 0.5,
            "response_format": {"type": "json_object"},
            "stream_options": {"include_usage": False},
            "stop": "END",
            "min_p": 0.1,
        }

        body = await sent(server, provider, Call([USER], config=RuntimeConfig(extras=extras), stream=False))

        assert extras.items() <= body.items()

    @pytest.mark.parametrize(
        ("extra", "stops"),
        [
            (["C", "A"], ["A", "B", "C"]),
            ("C", ["A", "B", "C"]),
            (["C", 7], ["A", "B"]),
            (None, ["A", "B"]),
            ({"C": 1}, ["A", "B"]),
        ],
    )
    async def test_stop_sequences_are_joined(
        self, server: ModelServer, provider: OpenAIProvider, extra: Any, stops: list[str]
    ) -> None:
        config = RuntimeConfig(stop_sequences=("A", "B"), extras={"stop": extra})

        assert (await sent(server, provider, Call([USER], config=config)))["stop"] == stops


class TestWholeAnswers:
    async def test_request_for_a_whole_answer_does_not_ask_for_a_stream(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda body: whole("Hello.", usage={"prompt_tokens": 1})

        (delta,) = await heard(provider, Call([USER], stream=False))

        assert server.bodies[0].keys() == {"model", "messages"}
        assert (delta.text, delta.finish_reason, delta.model) == ("Hello.", "stop", "small")

    async def test_stream_that_was_not_asked_for_is_read(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda body: Reply(streamed("Hello."))

        assert text_of(await heard(provider, Call([USER], stream=False))) == "Hello."

    @pytest.mark.parametrize("label", ["text/plain", "text/event-stream", "application/octet-stream"])
    @pytest.mark.parametrize("before", [b"", b"\n \n"])
    @pytest.mark.parametrize("stream", [True, False])
    async def test_content_type_of_an_answer_makes_no_difference(
        self, server: ModelServer, provider: OpenAIProvider, label: str, before: bytes, stream: bool
    ) -> None:
        for reply in (whole("Hello."), Reply(streamed("Hello."))):
            server.reply = lambda _, reply=reply: replace(  # type: ignore[misc]
                reply, parts=[before, *reply.parts], content_type=label
            )

            assert text_of(await heard(provider, Call([USER], stream=stream))) == "Hello."


class TestBeginnings:
    @pytest.mark.parametrize(
        ("prefill", "mark", "switches"),
        [
            ("assistant", {}, {}),
            ("vllm", {}, {"continue_final_message": True, "add_generation_prompt": False}),
            ("prefix", {"prefix": True}, {}),
        ],
    )
    async def test_the_last_message_is_the_beginning_of_the_answer(
        self,
        server: ModelServer,
        prefill: Literal["assistant", "vllm", "prefix"],
        mark: dict[str, bool],
        switches: dict[str, bool],
    ) -> None:
        begun = Call([USER, Message("assistant", '{"zoo": ')])
        async with OpenAIProvider(server.url, "small", prefill=prefill) as provider:
            body = await sent(server, provider, begun)

            assert provider.prefill
        told = {"model", "messages", "stream", "stream_options"}
        assert body["messages"][-1] == {"role": "assistant", "content": '{"zoo": ', **mark}
        assert {key: body[key] for key in body.keys() - told} == switches

    async def test_tool_calls_are_no_beginning(self, server: ModelServer) -> None:
        call = Call([USER, Message("assistant", "", tool_calls=(ToolCall("c1", "weather", {}),))])
        async with OpenAIProvider(server.url, "small", prefill="assistant") as provider:
            with pytest.raises(errors.ProviderInvalidRequest, match="cannot be continued"):
                await heard(provider, call)

    async def test_provider_without_prefill_refuses_a_beginning(self, provider: OpenAIProvider) -> None:
        assert not provider.prefill
        with pytest.raises(errors.ProviderInvalidRequest, match="prefill"):
            await heard(provider, Call([USER, Message("assistant", "It is")]))
