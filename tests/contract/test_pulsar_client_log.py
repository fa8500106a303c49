"""What Pulsar's client logs goes through Python's logging, and a short process ends as it should."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest

from trustgraph_prompt.broker import connect
from trustgraph_prompt.errors import BrokerError

pytestmark = pytest.mark.pulsar

SHORT = """
import asyncio, sys
from trustgraph_prompt.broker import connect

async def main(url, topic):
    async with await connect(url) as broker:
        consumer = await broker.consumer(topic, "s")
        producer = await broker.producer(topic)
        await producer.send(b"x")
        await consumer.receive()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_its_errors_are_logged_as_pulsars(
    pulsar_url: str, pulsar_space: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BrokerError):
        async with await connect(pulsar_url) as broker:
            await broker.producer(f"persistent://{pulsar_space}/no-such-namespace/x")
    [record, *_] = [record for record in caplog.records if record.name == "pulsar"]
    assert record.levelno >= logging.WARNING
    assert "no-such-namespace" in caplog.text


async def test_liveness_checks_log_nothing_above_debug(
    pulsar_url: str, pulsar_space: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with await connect(pulsar_url) as broker:
        caplog.set_level(logging.DEBUG, logger="pulsar")
        consumer = await broker.consumer(f"non-persistent://{pulsar_space}/request/checked", "s")
        for _ in range(8):
            await consumer.check()
    logged = [record for record in caplog.records if record.name == "pulsar"]
    assert [record.message for record in logged if record.levelno > logging.DEBUG] == []
    questions = [record for record in logged if "Failed to getLastMessageId" in record.message]
    probes = [record for record in logged if "Failed to create consumer" in record.message]
    assert len(questions) == 10
    assert 2 <= len(probes) < 6, "a broker is asked for the subscription now and then, not each time"


async def test_connecting_often_leaves_nothing_behind(pulsar_url: str) -> None:
    for _ in range(30):
        await asyncio.gather(*(_visit(pulsar_url) for _ in range(4)))
    assert len(asyncio.all_tasks()) == 1


async def _visit(url: str) -> None:
    async with await connect(url):
        pass


def test_short_processes_end_without_a_crash(pulsar_url: str, pulsar_space: str) -> None:
    codes = [
        subprocess.run(
            [sys.executable, "-c", SHORT, pulsar_url, f"persistent://{pulsar_space}/flow/short"],
            timeout=60,
            check=False,
            capture_output=True,
        ).returncode
        for _ in range(20)
    ]
    assert codes == [0] * 20
