"""Tables on a real Pulsar: what compaction takes away, deletions of both kinds, reading that is cut off."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator

import pulsar as pulsar_client
import pytest

from tests.support.pulsar_proxy import PulsarProxy
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Broker, Producer, Table, connect
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable

pytestmark = pytest.mark.pulsar


@pytest.fixture
def topic(pulsar_space: str) -> str:
    return f"persistent://{pulsar_space}/config/table"


@pytest.fixture
async def proxy(pulsar_url: str) -> AsyncIterator[PulsarProxy]:
    async with PulsarProxy(pulsar_url) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: PulsarProxy) -> AsyncIterator[Broker]:
    """The broker, over a connection that can be cut."""
    async with await connect(proxy.url) as broker:
        yield broker


@pytest.fixture
async def near(pulsar_url: str) -> AsyncIterator[Broker]:
    async with await connect(pulsar_url) as broker:
        yield broker


async def compact(server: PulsarServer, topic: str) -> None:
    path = f"{topic.replace('://', '/')}/compaction"
    await asyncio.to_thread(server.put, path)

    def status() -> str:
        with urllib.request.urlopen(f"{server.admin_url}/admin/v2/{path}", timeout=60) as answer:
            return str(json.load(answer)["status"])

    async with asyncio.timeout(60):
        while (now := await asyncio.to_thread(status)) != "SUCCESS":
            assert now != "ERROR"
            await asyncio.sleep(0.1)


def values(table: Table) -> dict[str, bytes]:
    return {key: message.data for key, message in table.entries.items()}


async def publish(producer: Producer, **entries: bytes) -> None:
    for key, data in entries.items():
        await producer.send(data, key=key)


async def test_deletion_compacted_away_while_disconnected_is_found_by_reading_anew(
    pulsar: PulsarServer, proxy: PulsarProxy, far: Broker, near: Broker, topic: str
) -> None:
    producer = await near.producer(topic)
    await publish(producer, gone=b"1", kept=b"1")
    table = await far.table(topic)
    assert values(table) == {"gone": b"1", "kept": b"1"}
    change = asyncio.ensure_future(anext(table.changes()))
    proxy.flowing.clear()
    proxy.cut()
    await publish(producer, gone=b"")
    await compact(pulsar, topic)
    await publish(producer, later=b"1")
    proxy.flowing.set()
    with pytest.raises(BrokerClosed, match="connection"):
        await asyncio.wait_for(change, 60)
    with pytest.raises(BrokerClosed, match="connection"):
        await table.check()
    await table.close()
    assert values(await far.table(topic)) == {"kept": b"1", "later": b"1"}


async def test_table_cut_off_while_it_is_read_is_an_error(
    proxy: PulsarProxy, far: Broker, near: Broker, topic: str
) -> None:
    producer = await near.producer(topic)
    await asyncio.gather(*(producer.send(b"x" * 20_000, key=f"k{number}") for number in range(300)))
    reading = asyncio.create_task(far.table(topic))
    async with asyncio.timeout(60):
        while proxy.passed < 1_000_000:
            await asyncio.sleep(0)
    proxy.flowing.clear()
    proxy.cut()
    with pytest.raises((BrokerClosed, BrokerUnavailable)):
        await asyncio.wait_for(reading, 60)
    proxy.flowing.set()
    assert len((await far.table(topic)).entries) == 300


async def test_compacted_and_later_entries_are_one_table(
    pulsar: PulsarServer, near: Broker, topic: str
) -> None:
    producer = await near.producer(topic)
    await publish(producer, a=b"1", b=b"1", c=b"1")
    await publish(producer, a=b"2", b=b"")
    await compact(pulsar, topic)
    await publish(producer, a=b"3", c=b"", d=b"1")
    assert values(await near.table(topic)) == {"a": b"3", "d": b"1"}
    await compact(pulsar, topic)
    await compact(pulsar, topic)
    assert values(await near.table(topic)) == {"a": b"3", "d": b"1"}


async def test_no_value_and_an_empty_value_both_delete(near: Broker, pulsar_url: str, topic: str) -> None:
    producer = await near.producer(topic)
    consumer = await near.consumer(topic, "s")
    await publish(producer, null=b"1", empty=b"1", kept=b"1")
    followed = await near.table(topic)
    changes = followed.changes()

    def delete() -> None:
        quiet = pulsar_client.FileLogger(pulsar_client.LoggerLevel.Error, os.devnull)
        client = pulsar_client.Client(pulsar_url, logger=quiet)
        stranger = client.create_producer(topic)
        stranger.send(None, partition_key="null")
        stranger.send(b"", partition_key="empty")
        client.close()

    await asyncio.to_thread(delete)
    for deleted in ("null", "empty"):
        change = await asyncio.wait_for(anext(changes), 20)
        assert (change.key, change.data) == (deleted, b"")
    assert values(await near.table(topic)) == {"kept": b"1"}
    received = []
    for _ in range(5):
        message = await asyncio.wait_for(consumer.receive(), 20)
        assert message is not None
        await consumer.acknowledge(message)
        received.append((message.key, message.data))
    assert received[-2:] == [("null", b""), ("empty", b"")]
