"""What goes wrong between a server and who asks it, and how long that is waited for."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.support.deltas import CALL, heard, text
from tests.support.model_server import (
    DONE,
    ModelServer,
    Reply,
    Then,
    event,
    said,
    streamed,
)
from trustgraph_prompt import errors
from trustgraph_prompt.llm import OpenAIProvider, Timeout

KEY = "sk-very-secret-0123456789"
QUERY = "pa55"


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    async with OpenAIProvider(server.url, "small", api_key=KEY) as provider:
        yield provider


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


class TestTrouble:
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
    async def test_malformed_answer_is_an_invalid_response(
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
    async def test_response_that_is_not_http_is_unavailable_and_shows_no_secret(
        self, response: bytes
    ) -> None:
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

    async def test_connection_that_breaks_after_the_end_of_an_answer_is_no_error(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said("Hello.", "stop") + DONE, Then.DROP])

        assert await text(provider) == "Hello."

    async def test_refused_connection_is_unavailable(self, server: ModelServer) -> None:
        await server.stop()
        async with OpenAIProvider(server.url, "small") as provider:
            with pytest.raises(errors.ProviderUnavailable, match="Cannot connect"):
                await heard(provider)

    @pytest.mark.parametrize(
        ("parts", "timeout", "message"),
        [
            ([Then.HANG], Timeout(first=0.2), "no answer began within 0.2 seconds"),
            ([b": wait\n\n", Then.HANG], Timeout(first=0.2), "no answer began within 0.2 seconds"),
            ([said("Hello"), Then.HANG], Timeout(idle=0.2), "the server sent nothing for 0.2 seconds"),
            (
                itertools.chain([said("Hello")], itertools.repeat(b": wait\n\n")),
                Timeout(idle=0.2),
                "the server sent nothing for 0.2 seconds",
            ),
            (itertools.repeat(b": wait\n\n"), Timeout(first=0.2), "began within 0.2 seconds"),
        ],
    )
    async def test_silent_server_is_unavailable_after_the_timeout(
        self, server: ModelServer, parts: list[bytes | Then], timeout: Timeout, message: str
    ) -> None:
        server.reply = lambda _: Reply(parts)
        async with OpenAIProvider(server.url, "small", timeout=timeout) as provider:
            with pytest.raises(errors.ProviderUnavailable, match=message):
                await heard(provider)

    async def test_answer_that_is_not_streamed_may_take_the_total_timeout(self, server: ModelServer) -> None:
        server.reply = lambda _: Reply([Then.HANG], content_type="application/json")
        timeout = Timeout(first=0.01, total=0.3)
        async with OpenAIProvider(server.url, "small", timeout=timeout) as provider:
            with pytest.raises(errors.ProviderUnavailable, match=r"0\.3 seconds"):
                await heard(provider, replace(CALL, stream=False))

    async def test_call_after_a_failed_one_is_answered(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        for parts in ([Then.DROP], [said("Hello"), Then.DROP], [b"data: {\n\n", Then.HANG]):
            server.reply = lambda _, parts=parts: Reply(parts)  # type: ignore[misc]
            with pytest.raises(errors.ProviderError):
                await heard(provider)

        server.reply = lambda _: Reply(streamed("Hello."))
        assert await text(provider) == "Hello."

    async def test_the_whole_time_holds_while_a_listener_takes_its_own(self, server: ModelServer) -> None:
        server.reply = lambda _: Reply([said("Hello") * 100 + DONE])

        async def listen(provider: OpenAIProvider) -> None:
            async with aclosing(provider.stream(CALL)) as deltas:
                async for _ in deltas:
                    await asyncio.sleep(0.02)

        async with OpenAIProvider(server.url, "small", timeout=Timeout(total=0.3)) as provider:
            with pytest.raises(errors.ProviderUnavailable, match=r"took more than 0\.3 seconds"):
                await asyncio.wait_for(listen(provider), 30)

    def test_a_provider_may_be_used_in_one_loop_after_another(self) -> None:
        async def asked(provider: OpenAIProvider, port: int, *, close: bool) -> str:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + said("Hello.", "stop") + DONE)
                writer.close()

            async with await asyncio.start_server(answer, "127.0.0.1", port):
                answered = await text(provider)
                if close:
                    await provider.close()
            return answered

        port = free_port()
        provider = OpenAIProvider(f"http://127.0.0.1:{port}", "small")

        answers = [asyncio.run(asked(provider, port, close=last)) for last in (False, False, True)]

        assert answers == ["Hello."] * 3

    async def test_provider_in_use_in_another_event_loop_is_refused(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        assert await text(provider) == "Hello."

        with pytest.raises(errors.ProviderInvalidRequest, match="another event loop"):
            await asyncio.to_thread(asyncio.run, heard(provider))

        await asyncio.to_thread(asyncio.run, provider.close())
        assert await text(provider) == "Hello."
        assert len(server.peers) == 1  # no other loop has closed the connection
