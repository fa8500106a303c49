"""Consumers that the broker has forgotten though they are connected: they are found out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.pulsar_proxy import CLOSE_CONSUMER, PulsarProxy
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Broker, Consumer, Reader, connect, listen
from trustgraph_prompt.broker.protocol import CHECK_SECONDS
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable

pytestmark = pytest.mark.pulsar


@pytest.fixture
async def proxy(pulsar_url: str) -> AsyncIterator[PulsarProxy]:
    async with PulsarProxy(pulsar_url) as proxy:
        yield proxy


@pytest.fixture
async def broker(proxy: PulsarProxy) -> AsyncIterator[Broker]:
    async with await connect(proxy.url) as broker:
        yield broker


def unload(server: PulsarServer, topic: str) -> None:
    """The broker closes all consumers and producers of the topic, and tells them so."""
    server.put(f"{topic.replace('://', '/')}/unload")


async def forget(server: PulsarServer, proxy: PulsarProxy, topic: str) -> None:
    """The broker closes its consumer of the topic, who does not hear of it."""
    proxy.swallowing.add(CLOSE_CONSUMER)
    await asyncio.to_thread(unload, server, topic)
    await asyncio.wait_for(proxy.swallowed.wait(), 20)
    proxy.swallowing.clear()


async def hears(consumer: Consumer, broker: Broker) -> bool:
    producer = await broker.producer(consumer.topic)
    await producer.send(b"x")
    return await asyncio.wait_for(consumer.receive(), 20) is not None


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_check_finds_a_consumer_that_the_broker_has_forgotten(
    pulsar: PulsarServer, proxy: PulsarProxy, broker: Broker, pulsar_space: str, persistence: str
) -> None:
    topic = f"{persistence}://{pulsar_space}/flow/zombies"
    consumer = await broker.consumer(topic, "s")
    await consumer.check()
    await forget(pulsar, proxy, topic)
    with pytest.raises(BrokerClosed, match="knows of no such consumer"):
        await consumer.check()
    await consumer.close()
    again = await broker.consumer(topic, "s")
    await again.check()
    assert await hears(again, broker)


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_consumer_comes_back_by_itself_after_an_unload(
    pulsar: PulsarServer, broker: Broker, pulsar_space: str, persistence: str
) -> None:
    consumer = await broker.consumer(f"{persistence}://{pulsar_space}/flow/told", "s")
    await asyncio.to_thread(unload, pulsar, consumer.topic)
    async with asyncio.timeout(60):
        while True:
            try:
                await consumer.check()
                break
            except (BrokerClosed, BrokerUnavailable):
                await asyncio.sleep(0.1)
    assert await hears(consumer, broker)


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_check_without_an_answer_is_unavailable_and_not_closed(
    proxy: PulsarProxy, broker: Broker, pulsar_space: str, persistence: str
) -> None:
    consumer = await broker.consumer(f"{persistence}://{pulsar_space}/flow/frozen", "s")
    proxy.flowing.clear()
    asking = [asyncio.create_task(consumer.check()) for _ in range(3)]
    try:
        for answer in await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), 20):
            assert isinstance(answer, BrokerUnavailable)
    finally:
        proxy.flowing.set()
    assert await hears(consumer, broker)
    await consumer.check()


async def fails_after_a_wait(asked: Consumer | Reader) -> bool:
    """Whether an answer was waited for as long as one may take."""
    with pytest.raises(BrokerUnavailable) as told:
        await asked.check()
    return f"in {CHECK_SECONDS:g} s" in str(told.value)


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_check_fails_at_once_where_the_connection_is_gone(
    proxy: PulsarProxy, broker: Broker, pulsar_space: str, persistence: str
) -> None:
    consumer = await broker.consumer(f"{persistence}://{pulsar_space}/flow/cut", "s")
    reader = await broker.reader(f"persistent://{pulsar_space}/config/cut")
    proxy.flowing.clear()
    proxy.cut()
    try:
        for asked in (consumer, reader):
            if await fails_after_a_wait(asked):  # it had been asked before the client noticed
                assert not await fails_after_a_wait(asked)
    finally:
        proxy.flowing.set()


async def test_check_finds_a_reader_that_the_broker_has_forgotten(
    pulsar: PulsarServer, proxy: PulsarProxy, broker: Broker, pulsar_space: str
) -> None:
    topic = f"persistent://{pulsar_space}/config/zombies"
    reader = await broker.reader(topic)
    await reader.check()
    await forget(pulsar, proxy, topic)
    with pytest.raises(BrokerClosed, match="knows of no such reader"):
        await reader.check()


async def test_calls_and_table_changes_end_once_their_reader_is_forgotten(
    pulsar: PulsarServer,
    proxy: PulsarProxy,
    broker: Broker,
    pulsar_space: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen, "CHECK_EVERY", 0.5)
    topic = f"persistent://{pulsar_space}/config/table"
    response = f"non-persistent://{pulsar_space}/response/a"
    table = await broker.table(topic)
    caller = await broker.caller(f"non-persistent://{pulsar_space}/request/a", response)
    change = asyncio.ensure_future(anext(table.changes()))
    answer = asyncio.ensure_future(anext(caller.call(b"question")))
    await asyncio.sleep(2)
    assert not change.done()
    assert not answer.done()
    for forgotten in (topic, response):
        await forget(pulsar, proxy, forgotten)
        proxy.swallowed.clear()
    for waiting in (change, answer):
        with pytest.raises(BrokerClosed, match="knows of no such"):
            await asyncio.wait_for(waiting, 20)
    assert caller.closed
