"""What a worker answers over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from socket import AF_INET6, socket
from threading import Event

import aiohttp
import pytest
from prometheus_client import Metric

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.worker.telemetry import http, logs
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.http import serve
from trustgraph_prompt.worker.telemetry.metrics import Metrics


async def readyz(health: Health) -> bytes:
    async with (
        serve("127.0.0.1:0", health, Metrics()) as bound,
        aiohttp.ClientSession() as session,
        session.get(f"http://{bound}/readyz") as response,
    ):
        return await response.read()


async def test_answer_with_forty_long_notes_is_bounded() -> None:
    health = Health()
    keys = {f"config entry {number} {'k' * 500_000}": f"refused: {'k' * 500_000}" for number in range(40)}
    health.notes = lambda: keys
    body = await readyz(health)
    assert len(body) < 100_000
    assert body.count(b"config entry") == 40


async def test_thousands_of_notes_are_counted() -> None:
    health = Health()
    health.notes = lambda: {f"config entry {number}": "refused" for number in range(5_000)}
    body = await readyz(health)
    assert len(body) < 10_000
    assert b"4,900 more; the log has all" in body


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_address_without_a_host_serves_ipv4_and_ipv6(host: str) -> None:
    if host == "[::1]" and not socket_of_ipv6():
        pytest.skip("this system has no IPv6 loopback")
    async with serve(":0", Health(), Metrics()) as bound, aiohttp.ClientSession() as session:
        port = bound.rpartition(":")[2]
        async with session.get(f"http://{host}:{port}/livez") as response:
            assert response.status == 200


def socket_of_ipv6() -> bool:
    with suppress(OSError), socket(AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


async def test_port_in_use_on_every_address_is_refused() -> None:
    async with serve(":0", Health(), Metrics()) as bound:
        with pytest.raises(ConfigError, match="cannot serve HTTP"):
            async with serve(f":{bound.rpartition(':')[2]}", Health(), Metrics()):
                pass


GARBAGE = {
    "not HTTP": b"garbage\r\n\r\n",
    "the beginning of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a header without a colon": b"GET /readyz HTTP/1.1\r\nBad header\r\n\r\n",
    "a version of nobody": b"GET / HTTP/9.9\r\n\r\n",
    "a long line": b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
    "an invalid URL": b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.fixture
def configured(root_log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_malformed_request_is_answered_with_400_and_no_traceback(
    garbage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
        host, _, port = bound.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        assert b" 400 " in await reader.readline()
        writer.close()
    assert capsys.readouterr().err == ""


async def opened(bound: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = bound.partition(":")
    return await asyncio.open_connection(host, int(port))


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What came before the connection ended, and it has ended."""
    try:
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        return b""


async def test_silent_connections_beyond_the_limit_are_closed() -> None:
    async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
        silent = [await opened(bound) for _ in range(300)]
        async with aiohttp.ClientSession() as session, session.get(f"http://{bound}/livez") as response:
            assert response.status == 200
        for reader, _ in silent[: 300 - http.MAX_CONNECTIONS]:
            assert await ended(reader) == b""
        for _, writer in silent:
            writer.close()


ASKED = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


def knock(stack: ExitStack, bound: str) -> socket:
    """A connection that is beginning."""
    host, _, port = bound.partition(":")
    client = stack.enter_context(socket())
    client.setblocking(False)
    with suppress(BlockingIOError):
        client.connect((host, int(port)))
    return client


async def test_probe_is_answered_while_silent_connections_keep_coming() -> None:
    answer = b""
    async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
        with ExitStack() as silent, ExitStack() as asking:
            probe = None
            for turn in range(400):
                knock(silent, bound)
                if turn == 100:
                    probe = knock(asking, bound)
                    probe.send(ASKED)
                await asyncio.sleep(0)
                if probe is not None:
                    with suppress(BlockingIOError):
                        answer = probe.recv(1000)
                        break
    assert b"200 OK" in answer


class Gate:
    """A metric that is read when it may be."""

    def __init__(self) -> None:
        self.reached, self.opened = Event(), Event()

    def collect(self) -> Iterator[Metric]:
        self.reached.set()
        self.opened.wait(60)
        return iter(())


async def test_silent_connections_do_not_end_one_that_is_being_answered() -> None:
    metrics, gate = Metrics(), Gate()
    async with serve("127.0.0.1:0", Health(), metrics) as bound:
        metrics.registry.register(gate)
        reader, writer = await opened(bound)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.to_thread(gate.reached.wait, 60)
        silent = [await opened(bound) for _ in range(2 * http.MAX_CONNECTIONS)]
        assert await ended(silent[0][0]) == b""
        gate.opened.set()
        assert b"200 OK" in await ended(reader)
        for each in (writer, *(each for _, each in silent)):
            each.close()


@pytest.mark.parametrize("said", [b"", b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: "])
async def test_connection_without_a_whole_request_is_closed(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SECONDS_FOR_A_REQUEST", 0.1)
    async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
        reader, writer = await opened(bound)
        writer.write(said)
        assert await ended(reader) == b""
        writer.close()


async def test_a_connection_is_for_one_request() -> None:
    async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
        reader, writer = await opened(bound)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await ended(reader)
        writer.close()


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/livez", 405)])
async def test_unknown_path_is_404_and_wrong_method_is_405(method: str, path: str, status: int) -> None:
    async with (
        serve("127.0.0.1:0", Health(), Metrics()) as bound,
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{bound}{path}") as response,
    ):
        assert response.status == status


@contextmanager
def descriptors_below(limit: int) -> Iterator[None]:
    """This process can open no descriptor of the limit or above."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing until it closes something."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken: list[int] = []
    with descriptors_below(highest + 1):
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.dup(0))
            yield
        finally:
            for descriptor in taken:
                os.close(descriptor)


@pytest.mark.usefixtures("configured")
async def test_probes_are_answered_without_a_free_descriptor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as open_files:
        async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
            host, _, port = bound.partition(":")
            clients = [open_files.enter_context(socket()) for _ in range(2)]
            with no_descriptors():
                for client in clients:
                    client.setblocking(False)
                    await loop.sock_connect(client, (host, int(port)))
                    await loop.sock_sendall(client, b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
                    assert b"200 OK" in await asyncio.wait_for(loop.sock_recv(client, 1000), 30)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("configured")
async def test_defect_is_answered_with_500_and_has_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    health = Health()
    health.notes = lambda: 1 / 0  # type: ignore[assignment, return-value]
    assert b"500" in await readyz(health)
    assert "ZeroDivisionError" in capsys.readouterr().err
