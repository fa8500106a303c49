"""A Pulsar that takes less than usual: smaller messages, and none for a while."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.own_pulsar import Locked, token
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.errors import MessageTooLarge

pytestmark = [pytest.mark.pulsar, pytest.mark.xdist_group("access")]

PROPERTY = "x" * 500_000
COUNT = 400
#: Bytes. Twice what a producer may have in flight, and the messages as they were given to it.
BOUND = 150_000_000


@pytest.fixture
async def broker(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setenv("PULSAR_TOKEN", token("admin"))
    async with await connect(locked.server.url) as broker:
        yield broker


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_too_large_message_fails_at_once_and_alone(
    broker: Broker, persistence: str, batch: bool
) -> None:
    topic = f"{persistence}://tg/flow/large-{batch}"
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic, batch=batch)
    messages = [b"before", b"x" * 2_000_000, b"after"]
    sending = [asyncio.create_task(producer.send(data)) for data in messages]
    done, _ = await asyncio.wait(sending, timeout=20)
    assert len(done) == 3
    assert isinstance(sending[1].exception(), MessageTooLarge)
    for expected in (b"before", b"after"):
        message = await asyncio.wait_for(consumer.receive(), 20)
        assert message is not None
        assert message.data == expected
        await consumer.acknowledge(message)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_frozen_broker_is_waited_for_in_bounded_memory_and_gets_all_once(
    locked: Locked, broker: Broker
) -> None:
    topic = "persistent://tg/flow/frozen"
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"first")
    before = resident()
    locked.server.freeze()
    try:
        sending = [
            asyncio.create_task(producer.send(b"%d" % number, properties={"large": PROPERTY}))
            for number in range(COUNT)
        ]
        await asyncio.wait(sending, timeout=3)
        assert not any(task.done() for task in sending)
        grown = resident() - before
    finally:
        locked.server.thaw()
    assert grown < BOUND
    await asyncio.gather(*sending)
    received: list[bytes] = []
    while len(received) < COUNT + 1:
        message = await asyncio.wait_for(consumer.receive(), 20)
        assert message is not None
        await consumer.acknowledge(message)
        received.append(message.data)
    assert received == [b"first", *(b"%d" % number for number in range(COUNT))]
    await consumer.close()
    again = await broker.reader(topic, start="earliest")
    seen = 0
    while await again.behind() and await again.receive():
        seen += 1
    assert seen == COUNT + 1


async def test_cancelled_sends_to_a_frozen_broker_stay_within_bounded_memory(
    locked: Locked, broker: Broker
) -> None:
    producer = await broker.producer("persistent://tg/flow/given-up")
    await producer.send(b"first")
    before = resident()
    locked.server.freeze()
    try:
        for _ in range(6):
            sending = [
                asyncio.create_task(producer.send(b"x", properties={"large": PROPERTY})) for _ in range(200)
            ]
            await asyncio.wait(sending, timeout=0.5)
            for task in sending:
                task.cancel()
            await asyncio.wait(sending)
            assert all(task.cancelled() for task in sending)
        grown = resident() - before
    finally:
        locked.server.thaw()
    assert grown < BOUND
    await asyncio.wait_for(producer.send(b"next", properties={"large": PROPERTY}), 60)
