"""Whether a consumer's place still stands: asked of every broker, and what each does to a place."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.support.brokers import every_broker
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.errors import BrokerClosed, SubscriptionBusy

broker_kind = every_broker


@pytest.fixture(params=["persistent", "non-persistent"])
def topic(request: pytest.FixtureRequest, namespace: str) -> str:
    return f"{request.param}://{namespace}/places"


async def test_check_passes_while_receiving_and_while_others_share_the_subscription(
    broker: Broker, topic: str
) -> None:
    consumer = await broker.consumer(topic, "s")
    other = await broker.consumer(topic, "s")
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.gather(*(place.check() for place in (consumer, other, consumer)))
    await other.close()
    await consumer.check()
    producer = await broker.producer(topic)
    await producer.send(b"x")
    assert await asyncio.wait_for(waiting, 20)


async def test_check_passes_for_an_exclusive_consumer(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", type="exclusive")
    await consumer.check()
    await consumer.check()


async def test_a_check_takes_no_message_from_anybody(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    sent = [b"%d" % number for number in range(50)]

    async def check() -> None:
        for _ in range(20):
            await consumer.check()

    checking = asyncio.create_task(check())
    received = []
    for data in sent:
        await producer.send(data)
        message = await asyncio.wait_for(consumer.receive(), 20)
        assert message is not None
        received.append(message.data)
    await checking
    assert received == sent


async def test_check_fails_after_close(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    await consumer.close()
    with pytest.raises(BrokerClosed):
        await consumer.check()


async def test_check_fails_after_a_non_persistent_consumer_was_stopped(
    broker: Broker, namespace: str
) -> None:
    consumer = await broker.consumer(f"non-persistent://{namespace}/places", "s")
    await consumer.stop()
    with pytest.raises(BrokerClosed):
        await consumer.check()


async def test_check_fails_once_the_connection_is_closed(broker_url: str, topic: str) -> None:
    async with await connect(broker_url) as broker:
        consumer = await broker.consumer(topic, "s")
    with pytest.raises(BrokerClosed):
        await consumer.check()


async def test_check_of_a_reader_passes_until_it_is_closed(broker: Broker, namespace: str) -> None:
    reader = await broker.reader(f"persistent://{namespace}/places")
    waiting = asyncio.create_task(reader.receive())
    await reader.check()
    await reader.check()
    await reader.close()
    assert await asyncio.wait_for(waiting, 20) is None
    with pytest.raises(BrokerClosed):
        await reader.check()


async def test_cancelled_opening_leaves_no_exclusive_consumer_behind(broker: Broker, topic: str) -> None:
    for turns in range(0, 12, 3):
        opening = asyncio.create_task(broker.consumer(topic, "s", type="exclusive"))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        with suppress(asyncio.CancelledError, SubscriptionBusy):  # the one before may still be leaving
            await opening.result().close()  # it was open already, and is ours
    async with asyncio.timeout(30):
        while True:
            try:
                consumer = await broker.consumer(topic, "s", type="exclusive")
                break
            except SubscriptionBusy:
                await asyncio.sleep(0.05)
    await consumer.check()
