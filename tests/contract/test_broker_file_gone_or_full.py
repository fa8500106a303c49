"""A broker in a file that is moved or deleted under it, or whose disk is full: `check` tells."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from typing import Any

import pytest

from trustgraph_prompt.broker import Broker, Consumer, Message, Producer, connect
from trustgraph_prompt.broker.embedded import EmbeddedBroker, database_file
from trustgraph_prompt.errors import BrokerUnavailable, SubscriptionBusy

TOPIC = "flow:tg:work"
CALLS = "non-persistent://tg/request/calls"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def url(folder: Path) -> str:
    return f"embedded:{folder / 'broker.db'}"


@pytest.fixture
async def broker(url: str) -> AsyncIterator[Broker]:
    async with await connect(url) as opened:
        yield opened


@pytest.fixture
async def consumer(broker: Broker) -> Consumer:
    return await broker.consumer(TOPIC, "s")


@pytest.fixture
async def producer(broker: Broker) -> Producer:
    return await broker.producer(TOPIC)


def delete(folder: Path) -> None:
    for file in folder.glob("broker.db*"):
        if file.is_file():
            file.unlink()


def move(folder: Path, to: Path) -> None:
    folder.rename(to)


async def test_check_and_send_fail_once_the_file_was_deleted(
    consumer: Consumer, producer: Producer, folder: Path, url: str
) -> None:
    await consumer.check()
    delete(folder)
    for attempt in (consumer.check(), producer.send(b"m")):
        with pytest.raises(BrokerUnavailable, match="moved or deleted, it is gone"):
            await attempt
    async with await connect(url):  # which makes a new one
        with pytest.raises(BrokerUnavailable, match="another is in its place"):
            await consumer.check()


async def test_file_is_not_looked_at_before_every_message(
    consumer: Consumer, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    stat = os.stat

    def counted(path: Any, **options: Any) -> os.stat_result:
        nonlocal looks
        looks += "broker.db" in str(path)
        return stat(path, **options)

    monkeypatch.setattr(database_file, "SECONDS_BETWEEN_LOOKS", 3600.0)
    await consumer.check()
    monkeypatch.setattr(os, "stat", counted)
    for _ in range(20):
        await producer.send(b"m")
        message = await consumer.receive()
        assert message is not None
        await consumer.acknowledge(message)
    assert looks == 0


async def test_broker_goes_on_when_its_moved_folder_comes_back(
    consumer: Consumer, producer: Producer, folder: Path
) -> None:
    await producer.send(b"before")
    move(folder, folder.with_name("elsewhere"))
    for attempt in (consumer.check(), producer.send(b"meanwhile"), consumer.receive()):
        with pytest.raises(BrokerUnavailable, match="moved or deleted"):
            await attempt
    move(folder.with_name("elsewhere"), folder)
    await consumer.check()
    await producer.send(b"after")
    received = [await consumer.receive() for _ in range(2)]
    assert [message and message.data for message in received] == [b"before", b"after"]


@pytest.mark.parametrize("part", ["-wal", "-shm"])
@pytest.mark.parametrize("opened", ["a new file", "an old one"])
async def test_check_and_send_fail_without_a_part_of_the_file(
    folder: Path, url: str, opened: str, part: str
) -> None:
    if opened == "an old one":
        async with await connect(url) as broker:
            await (await broker.producer(TOPIC)).send(b"before")
    async with await connect(url) as broker:
        consumer, producer = await broker.consumer(TOPIC, "s"), await broker.producer(TOPIC)
        await consumer.check()
        (folder / f"broker.db{part}").unlink()
        for attempt in (consumer.check(), producer.send(b"m")):
            with pytest.raises(BrokerUnavailable, match=f"{part}: the file was moved or deleted"):
                await attempt


async def test_broker_whose_file_was_deleted_closes_without_error_or_new_file(url: str, folder: Path) -> None:
    async with await connect(url) as broker:
        await broker.consumer(TOPIC, "s")
        delete(folder)
    assert not (folder / "broker.db").exists()


def data(message: Message | None) -> bytes:
    assert message is not None
    return message.data


@asynccontextmanager
async def away(folder: Path, noticed_by: Consumer) -> AsyncIterator[None]:
    """The folder is elsewhere for the time of the block."""
    move(folder, folder.with_name("elsewhere"))
    with pytest.raises(BrokerUnavailable):
        await noticed_by.check()
    yield
    move(folder.with_name("elsewhere"), folder)


async def exclusive(broker: Broker, topic: str) -> Consumer:
    """Opened as soon as its place is free."""
    while True:
        try:
            return await broker.consumer(topic, "exclusive", type="exclusive")
        except SubscriptionBusy:
            await asyncio.sleep(0.1)


async def test_closing_while_the_file_is_away_gives_back_what_was_held(
    broker: Broker, consumer: Consumer, producer: Producer, folder: Path
) -> None:
    await producer.send(b"held")
    assert data(await consumer.receive()) == b"held"
    async with away(folder, consumer):
        await consumer.close()
    successor = await broker.consumer(TOPIC, "s")
    assert data(await asyncio.wait_for(successor.receive(), 60)) == b"held"


@pytest.mark.parametrize(("topic", "end"), [(TOPIC, "close"), (CALLS, "close"), (CALLS, "stop")])
async def test_exclusive_subscription_is_free_after_its_consumer_ended_without_the_file(
    broker: Broker, folder: Path, topic: str, end: str
) -> None:
    first = await exclusive(broker, topic)
    async with away(folder, first):
        await getattr(first, end)()
    await asyncio.wait_for(exclusive(broker, topic), 60)


async def test_receive_ends_when_its_consumer_is_stopped_while_the_file_is_away(
    broker: Broker, folder: Path
) -> None:
    consumer = await broker.consumer(CALLS, "s")
    waiting = asyncio.create_task(consumer.receive())
    async with away(folder, consumer):
        await consumer.stop()
        with pytest.raises(BrokerUnavailable):
            await asyncio.wait_for(waiting, 60)
    assert await asyncio.wait_for(consumer.receive(), 60) is None


@contextmanager
def full() -> Iterator[None]:
    """No file of this process can grow."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))


