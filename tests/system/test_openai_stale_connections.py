"""Servers that close connections which they promised to keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.deltas import text
from trustgraph_prompt.errors import ProviderUnavailable
from trustgraph_prompt.llm import OpenAIProvider

ANSWER = b'{"choices": [{"index": 0, "message": {"content": "Hello."}, "finish_reason": "stop"}]}'


class ClosingServer:
    """Answers `deadline` requests of a connection; closes it when the next comes, `after` so many seconds."""

    def __init__(self, deadline: int) -> None:
        self.after = 0.0
        self.last_words = b""
        self.requests = 0
        self.connections = 0
        self.url = ""
        self._deadline = deadline

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def be_patient(self, deadline: int) -> None:
        """For new connections."""
        self._deadline = deadline

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = self._deadline
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
                await reader.readexactly(int(length.partition(b":")[2]))
                self.requests += 1
                if left == 0:
                    await asyncio.sleep(self.after)
                    writer.write(self.last_words)
                    break
                left -= 1
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nKeep-Alive: timeout=5\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
                )
        except asyncio.IncompleteReadError:
            pass  # the client has gone
        finally:
            writer.close()


@pytest.fixture(params=[1])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ClosingServer]:
    server = ClosingServer(request.param)
    await server.start()
    yield server
    await server.stop()


async def test_a_kept_connection_that_was_closed_fails_no_call(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        answers = [await text(provider) for _ in range(3)]

    assert answers == ["Hello."] * 3
    assert server.connections == 3


async def test_many_closed_connections_at_once_fail_no_call(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        for _ in range(2):
            answers = await asyncio.gather(*(text(provider) for _ in range(8)))

            assert answers == ["Hello."] * 8


@pytest.mark.parametrize("server", [0], indirect=True)
async def test_a_new_connection_that_is_closed_is_the_end_of_the_call(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        with pytest.raises(ProviderUnavailable):
            await text(provider)

    assert server.requests == 1


async def test_a_request_is_sent_again_over_a_new_connection(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        await asyncio.gather(*(text(provider) for _ in range(8)))

        assert await text(provider) == "Hello."

    assert server.requests == 8 + 2


async def test_a_request_is_sent_again_once(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        await asyncio.gather(*(text(provider) for _ in range(8)))
        server.be_patient(0)

        with pytest.raises(ProviderUnavailable):
            await text(provider)

    assert server.requests == 8 + 2


async def test_request_that_a_server_may_have_worked_on_is_not_sent_again(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        await text(provider)
        server.after = 0.3

        with pytest.raises(ProviderUnavailable):
            await text(provider)

    assert server.requests == 2


async def test_request_that_a_server_has_begun_to_answer_is_not_sent_again(server: ClosingServer) -> None:
    async with OpenAIProvider(server.url, "small") as provider:
        await text(provider)
        server.last_words = b"HTTP/1.1 200 OK\r\nContent-Le"

        with pytest.raises(ProviderUnavailable):
            await text(provider)

    assert server.requests == 2
