"""The status page over HTTP: its bounds, and that nobody who looks at it keeps a probe waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from socket import gethostbyname, gethostname, socket

import aiohttp
import pytest

from tests.contract.test_worker_http import ASKED, descriptors_below, ended, opened
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import ScriptedProvider
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker.telemetry import http, status_page
from trustgraph_prompt.worker.telemetry.status import Status
from trustgraph_prompt.worker.telemetry.status_page import StatusPage


def a_service() -> Service:
    """A service that has not found its broker yet."""
    return Service("embedded:", [], Prompts(), lambda model: ScriptedProvider([]))


@asynccontextmanager
async def served(
    service: Service | None = None, address: str = "127.0.0.1:0", hosts: Sequence[str] = ()
) -> AsyncIterator[str]:
    service = service or a_service()
    page = StatusPage(Status(service, "prompt"))
    async with http.serve(address, service.health, service.metrics, page, hosts=hosts) as bound:
        yield bound


async def listen(
    bound: str, stack: AsyncExitStack
) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for the events; gives the status of the answer, and what comes after it."""
    reader, writer = await opened(bound)
    stack.callback(writer.close)
    writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return (await asyncio.wait_for(reader.readline(), 60)).split()[1], reader, writer


async def until_admitted(bound: str) -> None:
    """Ask for the events until there is room for one more listener."""
    async with asyncio.timeout(60):
        while True:
            async with AsyncExitStack() as stack:
                if (await listen(bound, stack))[0] == b"200":
                    return


async def event(reader: asyncio.StreamReader) -> dict[str, object]:
    """The next event of a stream."""
    async with asyncio.timeout(60):
        while not (line := await reader.readline()).startswith(b"data: "):
            assert line
    read: dict[str, object] = json.loads(line.removeprefix(b"data: "))
    return read


async def test_probes_are_answered_beside_many_listeners_and_silent_connections() -> None:
    async with served() as bound, AsyncExitStack() as stack:
        listeners = [await listen(bound, stack) for _ in range(http.MAX_LISTENERS)]
        assert {status for status, *_ in listeners} == {b"200"}
        for _ in range(100):
            stack.callback((await opened(bound))[1].close)
        async with aiohttp.ClientSession() as session:
            for path, status in (("/livez", 200), ("/readyz", 503), ("/", 200), ("/status.json", 200)):
                async with session.get(f"http://{bound}{path}") as response:
                    assert response.status == status
        for _, reader, _ in listeners:
            assert "head" in str(await event(reader))


async def test_one_listener_too_many_is_refused_until_another_leaves() -> None:
    async with served() as bound, AsyncExitStack() as stack:
        listeners = [await listen(bound, stack) for _ in range(http.MAX_LISTENERS)]
        assert {status for status, *_ in listeners} == {b"200"}
        assert (await listen(bound, stack))[0] == b"503"
        listeners[0][2].close()
        await until_admitted(bound)


async def test_listener_that_stops_reading_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_LISTENERS", 1)
    monkeypatch.setattr(http, "SECONDS_FOR_AN_EVENT", 0.1)
    monkeypatch.setattr(status_page, "SECONDS_BETWEEN_LOOKS", 0.0)
    service, looks = a_service(), count()
    service.health.notes = lambda: {f"note {number}": f"{next(looks)}" * 200 for number in range(100)}
    async with served(service) as bound, AsyncExitStack() as stack:
        status, _, writer = await listen(bound, stack)
        assert status == b"200"
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until_admitted(bound)


async def test_the_first_event_has_the_whole_page_and_the_next_what_has_changed() -> None:
    service = a_service()
    async with served(service) as bound, AsyncExitStack() as stack:
        _, reader, _ = await listen(bound, stack)
        first = await event(reader)
        assert set(first["sections"]) == {  # type: ignore[call-overload]
            *("head", "problems", "totals", "flows", "prompts", "provider", "config", "outcomes")
        }
        service.health.waiting["broker"] = "<b>away</b>"
        while "broker" not in str(second := await event(reader)):
            pass
        assert list(second["sections"]) == ["problems"]  # type: ignore[call-overload]
        assert "&lt;b&gt;away&lt;/b&gt;" in str(second)
        assert second["instance"] == first["instance"]


