"""What every broker promises about reading without a subscription: readers, and topics as tables."""

from __future__ import annotations

import asyncio
import sqlite3
import urllib.request
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from tests.support.brokers import every_broker
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Broker, Reader, Table, connect

broker_kind = every_broker


@pytest.fixture
def topic(space: str) -> str:
    return f"persistent://{space}/config/entries"


async def put(broker: Broker, topic: str, *entries: tuple[str | None, bytes]) -> None:
    producer = await broker.producer(topic)
    for key, data in entries:
        await producer.send(data, key=key)
    await producer.close()


def values(table: Table) -> dict[str, bytes]:
    return {key: message.data for key, message in table.entries.items()}


async def changed(table: Table, count: int) -> list[tuple[str | None, bytes]]:
    changes: list[tuple[str | None, bytes]] = []
    async with aclosing(table.changes()) as messages:
        async for message in messages:
            changes.append((message.key, message.data))
            if len(changes) == count:
                break
    return changes


async def read(reader: Reader, count: int) -> list[bytes]:
    messages = [await reader.receive() for _ in range(count)]
    return [message.data for message in messages if message is not None]


async def test_a_reader_sees_the_whole_topic_and_then_what_comes(broker: Broker, topic: str) -> None:
    await put(broker, topic, (None, b"1"), (None, b"2"))
    reader = await broker.reader(topic)
    assert await reader.behind()
    assert await read(reader, 2) == [b"1", b"2"]
    assert not await reader.behind()
    waiting = asyncio.create_task(reader.receive())
    await put(broker, topic, (None, b"3"))
    message = await waiting
    assert message is not None
    assert message.data == b"3"


async def test_a_reader_from_the_latest_sees_only_what_comes(broker: Broker, topic: str) -> None:
    await put(broker, topic, (None, b"old"))
    reader = await broker.reader(topic, start="latest")
    assert not await reader.behind()
    await put(broker, topic, (None, b"new"))
    assert await read(reader, 1) == [b"new"]


async def test_a_reader_of_an_empty_topic_is_not_behind(broker: Broker, topic: str) -> None:
    assert not await (await broker.reader(topic)).behind()


async def test_readers_take_nothing_from_subscriptions_nor_from_each_other(
    broker: Broker, topic: str
) -> None:
    consumer = await broker.consumer(topic, "s")
    await put(broker, topic, (None, b"1"), (None, b"2"))
    for _ in range(2):
        assert await read(await broker.reader(topic), 2) == [b"1", b"2"]
    message = await consumer.receive()
    assert message is not None
    assert message.data == b"1"


async def test_a_reader_under_way_misses_nothing_that_is_acknowledged_meanwhile(
    broker: Broker, topic: str
) -> None:
    consumer = await broker.consumer(topic, "s")
    reader = await broker.reader(topic)
    await put(broker, topic, (None, b"1"), (None, b"2"))
    for _ in range(2):
        message = await consumer.receive()
        assert message is not None
        await consumer.acknowledge(message)
    assert await read(reader, 2) == [b"1", b"2"]


async def test_closing_a_reader_ends_a_waiting_receive(broker: Broker, topic: str) -> None:
    reader = await broker.reader(topic)
    waiting = asyncio.create_task(reader.receive())
    await asyncio.sleep(0.2)
    await reader.close()
    await reader.close()
    assert await asyncio.wait_for(waiting, 10) is None
    assert await reader.receive() is None


async def test_a_table_is_the_last_message_of_each_key(broker: Broker, topic: str) -> None:
    await put(broker, topic, ("a", b"1"), ("b", b"1"), (None, b"no entry"), ("a", b"2"), ("ключ", b"3"))
    table = await broker.table(topic)
    assert values(table) == {"a": b"2", "b": b"1", "ключ": b"3"}
    assert table.entries["a"].key == "a"


async def test_an_empty_payload_deletes_a_key(broker: Broker, topic: str) -> None:
    await put(broker, topic, ("a", b"1"), ("b", b"1"), ("a", b""), ("c", b""), ("b", b""), ("b", b"2"))
    assert values(await broker.table(topic)) == {"b": b"2"}


async def test_an_empty_topic_is_an_empty_table(broker: Broker, topic: str) -> None:
    assert values(await broker.table(topic)) == {}


async def test_changes_begin_where_the_snapshot_ends(broker: Broker, topic: str) -> None:
    await put(broker, topic, ("a", b"1"))
    table = await broker.table(topic)
    await put(broker, topic, ("a", b"2"), (None, b"no entry"), ("b", b"1"), ("a", b""), ("a", b"3"))
    assert await changed(table, 4) == [("a", b"2"), ("b", b"1"), ("a", b""), ("a", b"3")]
    assert values(table) == {"a": b"1"}


async def test_closing_a_table_ends_its_changes(broker: Broker, topic: str) -> None:
    table = await broker.table(topic)
    following = asyncio.create_task(changed(table, 1))
    await asyncio.sleep(0.2)
    await table.close()
    await table.close()
    assert await asyncio.wait_for(following, 10) == []


