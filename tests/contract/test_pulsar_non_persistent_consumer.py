"""What a non-persistent consumer of Pulsar loses between its first and its last moment: nothing."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Consumer, Message, connect

pytestmark = pytest.mark.pulsar


@pytest.fixture
def topic(pulsar_space: str) -> str:
    return f"non-persistent://{pulsar_space}/flow/calls"


@contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Threads that hold the interpreter for long stretches, so that the loop comes round rarely."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sorted(range(2_000_000, 0, -1))

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


async def rest(consumer: Consumer) -> list[Message]:
    messages = []
    while message := await consumer.receive():
        messages.append(message)
    return messages


async def test_new_consumer_gets_the_very_next_message(pulsar_url: str, topic: str) -> None:
    """Also as the successor of who has just left, whose subscription the broker is still taking down."""
    async with await connect(pulsar_url) as hearing, await connect(pulsar_url) as sending:
        producer = await sending.producer(topic)
        for _ in range(300):
            consumer = await hearing.consumer(topic, "s")
            await producer.send(b"x")
            assert await asyncio.wait_for(consumer.receive(), 10)
            await consumer.close()


def permits(pulsar: PulsarServer, topic: str) -> int:
    """How many more messages the broker may send to the one consumer; it drops what is beyond."""
    url = f"{pulsar.admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
    with urllib.request.urlopen(url, timeout=30) as answer:
        [consumer] = json.load(answer)["subscriptions"]["s"]["consumers"]
    return int(consumer["availablePermits"])


async def test_a_busy_process_loses_nothing_when_it_stops(
    pulsar: PulsarServer, pulsar_url: str, topic: str
) -> None:
    async with await connect(pulsar_url) as hearing, await connect(pulsar_url) as sending:
        producer = await sending.producer(topic)
        payloads = [b"%d" % number for number in range(300)]
        consumer = await hearing.consumer(topic, "s", buffer=200)
        for payload in payloads[:200]:
            await producer.send(payload)
        while await asyncio.to_thread(permits, pulsar, topic) < 100:
            await asyncio.sleep(0.05)
        for payload in payloads[200:]:
            await producer.send(payload)
        with busy_threads(2):
            await consumer.stop()
        assert [message.data for message in await rest(consumer)] == payloads


async def test_flooded_consumer_stops_soon_and_leaves_no_task(pulsar_url: str, topic: str) -> None:
    before = asyncio.all_tasks()
    async with await connect(pulsar_url) as hearing, await connect(pulsar_url) as sending:
        consumer = await hearing.consumer(topic, "s", buffer=10)
        producer = await sending.producer(topic)
        under_way, over = asyncio.Event(), asyncio.Event()

        async def pour() -> None:
            while not over.is_set():
                await asyncio.gather(*(producer.send(b"x") for _ in range(200)))
                under_way.set()

        pouring = asyncio.create_task(pour())
        await under_way.wait()
        await consumer.stop()
        over.set()
        await pouring
        assert len(await rest(consumer)) <= 20
    assert asyncio.all_tasks() == before
