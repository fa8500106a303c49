"""A proxy in front of a real Pulsar, which can swallow commands: for what a network does once in months."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

#: Numbers of commands in Pulsar's binary protocol (`BaseCommand.Type`).
CLOSE_CONSUMER: Final = 16
LOOKUP_RESPONSE: Final = 24


class PulsarProxy:
    """Clients that connect to `url` go through here, to the broker at `behind`.

    `swallowing` are the commands of the broker that do not arrive, `swallowed` tells that there was one;
    nothing arrives while `flowing` is not set; `passed` counts the bytes that came from the broker.
    """

    def __init__(self, behind: str) -> None:
        address = urlsplit(behind)
        self._host, self._port = address.hostname or "", address.port or 6650
        self._ends: set[asyncio.StreamWriter] = set()
        self.swallowing: set[int] = set()
        self.swallowed = asyncio.Event()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.passed = 0
        self.url = ""

    async def __aenter__(self) -> PulsarProxy:
        port = await self._listen()
        self.url = f"pulsar://127.0.0.1:{port}"
        # The broker tells clients its own address when they look up a topic: they shall come here instead.
        self._theirs, self._ours = f":{self._port}".encode(), f":{port}".encode()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.flowing.set()
        self.refuse()
        await self._server.wait_closed()

    def refuse(self) -> None:
        """Be gone: end all connections, and let nobody in again."""
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End all connections."""
        for end in self._ends:
            end.transport.abort()

    async def _listen(self) -> int:
        """At a port of as many digits as the broker's, so that one can stand for the other."""
        digits = len(str(self._port))
        while True:
            port = random.randint(max(1024, 10 ** (digits - 1)), min(10**digits - 1, 65535))
            with suppress(OSError):
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
                return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond, onward = await asyncio.open_connection(self._host, self._port)
        ends = {writer, onward}
        self._ends |= ends
        await asyncio.gather(self._up(reader, onward), self._down(beyond, writer))
        self._ends -= ends

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self.flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size))
                await self.flowing.wait()
                # Size of the command, then the command, whose first field is its type.
                if frame[5] in self.swallowing:
                    self.swallowed.set()
                    continue
                if frame[5] == LOOKUP_RESPONSE:
                    frame = frame.replace(self._theirs, self._ours)
                writer.write(size + frame)
                self.passed += len(frame)
                await writer.drain()
        writer.close()