async def test_a_table_keeps_its_entries_over_many_openings(broker: Broker, topic: str) -> None:
    await put(broker, topic, *((f"k{number % 10}", b"%d" % number) for number in range(200)))
    for _ in range(3):
        table = await broker.table(topic)
        assert values(table) == {f"k{number % 10}": b"%d" % number for number in range(190, 200)}
        await table.close()


async def test_replaced_values_take_no_room_while_a_table_is_followed(tmp_path: Path) -> None:
    """An embedded broker that kept it until nobody follows would fill the disk."""
    path, topic = tmp_path / "broker.db", "persistent://tg/config/entries"
    async with await connect(f"embedded:{path}") as broker:
        table = await broker.table(topic)
        producer = await broker.producer(topic)
        async with aclosing(table.changes()) as changes:
            for number in range(3_000):
                await producer.send(b"%d" % number, key="k")
                assert (await anext(changes)).data == b"%d" % number
        with closing(sqlite3.connect(path)) as database:
            (kept,) = database.execute("SELECT count(*) FROM messages").fetchone()
    assert kept <= 1_001


async def test_keys_that_are_gone_take_no_room_while_a_table_is_followed(tmp_path: Path) -> None:
    path, topic = tmp_path / "broker.db", "persistent://tg/config/entries"
    async with await connect(f"embedded:{path}") as broker:
        table = await broker.table(topic)
        async with aclosing(table.changes()) as changes:
            for generation in range(40):
                written = [(f"k{generation}", b"%d" % number) for number in range(100)]
                await put(broker, topic, *written, (f"k{generation}", b""))
                for _ in range(101):
                    await anext(changes)
        with closing(sqlite3.connect(path)) as database:
            (kept,) = database.execute("SELECT count(*) FROM messages").fetchone()
    assert kept <= 1_101


async def test_a_reader_that_lags_behind_misses_no_change_of_a_table(tmp_path: Path) -> None:
    topic = "persistent://tg/config/entries"
    async with await connect(f"embedded:{tmp_path / 'broker.db'}") as broker:
        slow, quick = [await broker.table(topic) for _ in range(2)]
        await put(broker, topic, *(("k", b"%d" % number) for number in range(2_500)))
        expected: list[tuple[str | None, bytes]] = [("k", b"%d" % number) for number in range(2_500)]
        assert await changed(quick, 2_500) == expected
        await put(broker, topic, ("k", b"last"))
        assert await changed(slow, 2_501) == [*expected, ("k", b"last")]


async def test_acknowledging_in_a_subscription_takes_nothing_from_a_table(broker: Broker, topic: str) -> None:
    await (await broker.table(topic)).close()
    consumer = await broker.consumer(topic, "s")
    await put(broker, topic, ("a", b"1"), ("b", b"2"))
    for _ in range(2):
        message = await consumer.receive()
        assert message is not None
        await consumer.acknowledge(message)
    assert values(await broker.table(topic)) == {"a": b"1", "b": b"2"}


async def test_deletion_holds_while_a_subscription_still_has_the_deleted_entry(
    broker: Broker, topic: str
) -> None:
    await (await broker.table(topic)).close()
    consumer = await broker.consumer(topic, "slow")
    await put(broker, topic, ("a", b"1"), ("a", b""))
    kept, deletion = await consumer.receive(), await consumer.receive()
    assert kept is not None
    assert deletion is not None
    await consumer.acknowledge(deletion)
    for _ in range(2):
        table = await broker.table(topic)
        assert values(table) == {}
        await table.close()


@pytest.mark.pulsar
async def test_a_table_reads_through_what_pulsar_has_compacted(
    pulsar: PulsarServer, pulsar_space: str
) -> None:
    topic = f"persistent://{pulsar_space}/config/compacted"
    async with await connect(pulsar.url) as broker:
        await put(broker, topic, ("a", b"1"), ("b", b"1"), ("a", b"2"), ("gone", b"1"), ("gone", b""))
        await compact(pulsar, topic)
        assert values(await broker.table(topic)) == {"a": b"2", "b": b"1"}
        await put(broker, topic, ("b", b""), ("c", b"3"))
        table = await broker.table(topic)
        assert values(table) == {"a": b"2", "c": b"3"}
        await put(broker, topic, ("a", b"4"))
        assert await changed(table, 1) == [("a", b"4")]


async def compact(server: PulsarServer, topic: str) -> None:
    """Have Pulsar compact the topic now, and wait until it has."""
    path = f"{topic.replace('://', '/')}/compaction"
    await asyncio.to_thread(server.put, path)

    def status() -> bytes:
        with urllib.request.urlopen(f"{server.admin_url}/admin/v2/{path}", timeout=30) as response:
            return bytes(response.read())

    while b"SUCCESS" not in await asyncio.to_thread(status):
        await asyncio.sleep(0.1)
