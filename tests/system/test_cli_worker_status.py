"""`top` fetches statuses over real HTTP, from servers that misbehave and names that change."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.support.statuses import status
from trustgraph_prompt.cli import worker_status
from trustgraph_prompt.cli.worker_status import MAX_BYTES, Workers

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serves(document: object, **options: Any) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=document if isinstance(document, bytes) else json.dumps(document), **options)

    return answer


async def hangs(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def drips(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.01)


async def floods(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


class Servers:
    """Servers on addresses of the loopback network, all with the same port, and names for them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.port = 0
        self.names: dict[str, list[str]] = {}

    async def add(self, host: str, handler: Handler) -> str:
        """Serve the status so; returns the URL."""
        application = web.Application()
        application.router.add_get("/status.json", handler)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.01)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, host, self.port)
        await site.start()
        self.port = self.port or runner.addresses[0][1]
        return f"http://{host}:{self.port}"

    def resolve(self, host: str, port: int, *others: Any, **options: Any) -> list[Any]:
        """Look a name up, as `socket.getaddrinfo`."""
        if host not in self.names and not host.startswith("127."):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        hosts = self.names.get(host, [host])
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in hosts]


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    monkeypatch.setattr(worker_status, "SECONDS_FOR_AN_ANSWER", 1.0)
    async with AsyncExitStack() as stack:
        servers = Servers(stack)
        monkeypatch.setattr(socket, "getaddrinfo", servers.resolve)
        yield servers


@asynccontextmanager
async def following(workers: Workers) -> AsyncIterator[None]:
    async with workers:
        task = asyncio.create_task(workers.follow(0.02))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_name_is_all_workers_behind_it(servers: Servers) -> None:
    for number in (2, 3, 4):
        await servers.add(f"127.0.0.{number}", serves(status(f"worker-{number}")))
    servers.names["worker"] = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]

    async with Workers([f"http://worker:{servers.port}"]) as workers:
        await workers.look()

    instances = {address: each["worker"]["instance"] for address, each in workers.statuses.items()}
    assert instances == {f"127.0.0.{n}:{servers.port}": f"worker-{n}" for n in (2, 3, 4)}
    assert workers.missing == {}


async def test_workers_come_and_go_with_the_addresses_of_their_name(servers: Servers) -> None:
    await servers.add("127.0.0.2", serves(status("a")))
    await servers.add("127.0.0.3", serves(status("b")))
    servers.names["worker"] = ["127.0.0.2"]
    workers = Workers([f"http://worker:{servers.port}"])
    first, second = (f"127.0.0.{number}:{servers.port}" for number in (2, 3))

    async with following(workers):
        await until(lambda: [*workers.statuses] == [first])
        servers.names["worker"] = ["127.0.0.2", "127.0.0.3"]
        await until(lambda: [*workers.statuses] == [first, second])
        del servers.names["worker"]
        await until(lambda: bool(workers.missing))
        assert workers.missing == {f"http://worker:{servers.port}": "Name or service not known"}
        assert [*workers.statuses] == [first, second]
        servers.names["worker"] = ["127.0.0.3"]
        await until(lambda: [*workers.seen] == [second])


async def test_a_worker_with_two_addresses_counts_once(servers: Servers) -> None:
    urls = [await servers.add(f"127.0.0.{number}", serves(status("same"))) for number in (2, 3)]
    async with Workers([*urls, urls[0]]) as workers:
        await workers.look()
    assert [*workers.statuses] == [f"127.0.0.2:{servers.port}"]


async def test_a_worker_that_hangs_delays_no_other(servers: Servers) -> None:
    looks = 0

    async def counts(request: web.Request) -> web.StreamResponse:
        nonlocal looks
        looks += 1
        return await serves(status("b"))(request)

    urls = [await servers.add("127.0.0.2", hangs), await servers.add("127.0.0.3", counts)]
    workers = Workers(urls)
    async with following(workers):
        await until(lambda: looks > 5)
        assert f"127.0.0.2:{servers.port}" not in workers.seen  # it is still being waited for
        await until(lambda: bool(workers.missing))
    assert workers.missing == {f"127.0.0.2:{servers.port}": "no answer in 1 s"}


async def test_a_name_that_takes_long_to_look_up_is_looked_up_once_at_a_time(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups, looks, answered = 0, 0, threading.Event()

    def resolve(host: str, *others: Any, **options: Any) -> list[Any]:
        nonlocal lookups
        if host == "slow":
            lookups += 1
            answered.wait()
        return servers.resolve(host, *others, **options)

    async def counts(request: web.Request) -> web.StreamResponse:
        nonlocal looks
        looks += 1
        return await serves(status("b"))(request)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    workers = Workers([await servers.add("127.0.0.2", counts), "http://slow:8000"])
    try:
        async with following(workers):
            await until(lambda: looks > 10)
            assert lookups == 1
    finally:
        answered.set()


async def test_addresses_that_hang_leave_room_for_the_others(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_status, "MAX_CONNECTIONS", 2)
    urls = [await servers.add(f"127.0.0.{number}", hangs) for number in (2, 3)]
    urls.append(await servers.add("127.0.0.4", serves(status("b"))))
    async with Workers(urls) as workers:
        await workers.look()
    assert [*workers.statuses] == [f"127.0.0.4:{servers.port}"]


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (drips, "no answer in 1 s"),
        (floods, f"more than {MAX_BYTES:,} bytes, expected the status of a worker"),
        (serves(b"<html>"), "not the status of a worker: unexpected character"),
        (serves(b"[" * 100_000), "not the status of a worker: "),
        (serves(b'{"a":' * 500 + b"1" + b"}" * 500), "not the status of a worker: "),
        (serves({"version": 2}), "not the status of a worker: "),
        (serves({**status(), "at": "yesterday"}), "not the status of a worker: "),
        (serves({**status(), "dead_letters": {"x": -1}}), "not the status of a worker: "),
        (serves(status(), status=503), "HTTP 503, expected the status of a worker"),
        (serves(b"", status=421), "the worker answers to other names: start it with --http-host 127.0.0.2"),
        (serves(b"", status=302, headers={"Location": "http://127.0.0.3/"}), "HTTP 302, expected"),
        (
            serves(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}),
            "not the status of a worker: ",
        ),
    ],
)
async def test_response_that_is_no_status_has_a_short_reason(
    servers: Servers, handler: Handler, why: str
) -> None:
    urls = [await servers.add("127.0.0.2", handler), await servers.add("127.0.0.3", serves(status("b")))]
    async with Workers(urls) as workers:
        await workers.look()
    assert [*workers.statuses] == [f"127.0.0.3:{servers.port}"]
    [told] = workers.missing.values()
    assert told.startswith(why)
    assert len(told) <= 200


async def test_keys_of_a_later_release_are_ignored(servers: Servers) -> None:
    url = await servers.add("127.0.0.2", serves({**status(), "new": {}}))
    async with Workers([url]) as workers:
        await workers.look()
    assert len(workers.statuses) == 1


async def test_failure_of_tls_has_the_reason_ssl(servers: Servers) -> None:
    url = await servers.add("127.0.0.2", serves(status()))
    async with Workers([url.replace("http:", "https:")]) as workers:
        await workers.look()
    [told] = workers.missing.values()
    assert "SSL" in told


async def test_os_error_without_a_number_keeps_its_own_words(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **options: object) -> None:
        raise OSError("Multiple exceptions: of several addresses")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", refuse)
    async with Workers(["http://127.0.0.2:9"]) as workers:
        await workers.look()
    [told] = workers.missing.values()
    assert "Multiple exceptions" in told
