"""An HTTP proxy on loopback that takes every host for one of this machine."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit


class Proxy:
    """Forwards requests for `http` addresses, and tunnels (CONNECT) for others, to 127.0.0.1.

    `refusal` is what it answers in place of that, of a CONNECT too.
    """

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.refusal = b""
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def lines(self) -> list[str]:
        """The first lines of what it was asked."""
        return [head.partition("\r\n")[0] for head in self.heads]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.refusal:
                writer.write(self.refusal)
            else:
                await self._forward(head, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _forward(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.split(" ", 2)
        if method == "CONNECT":
            port = int(target.rpartition(":")[2])
        else:
            address = urlsplit(target)
            port = address.port or 80
            path = target[target.index(address.netloc) + len(address.netloc) :]
            head = head.replace(target, path, 1)
        beyond, onward = await asyncio.open_connection("127.0.0.1", port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            onward.write(head.encode())
        await asyncio.gather(_pump(reader, onward), _pump(beyond, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
