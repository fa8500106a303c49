"""The connections of a small HTTP server: few at a time, each for one request and a few seconds.

Whoever can reach the port can open connections. They must not take the file descriptors that the worker needs
for its model and its broker, nor keep probes out.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from trustgraph_prompt.errors import ConfigError, out_of_descriptors

MAX_CONNECTIONS = 16
"""Probes and a Prometheus need one each. One more closes the oldest: it had time to say what it wants."""

SECONDS_FOR_A_REQUEST = 10.0
"""From the beginning of a connection to its end, the answer included."""

SECONDS_BEFORE_ANOTHER = 0.1
"""After a connection could not be accepted."""

SECONDS_TO_END = 1.0
"""What answers under way may take when the server ends."""


@asynccontextmanager
async def serve(
    address: str, answer: Callable[[web.BaseRequest], Awaitable[web.Response]]
) -> AsyncIterator[str]:
    """Serve on `HOST:PORT` (port 0: any free one) for the time of the block; gives the address in use.

    `answer` has to close its connection. Raises `ConfigError` where the address is none or is taken.
    """
    listening = await _bind(address)
    async with AsyncExitStack() as closing:
        for each in listening:
            closing.enter_context(each)
        server = _Server(answer, access_log=None)
        closing.push_async_callback(server.end)
        accepting = [
            asyncio.create_task(server.accept(each), name=f"HTTP on {address}") for each in listening
        ]
        try:
            host, port, *_ = listening[0].getsockname()
            yield f"{host}:{port}"
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)


async def _bind(address: str) -> list[socket.socket]:
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        wrong = "its port is not a number up to 65535" if colon else "it has no port"
        raise ConfigError(
            f"the address is not valid: {wrong}", where="--http", found=address, expected="HOST:PORT"
        )
    loop = asyncio.get_running_loop()
    try:
        bound = await loop.create_server(asyncio.Protocol, host or None, int(port), start_serving=False)
        listening = [each.dup() for each in bound.sockets]
        bound.close()
        for each in listening:
            each.listen(MAX_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot serve HTTP on {address}: {error}", where="--http") from None
    return listening


async def _readable(listening: socket.socket) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listening)


class _Server(web.Server):
    """Accepts connections itself: asyncio takes a hundred at once, and floods the log where it cannot.

    One file descriptor is kept in reserve, so that who asks what is wrong is answered when all others are in
    use.
    """

    def __init__(self, answer: Any, **settings: Any) -> None:
        super().__init__(answer, **settings)
        self._open: dict[web.RequestHandler, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}
        self._ended = False
        self._reserve: int | None = None
        self._keep_reserve()

    async def accept(self, listening: socket.socket) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await _readable(listening)  # without a free descriptor `accept` fails also where nobody knocks
            try:
                connection, _ = listening.accept()
                await loop.connect_accepted_socket(self, connection)
            except OSError as error:
                if out_of_descriptors(error):
                    self._close_oldest()
                    self._give_reserve()
                await asyncio.sleep(SECONDS_BEFORE_ANOTHER)

    async def end(self) -> None:
        """Close the connections."""
        self._ended = True
        self._give_reserve()
        self.pre_shutdown()
        await self.shutdown(SECONDS_TO_END)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._open) >= MAX_CONNECTIONS:
            self._close_oldest()
        timer = asyncio.get_running_loop().call_later(SECONDS_FOR_A_REQUEST, transport.abort)
        self._open[handler] = transport, timer

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        if (ended := self._open.pop(handler, None)) is not None:
            ended[1].cancel()
        asyncio.get_running_loop().call_soon(self._keep_reserve)  # its descriptor is free by then

    def _close_oldest(self) -> None:
        if self._open:
            transport, timer = self._open.pop(next(iter(self._open)))
            timer.cancel()
            transport.abort()

    def _keep_reserve(self) -> None:
        if self._reserve is None and not self._ended:
            with suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY)

    def _give_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