async def test_status_requests_within_a_second_share_one_look() -> None:
    service, looks = a_service(), []
    service.health.notes = lambda: looks.append(1) or {}  # type: ignore[func-returns-value]
    async with served(service) as bound, aiohttp.ClientSession() as session:
        assert looks == []

        async def get() -> bytes:
            async with session.get(f"http://{bound}/status.json") as response:
                return await response.read()

        answers = set(await asyncio.gather(*(get() for _ in range(10))))
        assert len(looks) == len(answers)


async def test_a_listener_gives_way_when_no_descriptor_is_left() -> None:
    loop = asyncio.get_running_loop()
    async with served() as bound, AsyncExitStack() as stack:
        _, reader, _ = await listen(bound, stack)
        await event(reader)
        host, _, port = bound.partition(":")
        probe = stack.enter_context(socket())
        probe.setblocking(False)
        with descriptors_below(1):  # whatever threads of earlier tests may still close
            await loop.sock_connect(probe, (host, int(port)))
            await ended(reader)
        await loop.sock_sendall(probe, ASKED)
        assert b"200 OK" in await asyncio.wait_for(loop.sock_recv(probe, 1000), 30)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/status.json", "/events"])
async def test_the_status_is_read_only(method: str, path: str) -> None:
    async with (
        served() as bound,
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{bound}{path}") as response,
    ):
        assert response.status == 405


@pytest.mark.parametrize("path", ["/", "/status.json", "/events"])
async def test_a_head_request_has_no_body(path: str) -> None:
    async with (
        served() as bound,
        aiohttp.ClientSession() as session,
        session.head(f"http://{bound}{path}") as response,
    ):
        assert response.status == 200
        assert await response.read() == b""


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":0"])
@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1", True),
        ("10.0.0.7:8080", True),
        ("[::1]:8080", True),
        ("localhost:8080", True),
        ("Prompts.Example.:8080", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[::1", False),
        ("", False),
    ],
)
async def test_status_is_only_for_known_hosts(address: str, host: str, is_known: bool) -> None:
    """A website may have its own name resolve to the worker, and a visitor's browser ask it."""
    async with served(address=address, hosts=["prompts.example"]) as bound:
        port = bound.rpartition(":")[2]
        for path in ("/", "/status.json", "/events"):
            status, body = await got(port, path, host)
            assert status == (200 if is_known else 421)
            assert is_known or b"--http-host NAME" in body
        for path, expected in (("/livez", 200), ("/readyz", 503), ("/metrics", 200)):
            assert (await got(port, path, host))[0] == expected


@pytest.mark.parametrize("host", ["https://prompts.example/", "*.example", "", "[::1"])
async def test_a_host_that_no_request_can_name_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="--http-host: not a host name"):
        async with served(hosts=["prompts.example:8080", host]):
            pass


async def test_status_is_served_under_the_name_that_it_is_bound_to() -> None:
    name = gethostname()
    try:
        gethostbyname(name)
    except OSError:
        pytest.skip(f"this system does not resolve its own name {name}")
    async with served(address=f"{name}:0") as bound:
        host, _, port = bound.rpartition(":")
        assert (await got(port, "/status.json", name, host))[0] == 200


async def got(port: str, path: str, host: str, address: str = "127.0.0.1") -> tuple[int, bytes]:
    """The status and the first part of the answer to a request for a host."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}:{port}{path}", headers={"Host": host}) as response,
    ):
        return response.status, await response.content.readany()


async def test_open_listeners_do_not_delay_the_end() -> None:
    async with AsyncExitStack() as stack:
        async with served() as bound:
            _, reader, _ = await listen(bound, stack)
            await event(reader)
        assert (await ended(reader)).endswith(b"0\r\n\r\n")
