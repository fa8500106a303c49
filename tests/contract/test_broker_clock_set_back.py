"""A clock that is put back: what was put off on an embedded broker comes in time all the same."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from trustgraph_prompt.broker import Message
from trustgraph_prompt.broker.embedded import MEMORY, EmbeddedBroker

TOPIC = "flow:tg:work"
HOUR = 3600.0


class Clock:
    """The system's, which somebody has set."""

    def __init__(self) -> None:
        self.put_back = 0.0

    def __call__(self) -> float:
        return time.time() - self.put_back


@pytest.fixture(params=["memory", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return MEMORY if request.param == "memory" else str(tmp_path / "broker.db")


def seen(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if "the clock was set back" in record.getMessage()
    ]


async def test_retried_message_comes_in_time_although_the_clock_was_set_back(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    async with await EmbeddedBroker.connect(path, clock=clock) as broker:
        consumer = await broker.consumer(TOPIC, "s")
        producer = await broker.producer(TOPIC)
        await producer.send(b"put off")
        message = await consumer.receive()
        assert message is not None
        await consumer.retry(message, 0.3)
        waiting = asyncio.create_task(consumer.receive())
        clock.put_back = HOUR
        again = await asyncio.wait_for(waiting, 30)
    assert again is not None
    assert (again.data, again.deliveries) == (b"put off", 2)
    assert seen(caplog) == ["the clock was set back by 3600 s; advanced 1 delayed messages"]


async def test_clock_set_back_while_the_broker_is_closed_delays_no_message(tmp_path: Path) -> None:
    clock, path = Clock(), str(tmp_path / "broker.db")
    async with await EmbeddedBroker.connect(path, clock=clock) as broker:
        await (await broker.consumer(TOPIC, "s")).close()
        await (await broker.producer(TOPIC)).send(b"later", deliver_after=0.3)
    clock.put_back = HOUR
    async with await EmbeddedBroker.connect(path, clock=clock) as broker:
        consumer = await broker.consumer(TOPIC, "s")
        message = await asyncio.wait_for(consumer.receive(), 30)
    assert message is not None
    assert message.data == b"later"


async def test_two_brokers_that_notice_it_advance_a_delayed_message_once(tmp_path: Path) -> None:
    clock, path = Clock(), str(tmp_path / "broker.db")
    async with (
        await EmbeddedBroker.connect(path, clock=clock) as one,
        await EmbeddedBroker.connect(path, clock=clock) as other,
    ):
        consumers = [await broker.consumer(TOPIC, "s") for broker in (one, other)]
        producer = await one.producer(TOPIC)
        await producer.send(b"later", deliver_after=HOUR)
        clock.put_back = HOUR / 2
        for data in (b"1", b"2"):  # so that each looks
            await producer.send(data)
        receives = [asyncio.create_task(consumer.receive()) for consumer in consumers]
        assert {received(message) for message in await asyncio.gather(*receives)} == {b"1", b"2"}
        await producer.send(b"3")
        assert received(await consumers[0].receive()) == b"3"  # the oldest that is due
        clock.put_back -= HOUR
        await producer.send(b"4")
        assert received(await consumers[0].receive()) == b"later"


def received(message: Message | None) -> bytes:
    assert message is not None
    return message.data
