"""The OpenAI wire against a real HTTP server that does what servers do."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from tests.support.deltas import CALL, heard, last, text
from tests.support.model_server import DONE, ModelServer, Reply, Then, event, in_chunks, said, streamed, used
from trustgraph_prompt import errors
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import (
    Call,
    Delta,
    Message,
    OpenAIProvider,
    RuntimeConfig,
    Timeout,
    Tool,
)

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

    async def test_the_key_goes_into_the_header(self, server: ModelServer, provider: OpenAIProvider) -> None:
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
    def test_a_url_that_is_none_is_refused(self, url: str) -> None:
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

    async def test_a_user_in_the_url_is_who_asks(self, server: ModelServer) -> None:
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
    async def test_what_cannot_be_sent_is_refused_before_it_is(
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
    async def test_other_finish_reasons_are_made_one_of_ours(
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

    async def test_odd_counts_are_no_counts(self, server: ModelServer, provider: OpenAIProvider) -> None:
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

    async def test_half_a_character_spoils_nothing_else(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        halves = [said("<"), said("\\").replace(b"\\\\", b"\\ud83e"), said("\\").replace(b"\\\\", b"\\udd89")]
        server.reply = lambda _: Reply([*halves, said(">", "stop"), DONE])

        assert await text(provider) == "<🦉>"

    async def test_leaving_ends_the_call_at_the_server(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said("Hello"), Then.HANG])
        async with aclosing(provider.stream(CALL)) as deltas:
            assert (await anext(deltas)).text == "Hello"

        async with asyncio.timeout(30):
            await server.left.wait()


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (401, '{"error": {"message": "who are you"}}', errors.ProviderAuthentication),
            (402, "pay first", errors.ProviderAuthentication),
            (403, "", errors.ProviderAuthentication),
            (404, '{"error": {"message": "The model `x` does not exist"}}', errors.ProviderInvalidModel),
            (404, "page not found", errors.ProviderInvalidRequest),
            (408, "too slow", errors.ProviderUnavailable),
            (413, "too long", errors.ProviderInvalidRequest),
            (422, '{"detail": [{"loc": ["body"]}]}', errors.ProviderInvalidRequest),
            (429, '{"error": {"message": "slow down"}}', errors.ProviderRateLimit),
            (429, '{"error": {"message": "No billing found for you"}}', errors.ProviderRateLimit),
            (429, '{"error": {"code": "insufficient_quota"}}', errors.ProviderAuthentication),
            (429, '{"error": {"type": "insufficient_quota", "code": null}}', errors.ProviderAuthentication),
            (400, '{"error": {"code": "model_not_found"}}', errors.ProviderInvalidModel),
            (400, "[" * 1020 + "]" * 1020, errors.ProviderInvalidRequest),
            (400, '{"error":' * 1000 + "1" + "}" * 1000, errors.ProviderInvalidRequest),
            (400, '{"detail":' * 1000 + "1" + "}" * 1000, errors.ProviderInvalidRequest),
            (400, '{"error": {"code": 400, "message": "bad body"}}', errors.ProviderInvalidRequest),
            (
                400,
                '{"error": {"code": "image_content_not_supported"}}',
                errors.ProviderUnsupportedContentBlock,
            ),
            (500, "<html>oops</html>", errors.ProviderUnavailable),
            (502, "", errors.ProviderUnavailable),
            (503, '{"error": {"message": "Loading model"}}', errors.ProviderModelNotLoaded),
            (503, "busy", errors.ProviderUnavailable),
            (529, "overloaded", errors.ProviderUnavailable),
            (307, "", errors.ProviderInvalidRequest),
        ],
    )
    async def test_a_status_is_an_error_of_ours(
        self,
        server: ModelServer,
        provider: OpenAIProvider,
        status: int,
        body: str,
        kind: type[errors.ProviderError],
    ) -> None:
        server.reply = lambda _: Reply([body.encode()], status, {"Location": "/elsewhere"}, "text/plain")

        with pytest.raises(errors.ProviderError) as caught:
            await heard(provider)

        assert type(caught.value) is kind
        assert str(status) in str(caught.value)
        assert server.url in str(caught.value)

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("30", 30),
            ("0.5", 0.5),
            ("-3", 0),
            ("nan", None),
            ("inf", None),
            ("soon", None),
            ("Wed, 01 Jan 2020 00:00:00 GMT", 0),
            ("Fri, 31 Dec 9999 23:59:59 -2300", None),
            ("9" * 400, None),
        ],
    )
    async def test_retry_after_is_understood(
        self, server: ModelServer, provider: OpenAIProvider, header: str, seconds: float | None
    ) -> None:
        server.reply = lambda _: Reply([b"slow"], 429, {"Retry-After": header})

        with pytest.raises(errors.ProviderRateLimit) as caught:
            await heard(provider)

        assert caught.value.retry_after == seconds

    @pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-7))])
    async def test_retry_after_may_be_a_date(
        self, server: ModelServer, provider: OpenAIProvider, zone: timezone
    ) -> None:
        tomorrow = format_datetime(datetime.now(zone) + timedelta(days=1))
        server.reply = lambda _: Reply([b"slow"], 503, {"Retry-After": tomorrow})

        with pytest.raises(errors.ProviderUnavailable) as caught:
            await heard(provider)

        assert caught.value.retry_after == pytest.approx(86400, abs=120)

    async def test_an_error_never_shows_the_key(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply([f"Incorrect API key provided: {KEY}".encode()], 401)

        with pytest.raises(errors.ProviderAuthentication, match="Incorrect API key provided") as caught:
            await heard(provider)

        assert KEY not in str(caught.value)
        assert KEY not in repr(provider)
        assert KEY not in repr(vars(caught.value))

    @pytest.mark.parametrize(
        "reply",
        [
            Reply([f"no route for /v1/chat/completions?key={KEY}".encode()], 404),
            Reply([], 302, {"Location": f"https://elsewhere/?key={KEY}"}),
            Reply([said("Hello"), event({"error": {"message": f"bad key {KEY}", "code": 401}})]),
            Reply([f"<html>{KEY}</html>".encode()]),
            Reply([b"slow down"], 429),
        ],
    )
    async def test_an_error_never_shows_what_the_query_says(self, server: ModelServer, reply: Reply) -> None:
        server.reply = lambda _: reply
        async with OpenAIProvider(f"{server.url}/v1?key={KEY}", "small") as provider:
            with pytest.raises(errors.ProviderError) as caught:
                await heard(provider)

            assert KEY not in str(caught.value) + repr(caught.value.__cause__) + repr(provider)

    async def test_the_servers_words_are_bounded(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply(itertools.repeat(b"x" * 1000), 500)

        with pytest.raises(errors.ProviderUnavailable) as caught:
            await heard(provider)

        assert len(str(caught.value)) < 1000


class TestTrouble:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            ({"message": "out of memory"}, errors.ProviderUnavailable),
            ({"message": "bad", "code": 400}, errors.ProviderInvalidRequest),
            ({"message": "slow down", "code": 429}, errors.ProviderRateLimit),
            ({"message": "no", "code": "context_length_exceeded"}, errors.ProviderInvalidRequest),
            ({"message": "no", "type": "authentication_error"}, errors.ProviderAuthentication),
            ({"message": "no", "type": "invalid_request_error"}, errors.ProviderInvalidRequest),
            ({"message": "no", "type": "server_error"}, errors.ProviderUnavailable),
            ("it broke", errors.ProviderUnavailable),
        ],
    )
    async def test_an_error_inside_the_stream_is_raised_after_what_came(
        self, server: ModelServer, provider: OpenAIProvider, error: object, kind: type[errors.ProviderError]
    ) -> None:
        server.reply = lambda _: Reply([said("Hello"), event({"error": error}), DONE])
        deltas = provider.stream(CALL)

        assert (await anext(deltas)).text == "Hello"
        with pytest.raises(kind):
            await anext(deltas)

    async def test_an_error_inside_the_stream_may_stand_alone(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        error = event({"object": "error", "message": "no", "type": "BadRequestError", "code": 400})
        server.reply = lambda _: Reply([said("Hello"), error, DONE])

        with pytest.raises(errors.ProviderInvalidRequest, match="no"):
            await heard(provider)

    @pytest.mark.parametrize(
        "parts",
        [
            [Then.DROP],
            [b": wait\n\n", Then.DROP],
            [said("Hello")[:20], Then.DROP],
            [said("Hello")[:20]],
        ],
    )
    async def test_a_connection_that_breaks_is_unavailable(
        self, server: ModelServer, provider: OpenAIProvider, parts: list[bytes | Then]
    ) -> None:
        server.reply = lambda _: Reply(parts)

        with pytest.raises(errors.ProviderUnavailable):
            await heard(provider)

    @pytest.mark.parametrize(
        "reply",
        [
            Reply([b""]),
            Reply([b"<html>Hello</html>"], content_type="text/html"),
            Reply([b"data: {\n\n"]),
            Reply([b"data: [1]\n\n"]),
            Reply([event({"choices": "none"})]),
            Reply([event({"choices": [7]})]),
            Reply([event({"choices": [{"delta": {"content": 7}}]})]),
            Reply([b'data: {"choices": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}\n\n"]),
            Reply([b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n']),
            Reply([b"{}"], content_type="application/json"),
            Reply([b"[" * 100_000], content_type="application/json"),
            Reply(itertools.repeat(b" " * 1_000_000), content_type="application/json"),
            Reply([gzip.compress(said("Hello.", "stop") + DONE)], headers={"Content-Encoding": "gzip"}),
            Reply([DONE]),
        ],
    )
    async def test_what_is_no_answer_is_an_invalid_response(
        self, server: ModelServer, provider: OpenAIProvider, reply: Reply
    ) -> None:
        server.reply = lambda _: reply

        with pytest.raises(errors.ProviderInvalidResponse):
            await heard(provider)

    async def test_an_event_without_end_is_given_up(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply(itertools.chain([b"data: "], itertools.repeat(b"x" * 1_000_000)))

        with pytest.raises(errors.ProviderInvalidResponse, match="an event of more than"):
            await heard(provider)

    async def test_an_answer_without_end_is_given_up(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply(itertools.repeat(said("x" * 1_000_000)))

        with pytest.raises(errors.ProviderInvalidResponse, match="the answer has more than"):
            await heard(provider)

    @pytest.mark.parametrize(
        "response",
        [
            b"HELLO\r\nI am not a web server\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        ],
    )
    async def test_what_is_no_http_is_unavailable_and_shows_no_secret(self, response: bytes) -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response)
            await writer.drain()
            writer.close()

        babbler = await asyncio.start_server(babble, "127.0.0.1", 0)
        port = babbler.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1?k={QUERY}"
        async with babbler, OpenAIProvider(url, "small", api_key=KEY) as provider:
            with pytest.raises(errors.ProviderUnavailable) as caught:
                await heard(provider)

        shown = str(caught.value) + repr(caught.value) + repr(caught.value.__cause__)
        assert KEY not in shown
        assert QUERY not in shown

    async def test_a_connection_that_breaks_after_the_end_breaks_nothing(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said("Hello.", "stop") + DONE, Then.DROP])

        assert await text(provider) == "Hello."

    async def test_nobody_listening_is_unavailable(self, server: ModelServer) -> None:
        await server.stop()
        async with OpenAIProvider(server.url, "small") as provider:
            with pytest.raises(errors.ProviderUnavailable, match="Cannot connect"):
                await heard(provider)

    @pytest.mark.parametrize(
        ("parts", "timeout", "message"),
        [
            ([Then.HANG], Timeout(first=0.2), "no answer began within 0.2 seconds"),
            ([b": wait\n\n", Then.HANG], Timeout(first=0.2), "no answer began within 0.2 seconds"),
            ([said("Hello"), Then.HANG], Timeout(idle=0.2), "nothing came for 0.2 seconds"),
            (
                itertools.chain([said("Hello")], itertools.repeat(b": wait\n\n")),
                Timeout(idle=0.2),
                "nothing came for 0.2 seconds",
            ),
            (itertools.repeat(b": wait\n\n"), Timeout(total=0.2), "took more than 0.2 seconds"),
        ],
    )
    async def test_waiting_has_an_end(
        self, server: ModelServer, parts: list[bytes | Then], timeout: Timeout, message: str
    ) -> None:
        server.reply = lambda _: Reply(parts)
        async with OpenAIProvider(server.url, "small", timeout=timeout) as provider:
            with pytest.raises(errors.ProviderUnavailable, match=message):
                await heard(provider)

    async def test_what_is_not_streamed_may_take_its_whole_time(self, server: ModelServer) -> None:
        server.reply = lambda _: Reply([Then.HANG], content_type="application/json")
        timeout = Timeout(first=0.01, total=0.3)
        async with OpenAIProvider(server.url, "small", timeout=timeout) as provider:
            with pytest.raises(errors.ProviderUnavailable, match=r"0\.3 seconds"):
                await heard(provider, replace(CALL, stream=False))

    async def test_after_trouble_the_next_call_is_answered(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        for parts in ([Then.DROP], [said("Hello"), Then.DROP], [b"data: {\n\n", Then.HANG]):
            server.reply = lambda _, parts=parts: Reply(parts)  # type: ignore[misc]
            with pytest.raises(errors.ProviderError):
                await heard(provider)

        server.reply = lambda _: Reply(streamed("Hello."))
        assert await text(provider) == "Hello."
