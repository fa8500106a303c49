"""A server on loopback in a process of its own, so that a benchmark measures its client alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection


class HttpServer(asyncio.Protocol):
    """One connection of an HTTP server: one request after the other, each with its body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._came = b""

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, _, body = self._came.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if length is not None and len(body) >= int(length[1]):
            self._came = b""
            self.answer(body)

    @abstractmethod
    def answer(self, body: bytes) -> None:
        """Write the response to a request, now or later."""


def _serve(protocol: type[asyncio.Protocol], backlog: int, port: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, backlog=backlog)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@asynccontextmanager
async def server(protocol: type[asyncio.Protocol], backlog: int = 100) -> AsyncIterator[str]:
    """The base URL of a server for the time of the block; `protocol` serves each connection."""
    ours, theirs = multiprocessing.Pipe()
    arguments = (protocol, backlog, theirs)
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{await asyncio.to_thread(ours.recv)}/v1"
    finally:
        process.terminate()
        process.join()
