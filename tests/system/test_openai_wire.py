"""The OpenAI wire against a real HTTP server that does what servers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from tests.support.deltas import CALL, heard, last, text
from tests.support.model_server import DONE, ModelServer, Reply, Then, event, in_chunks, said, streamed, used
from trustgraph_prompt import errors
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import Call, Delta, Message, OpenAIProvider, RuntimeConfig, Tool

KEY = "sk-very-secret-0123456789"
QUERY = "pa55"


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    async with OpenAIProvider(server.url, "small", api_key=KEY) as provider:
        yield provider


class TestRequests:
    async def test_the_body_is_what_the_call_says(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        config = RuntimeConfig(temperature=0.0, max_tokens=9, stop_sequences=("END",), extras={"top_k": 4})
        await heard(provider, Call(CALL.messages, config=config, labels={"prompt": "secret"}))

        assert server.bodies == [
            {
                "model": "small",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Say it."},
                ],
                "stream": True,
                "stream_options": {"include_usage": True},
                "temperature": 0.0,
                "max_tokens": 9,
                "stop": ["END"],
                "top_k": 4,
            }
        ]

    async def test_api_key_goes_into_the_authorization_header(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        await heard(provider)

        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"

    async def test_without_a_key_there_is_no_header(self, server: ModelServer) -> None:
        async with OpenAIProvider(server.url, "small", api_key="\n") as provider:
            await heard(provider)

        assert "Authorization" not in server.headers[0]

    @pytest.mark.parametrize(
        ("base", "path"),
        [
            ("", "/v1/chat/completions"),
            ("/", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/v1/", "/v1/chat/completions"),
            ("/api/openai/v3", "/api/openai/v3/chat/completions"),
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/deployments/x?api-version=7", "/deployments/x/chat/completions?api-version=7"),
        ],
    )
    async def test_the_base_url_may_be_written_in_many_ways(
        self, server: ModelServer, base: str, path: str
    ) -> None:
        async with OpenAIProvider(server.url + base, "small") as provider:
            await heard(provider)

        assert server.paths == [path]

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "localhost:8080",
            "ftp://localhost/v1",
            "http://",
            "http://[::1",
            "http://a..b/v1",
            f"http://{'a' * 64}.com/v1",
        ],
    )
    def test_invalid_base_url_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigError, match="base URL"):
            OpenAIProvider(url, "small")

    def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(self) -> None:
        with pytest.raises(ConfigError) as caught:
            OpenAIProvider("http://localhost", "small", api_key=f"{KEY}\nX-Evil: 1")
        assert KEY not in str(caught.value)

    @pytest.mark.parametrize("url", [f"ftp://me:{KEY}@localhost/v1?key={KEY}", f"http://me:{KEY}@localhost"])
    def test_a_url_that_is_refused_does_not_show_its_secrets(self, url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            OpenAIProvider(url, "small", api_key="another key")
        assert KEY not in str(caught.value)

    async def test_user_and_password_of_the_url_are_sent_as_basic_authorization(
        self, server: ModelServer
    ) -> None:
        async with OpenAIProvider(server.url.replace("//", "//me:word@"), "small") as provider:
            await heard(provider)

        assert server.headers[0]["Authorization"] == "Basic bWU6d29yZA=="

    @pytest.mark.parametrize(
        "call",
        [
            Call(CALL.messages, config=RuntimeConfig(extras={"odd": object()})),
            Call(CALL.messages, config=RuntimeConfig(extras={1: 2})),  # type: ignore[dict-item]
            Call([Message("user", "half of a pair: \ud83e")]),
            Call([*CALL.messages, Message("assistant", "It")]),
            Call(CALL.messages, tools=[Tool("look_up", "Looks it up.", {"maximum": {1}})]),
            Call(CALL.messages, response_schema={"type": "object", "maximum": {1}}),
        ],
    )
    async def test_call_that_cannot_be_encoded_is_refused_before_it_is_sent(
        self, server: ModelServer, provider: OpenAIProvider, call: Call
    ) -> None:
        with pytest.raises(errors.ProviderInvalidRequest):
            await heard(provider, call)
        assert server.bodies == []

    async def test_a_connection_is_used_again(self, server: ModelServer, provider: OpenAIProvider) -> None:
        for _ in range(5):
            await heard(provider)

        assert len(server.peers) == 1

    async def test_nothing_but_a_limiter_limits_how_many_calls_are_in_flight(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said("Hello"), Then.HANG])
        calls = [asyncio.create_task(heard(provider)) for _ in range(120)]
        async with asyncio.timeout(60):
            while len(server.bodies) < len(calls):
                await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

        assert len(server.peers) == len(calls)


class TestStreams:
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
    async def test_chunks_may_have_any_size(
        self, server: ModelServer, provider: OpenAIProvider, size: int
    ) -> None:
        server.reply = lambda body: Reply(streamed("żółć 🦉 done\n", piece=3, chunk=size))

        deltas = await heard(provider)

        assert "".join(delta.text for delta in deltas) == "żółć 🦉 done\n"
        assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["stop"]
        assert [delta.usage for delta in deltas if delta.usage] == [Usage(11, 22, 33)]

    @pytest.mark.parametrize(
        "body",
        [
            said("Hello.") + said(finish_reason="stop"),
            (said("Hello.") + said(finish_reason="stop") + DONE).replace(b"\n", b"\r\n"),
            b": wait\n\n" * 50 + said("Hello.") + b":\n\n" + said(finish_reason="stop") + DONE,
            said("Hel").replace(b"data: ", b"data:") + said("lo.") + said(finish_reason="stop").rstrip(),
            said(role="assistant") + said("Hello.", "stop") + used(1, 2) + DONE,
            b"\xef\xbb\xbf" + said("Hello.", "stop") + DONE,
            event({"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}) + DONE,
            said("Hello.", index=1)
            + said("Hello.")
            + said("?", "stop", index=1)
            + said(finish_reason="stop"),
            event({"choices": [{"delta": None}]}) + said("Hello.", "stop") + b"data: [DONE]",
            b"event: x\nid: 1\nretry: 5\n" + said("Hello.", "stop") + DONE + said("never heard"),
        ],
    )
    async def test_dialects_of_the_stream_are_understood(
        self, server: ModelServer, provider: OpenAIProvider, body: bytes
    ) -> None:
        server.reply = lambda _: Reply(in_chunks(body, 11))

        deltas = await heard(provider)

        assert "".join(delta.text for delta in deltas) == "Hello."
        assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["stop"]

    async def test_a_server_that_does_not_stream_is_understood(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        completion = {
            "model": "small",
            "choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }
        server.reply = lambda _: Reply([json.dumps(completion).encode()], content_type="application/json")

        assert await heard(provider) == [
            Delta("Hello.", finish_reason="stop", usage=Usage(1, 2, 3), model="small", raw=completion)
        ]

    @pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
    async def test_thinking_is_kept_apart(
        self, server: ModelServer, provider: OpenAIProvider, key: str
    ) -> None:
        thought = event({"choices": [{"delta": {key: "hm"}}]})
        server.reply = lambda _: Reply([thought, said("Hello.", "stop"), DONE])

        deltas = await heard(provider)

        assert [(delta.thinking, delta.text) for delta in deltas] == [("hm", ""), ("", "Hello."), ("", "")]

    @pytest.mark.parametrize(("told", "means"), [("function_call", "tool_calls"), ("tired", "error")])
    async def test_finish_reasons_of_other_servers_are_mapped_to_ours(
        self, server: ModelServer, provider: OpenAIProvider, told: str, means: str
    ) -> None:
        server.reply = lambda _: Reply([said("Hello.", told), DONE])

        assert last(await heard(provider), "finish_reason") == means

    async def test_a_refusal_is_a_content_filter(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply(
            [said(refusal="I would "), said(refusal="not."), said(finish_reason="stop")]
        )

        deltas = await heard(provider)

        assert "".join(delta.text for delta in deltas) == "I would not."
        assert last(deltas, "finish_reason") == "content_filter"

    async def test_a_stream_that_ends_in_order_may_name_no_finish_reason(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said("Hello")])

        assert last(await heard(provider), "finish_reason") is None

    async def test_invalid_token_counts_are_left_out(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        details = {"cached_tokens": True}
        usage = {
            "prompt_tokens": "many",
            "completion_tokens": -1,
            "total_tokens": 5,
            "prompt_tokens_details": details,
        }
        server.reply = lambda _: Reply([said("Hello.", "stop"), event({"choices": [], "usage": usage})])

        deltas = await heard(provider)

        assert last(deltas, "usage") == Usage(None, None, 5)
        assert last(deltas, "raw")["usage"] == usage

    async def test_character_in_two_deltas_is_put_together(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        halves = [said("<"), said("\\").replace(b"\\\\", b"\\ud83e"), said("\\").replace(b"\\\\", b"\\udd89")]
        server.reply = lambda _: Reply([*halves, said(">", "stop"), DONE])

        assert await text(provider) == "<🦉>"

    async def test_leaving_the_stream_ends_the_call_at_the_server(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said("Hello"), Then.HANG])
        async with aclosing(provider.stream(CALL)) as deltas:
            assert (await anext(deltas)).text == "Hello"

        async with asyncio.timeout(30):
            await server.left.wait()
