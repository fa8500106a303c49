"""A server that says what a test likes where a Redis was expected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

#: What is said to GET and SET.
Answer = Callable[[], Awaitable[bytes]]

NOTHING = b"$-1\r\n"


class FakeRedis:
    """Greets as a Redis does; `commands` counts what came after that."""

    def __init__(self, answer: Answer) -> None:
        self.commands = 0
        self.url = ""
        self._answer = answer
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def close(self) -> None:
        for writer in self._connections.values():
            writer.transport.abort()
        if self._connections:
            await asyncio.wait(self._connections)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        with suppress(OSError, asyncio.IncompleteReadError):
            while command := await _command(reader):
                if command in (b"GET", b"SET"):
                    self.commands += 1
                    writer.write(await self._answer())
                else:
                    writer.write(b"+OK\r\n")
        writer.close()


@asynccontextmanager
async def fake_redis(answer: bytes | Answer) -> AsyncIterator[FakeRedis]:
    """One that listens until the end of the context."""

    async def the_same() -> bytes:
        assert isinstance(answer, bytes)
        return answer

    fake = FakeRedis(the_same if isinstance(answer, bytes) else answer)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0?protocol=2"
    try:
        yield fake
    finally:
        server.close()
        await fake.close()


async def _command(reader: asyncio.StreamReader) -> bytes:
    """The name of the next command; empty at the end."""
    if not (head := await reader.readline()):
        return b""
    words = []
    for _ in range(int(head[1:])):
        length = int((await reader.readline())[1:])
        words.append((await reader.readexactly(length + 2))[:-2])
    return words[0].upper()
