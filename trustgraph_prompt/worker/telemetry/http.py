"""Serves `/livez`, `/readyz`, `/metrics` and the status over few, short HTTP connections.

The status is only for requests to a known host. A website that has its own name resolve to this worker (DNS
rebinding) would otherwise have the browser of a visitor read it.

Anyone who can reach the port can open connections. They must not use up the file descriptors that the worker
needs for its model and its broker, nor block probes. Readers of the status page have connections that last,
with a bound of their own.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import select
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.worker.telemetry import status_page
from trustgraph_prompt.worker.telemetry.health import Health, brief
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.status_page import StatusPage

MAX_CONNECTIONS = 16
"""Each probe and Prometheus needs one. One too many closes the oldest one without a request."""

AT_ONCE = 4
"""Connections accepted per turn of the event loop. A request sent right after connecting is read a few turns
later, before so many others have connected that its connection would be closed as the oldest."""

BACKLOG = 128
"""Connections that the operating system queues while the event loop is busy."""

SECONDS_FOR_A_REQUEST = 10.0
"""Lifetime of a connection, including the answer."""

MAX_LISTENERS = 50
"""Connections that receive the events of the status page."""

SECONDS_FOR_AN_EVENT = 10.0
"""How long a listener may take to receive an event."""

SECONDS_AFTER_A_FAILURE = 0.1
"""Pause after an `accept` that failed."""

SECONDS_TO_END = 1.0
"""How long shutdown waits for answers in progress."""

_PATHS, _STATUS_PATHS = ("/livez", "/readyz", "/metrics"), ("/", "/status.json", "/events")

UNKNOWN_HOST = """\
This worker does not know the host name of this request.
Ask for its IP address or localhost, or start the worker with --http-host NAME.
"""


async def _bind(address: str) -> list[socket.socket]:
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        wrong = "its port is not a number up to 65535" if colon else "it has no port"
        wrong = f"the address is not valid: {wrong}"
        raise ConfigError(wrong, where="--http", found=address, expected="HOST:PORT")
    loop = asyncio.get_running_loop()
    try:
        if not host:
            return [_bind_all_interfaces(int(port))]
        # Binds a host of several addresses to all of them.
        bound = await loop.create_server(asyncio.Protocol, host, int(port), start_serving=False)
        listeners = [listener.dup() for listener in bound.sockets]
        bound.close()
        for listener in listeners:
            listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot serve HTTP on {address}: {error}", where="--http") from None
    return listeners


def _bind_all_interfaces(port: int) -> socket.socket:
    """One socket for IPv6 and IPv4, or for IPv4 only where the system has no IPv6."""
    try:
        listener = socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise
        listener = socket.create_server(("", port), backlog=BACKLOG)
    listener.setblocking(False)
    return listener


def _has_connection(listener: socket.socket) -> bool:
    """Whether a connection waits: without a free descriptor `accept` fails even if none does."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


class _Server(web.Server):
    """Accepts connections itself: asyncio accepts a hundred at once, and floods the log if that fails.

    One file descriptor is kept in reserve, so that a probe is answered when all others are in use.
    """

    def __init__(self, endpoints: _Endpoints) -> None:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            self._asked.add(request.protocol)
            return await endpoints.answer(request, self)

        super().__init__(answer, access_log=None)
        self._connecting: set[asyncio.Task[None]] = set()
        self._asked: set[web.RequestHandler] = set()
        self._open: dict[web.RequestHandler, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}
        self._listening: dict[web.RequestHandler, asyncio.Transport] = {}
        self._ended = False
        self._reserve: int | None = None
        self._keep_reserve()

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            failed: asyncio.Future[OSError] = loop.create_future()
            loop.add_reader(listener, self._accept_some, listener, failed)
            try:
                error = await failed
            finally:
                loop.remove_reader(listener)
            if out_of_descriptors(error):
                self._close_listener()
                self._close_one()
                self._give_reserve()
            await asyncio.sleep(SECONDS_AFTER_A_FAILURE)

    def _accept_some(self, listener: socket.socket, failed: asyncio.Future[OSError]) -> None:
        """Accept waiting connections; `failed` gets the error if that is not possible."""
        loop = asyncio.get_running_loop()
        for _ in range(AT_ONCE):
            if failed.done() or not _has_connection(listener):
                return
            try:
                connection, _ = listener.accept()
            except OSError as error:
                failed.set_result(error)
                return
            task = loop.create_task(self._begin(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _begin(self, connection: socket.socket) -> None:
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(self, connection)

    def listen(self, request: web.BaseRequest) -> bool:
        """Let the connection of a request last; False if as many as may do so already."""
        if len(self._listening) >= MAX_LISTENERS or request.protocol not in self._open:
            return False
        transport, timer = self._open.pop(request.protocol)
        timer.cancel()
        self._listening[request.protocol] = transport
        return True

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
        self._listening.pop(handler, None)
        self._asked.discard(handler)
        asyncio.get_running_loop().call_soon(self._keep_reserve)  # its descriptor is free by then

    def _close_one(self) -> None:
        """Close the oldest connection without a request, or the oldest of all."""
        if self._open:
            silent = (handler for handler in self._open if handler not in self._asked)
            transport, timer = self._open.pop(next(silent, next(iter(self._open))))
            timer.cancel()
            transport.abort()

    def _close_listener(self) -> None:
        """Close the oldest listener: the descriptor is needed."""
        if self._listening:
            self._listening.pop(next(iter(self._listening))).abort()

    def _keep_reserve(self) -> None:
        if self._reserve is None and not self._ended:
            with suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY)

    def _give_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None


@asynccontextmanager
async def serve(
    address: str,
    health: Health,
    metrics: Metrics,
    status: StatusPage | None = None,
    *,
    hosts: Collection[str] = (),
) -> AsyncIterator[str]:
    """Serve the endpoints on `HOST:PORT` during the block; yields the address in use.

    Port 0 is any free one, and no host all interfaces, of IPv4 and IPv6.

    Without `status` there is no page. It is served to IP addresses, `localhost`, HOST and `hosts`.
    Raises `ConfigError` if the address is invalid or in use, or if one of `hosts` is no host name.
    """
    names = _known_names(address, hosts)
    listeners = await _bind(address)
    async with AsyncExitStack() as closing:
        for listener in listeners:
            closing.enter_context(listener)
        server = _Server(_Endpoints(health, metrics, status, names))
        closing.push_async_callback(server.end)
        if status is not None:
            closing.callback(status.end)
        accepting = [
            asyncio.create_task(server.accept(listener), name=f"HTTP on {address}") for listener in listeners
        ]
        try:
            host, port, *_ = listeners[0].getsockname()
            yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)


