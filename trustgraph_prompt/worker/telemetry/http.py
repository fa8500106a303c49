"""`/livez`, `/readyz` and `/metrics` over a small HTTP server with few, short connections.

Anyone who can reach the port can open connections. They must not use up the file descriptors that the worker
needs for its model and its broker, nor keep probes out.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from typing import Any

from aiohttp import web

from trustgraph_prompt.errors import ConfigError, excerpt
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics

MAX_CONNECTIONS = 16
"""Probes and a Prometheus need one each. One more closes the oldest that has not asked for anything."""

AT_ONCE = 4
"""Connections that are accepted in one turn of the loop. A request that came with its connection is read a
few turns later, before so many others have come that its connection would be the oldest."""

BACKLOG = 128
"""Connections that the system keeps while the loop is busy."""

SECONDS_FOR_A_REQUEST = 10.0
"""From the beginning of a connection to its end, the answer included."""

SECONDS_BEFORE_ANOTHER = 0.1
"""After a connection could not be accepted."""

SECONDS_TO_END = 1.0
"""What answers under way may take when the server ends."""


@asynccontextmanager
async def serve_connections(
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
            each.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot serve HTTP on {address}: {error}", where="--http") from None
    return listening


def _knocks(listening: socket.socket) -> bool:
    """Whether somebody waits: without a free descriptor `accept` fails also where nobody does."""
    looking = select.poll()
    looking.register(listening, select.POLLIN)
    return bool(looking.poll(0))


class _Server(web.Server):
    """Accepts connections itself: asyncio takes a hundred at once, and floods the log where it cannot.

    One file descriptor is kept in reserve, so that who asks what is wrong is answered when all others are in
    use.
    """

    def __init__(self, answer: Any, **settings: Any) -> None:
        async def answering(request: web.BaseRequest) -> web.Response:
            self._asked.add(request.protocol)
            response: web.Response = await answer(request)
            return response

        super().__init__(answering, **settings)
        self._connecting: set[asyncio.Task[None]] = set()
        self._asked: set[web.RequestHandler] = set()
        self._open: dict[web.RequestHandler, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}
        self._ended = False
        self._reserve: int | None = None
        self._keep_reserve()

    async def accept(self, listening: socket.socket) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            stuck: asyncio.Future[OSError] = loop.create_future()
            loop.add_reader(listening, self._accept_some, listening, stuck)
            try:
                error = await stuck
            finally:
                loop.remove_reader(listening)
            if out_of_descriptors(error):
                self._close_one()
                self._give_reserve()
            await asyncio.sleep(SECONDS_BEFORE_ANOTHER)

    def _accept_some(self, listening: socket.socket, stuck: asyncio.Future[OSError]) -> None:
        """Begin with those that knock; `stuck` gets the error where one cannot be accepted."""
        loop = asyncio.get_running_loop()
        for _ in range(AT_ONCE):
            if stuck.done() or not _knocks(listening):
                return
            try:
                connection, _ = listening.accept()
            except OSError as error:
                stuck.set_result(error)
                return
            task = loop.create_task(self._begin(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _begin(self, connection: socket.socket) -> None:
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(self, connection)

    async def end(self) -> None:
        """Close the connections."""
        self._ended = True
        self._give_reserve()
        await asyncio.gather(*self._connecting)
        self.pre_shutdown()
        await self.shutdown(SECONDS_TO_END)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._open) >= MAX_CONNECTIONS:
            self._close_one()
        timer = asyncio.get_running_loop().call_later(SECONDS_FOR_A_REQUEST, transport.abort)
        self._open[handler] = transport, timer

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        if (ended := self._open.pop(handler, None)) is not None:
            ended[1].cancel()
        self._asked.discard(handler)
        asyncio.get_running_loop().call_soon(self._keep_reserve)  # its descriptor is free by then

    def _close_one(self) -> None:
        """The oldest that has not asked for anything; the oldest of all where each has."""
        if self._open:
            silent = (handler for handler in self._open if handler not in self._asked)
            transport, timer = self._open.pop(next(silent, next(iter(self._open))))
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


MAX_SAID, MAX_ABOUT, MAX_WHY = 100, 200, 1_000
"""Notes of `/readyz`, and characters of what each is about and of what it says."""

Page = Callable[[], Awaitable[web.Response]]


@asynccontextmanager
async def serve(address: str, health: Health, metrics: Metrics) -> AsyncIterator[str]:
    """Serve on `HOST:PORT` (port 0: any free one) for the time of the block; gives the address in use.

    Raises `ConfigError` where the address is none or is taken.
    """

    async def livez() -> web.Response:
        return web.json_response({"alive": True})

    async def readyz() -> web.Response:
        body = {"ready": health.ready, "waiting": _brief(health.waiting), "notes": _brief(health.notes())}
        return web.json_response(body, status=200 if health.ready else 503)

    async def exposition() -> web.Response:
        return web.Response(
            body=await metrics.exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    pages: dict[str, Page] = {"/livez": livez, "/readyz": readyz, "/metrics": exposition}

    async def answer(request: web.BaseRequest) -> web.Response:
        page = pages.get(request.path)
        if page is None or request.method not in ("GET", "HEAD"):
            response = web.Response(status=405 if page else 404)
        else:
            response = await page()
        response.force_close()
        return response

    async with serve_connections(address, answer) as bound:
        yield bound


def _brief(said: Mapping[str, str]) -> dict[str, str]:
    """What fits into an answer that is asked for every few seconds: keys and errors come from outside."""
    brief = {
        excerpt(about, MAX_ABOUT): excerpt(why, MAX_WHY) for about, why in islice(said.items(), MAX_SAID)
    }
    if len(said) > MAX_SAID:
        brief["…"] = f"{len(said) - MAX_SAID:,} more; the log has all"
    return brief
