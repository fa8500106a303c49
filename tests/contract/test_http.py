"""What a worker answers over HTTP."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import pytest

from trustgraph_prompt.worker import logs
from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.http import serve
from trustgraph_prompt.worker.metrics import Metrics


async def readyz(health: Health) -> bytes:
    async with (
        serve("127.0.0.1:0", health, Metrics()) as bound,
        aiohttp.ClientSession() as session,
        session.get(f"http://{bound}/readyz") as response,
    ):
        return await response.read()


async def test_forty_keys_of_half_a_megabyte_were_an_answer_of_twenty() -> None:
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
async def test_garbage_gave_a_traceback(garbage: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    async with serve("127.0.0.1:0", Health(), Metrics()) as bound:
        host, _, port = bound.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        assert b" 400 " in await reader.readline()
        writer.close()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("configured")
async def test_a_defect_has_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    health = Health()
    health.notes = lambda: 1 / 0  # type: ignore[assignment, return-value]
    assert b"500" in await readyz(health)
    assert "ZeroDivisionError" in capsys.readouterr().err