async def test_check_fails_while_the_disk_is_full(consumer: Consumer, producer: Producer) -> None:
    await producer.send(b"before")
    with full():
        with pytest.raises(BrokerUnavailable):
            await producer.send(b"m" * 100_000)
        for _ in range(3):
            with pytest.raises(BrokerUnavailable):
                await consumer.check()
    await consumer.check()
    message = await consumer.receive()
    assert message is not None
    assert message.data == b"before"


async def test_clock_set_back_while_the_disk_is_full_delays_no_message(folder: Path) -> None:
    put_back = 0.0
    async with await EmbeddedBroker.connect(
        str(folder / "broker.db"), clock=lambda: time.time() - put_back
    ) as broker:
        consumer, producer = await broker.consumer(TOPIC, "s"), await broker.producer(TOPIC)
        await producer.send(b"later", deliver_after=0.3)
        put_back = 3600.0
        with full(), pytest.raises(BrokerUnavailable):
            await consumer.receive()
        assert data(await asyncio.wait_for(consumer.receive(), 30)) == b"later"


async def test_a_disk_is_full_before_the_first_write_fails(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "LEAST_FREE", 2**60)
    with pytest.raises(BrokerUnavailable, match="MB free on the disk"):
        await consumer.check()


async def test_check_in_memory_ignores_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "LEAST_FREE", 2**60)
    async with await connect("embedded:") as broker:
        await (await broker.consumer(TOPIC, "s")).check()


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
async def test_file_of_somebody_else_beside_the_broker_is_kept(ending: str, folder: Path, url: str) -> None:
    mine = folder / f"broker.db{ending}"
    mine.write_text("my notes")
    with pytest.raises(BrokerUnavailable, match=f"would replace .*broker.db{ending}.* move it away"):
        await (await connect(url)).producer(TOPIC)
    assert (os.listdir(folder), mine.read_text()) == ([mine.name], "my notes")


async def test_zeros_that_a_power_cut_leaves_beside_the_broker_are_replaced(folder: Path, url: str) -> None:
    (folder / "broker.db-wal").write_bytes(bytes(100))
    async with await connect(url) as broker:
        await (await broker.consumer(TOPIC, "s")).check()