def _known_names(address: str, hosts: Collection[str]) -> set[str]:
    for host in hosts:
        if not _host_name(host) or not {*"/*"}.isdisjoint(host):
            expected = "a name such as prompts.example.com, without https://"
            raise ConfigError("not a host name", where="--http-host", found=host, expected=expected)
    return {*map(_host_name, (address, "localhost", *hosts))} - {""}


def _host_name(authority: str) -> str:
    """The host of `HOST[:PORT]`, empty if there is none."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").removesuffix(".")
    except ValueError:  # brackets that hold no IPv6 address
        return ""


def is_local(bound: str) -> bool:
    """Whether an address in use is reached only from this machine."""
    return ipaddress.ip_address(_host_name(bound)).is_loopback


def _is_known(host: str, names: Collection[str]) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return host in names


@dataclass
class _Endpoints:
    """Answers requests; each connection is closed after its answer. Without `status` there is no page."""

    health: Health
    metrics: Metrics
    status: StatusPage | None
    names: Collection[str]

    async def answer(self, request: web.BaseRequest, server: _Server) -> web.StreamResponse:
        response = await self._answer(request, server)
        response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest, server: _Server) -> web.StreamResponse:
        exists = request.path in _PATHS or (self.status is not None and request.path in _STATUS_PATHS)
        if not exists or request.method not in ("GET", "HEAD"):
            return web.Response(status=405 if exists else 404)
        match request.path:
            case "/livez":
                return web.json_response({"alive": True})
            case "/readyz":
                return self._readiness()
            case "/metrics":
                headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
                return web.Response(body=await self.metrics.exposition(), headers=headers)
        assert self.status is not None
        if not _is_known(_host_name(request.headers.get("Host", "")), self.names):
            return web.Response(status=421, text=UNKNOWN_HOST, headers=status_page.PLAIN_HEADERS)
        match request.path:
            case "/":
                headers, body = status_page.headers(), await self.status.html()
                return web.Response(body=body, content_type="text/html", charset="utf-8", headers=headers)
            case "/status.json":
                headers, body = status_page.PLAIN_HEADERS, await self.status.document()
                return web.Response(body=body, content_type="application/json", headers=headers)
        return await self._events(self.status, request, server)

    def _readiness(self) -> web.Response:
        ready, notes = self.health.ready, brief(self.health.notes())
        body = {"ready": ready, "waiting": brief(self.health.waiting), "notes": notes}
        return web.json_response(body, status=200 if ready else 503)

    async def _events(
        self, status: StatusPage, request: web.BaseRequest, server: _Server
    ) -> web.StreamResponse:
        if request.method == "HEAD" or not server.listen(request):
            return web.Response(status=200 if request.method == "HEAD" else 503)
        headers = {"Content-Type": "text/event-stream", **status_page.PLAIN_HEADERS}
        response = web.StreamResponse(headers=headers)
        response.force_close()
        await response.prepare(request)
        with suppress(ConnectionError, TimeoutError):
            async for event in status.events():
                async with asyncio.timeout(SECONDS_FOR_AN_EVENT):
                    await response.write(event)
            return response
        if request.transport is not None:
            request.transport.abort()
        return response
