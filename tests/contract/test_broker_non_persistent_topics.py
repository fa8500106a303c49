"""What every broker promises about non-persistent topics: who is there and has room gets it, nobody else."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.brokers import every_broker
from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.broker.protocol import MAX_BUFFERED
from trustgraph_prompt.errors import SubscriptionBusy, TopicInvalid

broker_kind = every_broker


@pytest.fixture
def topic(namespace: str) -> str:
    return f"non-persistent://{namespace}/calls"


def data(message: Message | None) -> bytes:
    assert message is not None
    return message.data


async def test_a_message_arrives_as_it_was_sent(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"x", key="ключ", properties={"id": "größe"})
    message = await consumer.receive()
    assert message is not None
    assert (message.data, message.key, message.properties) == (b"x", "ключ", {"id": "größe"})
    assert (message.topic, message.deliveries) == (topic, 1)
    await consumer.acknowledge(message)


async def test_message_sent_without_a_subscriber_is_not_kept(broker: Broker, topic: str) -> None:
    producer = await broker.producer(topic)
    await producer.send(b"before")
    consumer = await broker.consumer(topic, "s")
    await producer.send(b"while")
    assert data(await consumer.receive()) == b"while"
    await consumer.close()
    await producer.send(b"between")
    again = await broker.consumer(topic, "s")
    await producer.send(b"after")
    assert data(await again.receive()) == b"after"


async def test_every_subscription_gets_a_message_and_one_consumer_of_each(broker: Broker, topic: str) -> None:
    exclusive = await broker.consumer(topic, "e", type="exclusive")
    shared = [await broker.consumer(topic, "s") for _ in range(2)]
    producer = await broker.producer(topic)
    payloads = [b"%d" % number for number in range(20)]
    for payload in payloads:
        await producer.send(payload)
    assert [data(await exclusive.receive()) for _ in payloads] == payloads
    for consumer in shared:
        await consumer.stop()
    divided = []
    for consumer in shared:
        while message := await consumer.receive():
            divided.append(message.data)
    assert sorted(divided) == sorted(payloads)


async def test_messages_have_different_ids(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    for _ in range(3):
        await producer.send(b"same")
    received = [await consumer.receive() for _ in range(3)]
    assert len({message.id for message in received if message}) == 3


async def test_full_buffer_drops_new_messages_and_keeps_those_it_has(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", buffer=10)
    producer = await broker.producer(topic)
    for number in range(100):
        await producer.send(b"%d" % number)
        await asyncio.sleep(0.001)
    await consumer.stop()
    kept = []
    while message := await consumer.receive():
        kept.append(int(message.data))
    assert 10 <= len(kept) <= 25
    assert kept[:10] == list(range(10))


BIG = 4_000_000


async def test_buffered_bytes_of_a_consumer_are_bounded(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    for number in range(2 * MAX_BUFFERED // BIG):
        await producer.send(b"%d " % number * (BIG // 4))
    await consumer.check()
    await consumer.stop()
    kept = []
    while message := await consumer.receive():
        kept.append(message.data)
    assert kept
    assert sum(map(len, kept)) <= MAX_BUFFERED


async def test_room_for_bytes_comes_back_as_messages_are_received(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    for number in range(2 * MAX_BUFFERED // BIG):
        await producer.send(b"%d " % number * (BIG // 4))
        assert data(await consumer.receive()).startswith(b"%d " % number)


async def test_large_messages_that_others_hold_take_no_room(broker: Broker, topic: str) -> None:
    full = await broker.consumer(f"{topic}-of-others", "s")
    await broker.consumer(topic, "s")
    consumer = await broker.consumer(topic, "t")
    producer, others = await broker.producer(topic), await broker.producer(full.topic)
    for number in range(2 * MAX_BUFFERED // BIG):
        await others.send(b"%d " % number * (BIG // 4))
    await producer.send(b"x")
    assert data(await asyncio.wait_for(consumer.receive(), 60)) == b"x"


async def test_room_comes_back_as_messages_are_received(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", buffer=4)
    producer = await broker.producer(topic)
    for number in range(50):
        await producer.send(b"%d" % number)
        assert data(await consumer.receive()) == b"%d" % number


async def test_a_burst_that_fits_is_received_whole(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", buffer=500)
    producer = await broker.producer(topic)
    await asyncio.gather(*(producer.send(b"%d" % number) for number in range(400)))
    assert {data(await consumer.receive()) for _ in range(400)} == {b"%d" % number for number in range(400)}


async def test_stopped_consumer_gives_its_messages_and_takes_no_more(broker: Broker, topic: str) -> None:
    stopping = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    for number in range(5):
        await producer.send(b"%d" % number)
    assert data(await stopping.receive()) == b"0"
    await stopping.stop()
    await stopping.stop()
    successor = await broker.consumer(topic, "s")
    await producer.send(b"new")
    # What a busy client hands over at a stop may come in another order.
    assert {data(await stopping.receive()) for _ in range(4)} == {b"1", b"2", b"3", b"4"}
    assert await stopping.receive() is None
    assert data(await successor.receive()) == b"new"
    await stopping.close()


async def test_stopped_consumer_ends_while_another_is_flooded(broker: Broker, topic: str) -> None:
    stopping, other = await broker.consumer(topic, "s"), await broker.consumer(topic, "other")
    producer = await broker.producer(topic)
    await stopping.stop()

    async def pour() -> None:
        for _ in range(100):
            await producer.send(b"x")

    async def drain() -> None:
        while await other.receive():
            pass

    pouring, draining = [asyncio.create_task(pour()) for _ in range(600)], asyncio.create_task(drain())
    await asyncio.sleep(0)
    assert await asyncio.wait_for(stopping.receive(), 60) is None
    assert not all(sender.done() for sender in pouring)
    for sender in pouring:
        sender.cancel()
    await asyncio.wait(pouring)
    await other.close()
    await draining


async def test_stopping_an_exclusive_consumer_frees_its_place(broker: Broker, topic: str) -> None:
    first = await broker.consumer(topic, "s", type="exclusive")
    with pytest.raises(SubscriptionBusy):
        await broker.consumer(topic, "s", type="exclusive")
    await first.stop()
    second = await broker.consumer(topic, "s", type="exclusive")
    producer = await broker.producer(topic)
    await producer.send(b"x")
    assert data(await second.receive()) == b"x"


@pytest.mark.parametrize("end", ["stop", "close"])
async def test_a_waiting_receive_ends_with_none(broker: Broker, topic: str, end: str) -> None:
    consumer = await broker.consumer(topic, "s")
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0.2)
    await getattr(consumer, end)()
    assert await asyncio.wait_for(waiting, 10) is None


async def test_messages_of_a_closed_consumer_are_gone(broker: Broker, topic: str) -> None:
    first = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    for _ in range(3):
        await producer.send(b"old")
    await first.receive()
    await first.close()
    assert await first.receive() is None
    second = await broker.consumer(topic, "s")
    await producer.send(b"new")
    assert data(await second.receive()) == b"new"


async def test_deliver_after_has_no_effect(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"x", deliver_after=3600.0)
    assert data(await consumer.receive()) == b"x"


async def test_retry_is_refused_and_dead_letters_are_kept(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"x", properties={"id": "1"})
    message = await consumer.receive()
    assert message is not None
    with pytest.raises(TopicInvalid):
        await consumer.retry(message, 1.0)
    await consumer.bury(message, "bad")
    kept = f"{topic.removeprefix('non-')}-s-DLQ"
    dead = await (await broker.consumer(kept, "dead")).receive()
    assert dead is not None
    assert (dead.data, dead.topic, dead.properties["reason"]) == (b"x", topic, "bad")


async def test_reader_and_table_are_refused(broker: Broker, topic: str) -> None:
    with pytest.raises(TopicInvalid):
        await broker.reader(topic)
    with pytest.raises(TopicInvalid):
        await broker.table(topic)


async def test_a_cancelled_receive_loses_nothing(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    for number in range(10):
        payload = b"%d" % number
        await producer.send(payload)
        cancelled = asyncio.create_task(consumer.receive())
        for _ in range(number):
            await asyncio.sleep(0)
        cancelled.cancel()
        given = (await asyncio.gather(cancelled, return_exceptions=True))[0]
        message = (
            await asyncio.wait_for(consumer.receive(), 30) if isinstance(given, BaseException) else given
        )
        assert message is not None
        assert message.data == payload


async def test_message_sent_while_stopping_never_comes_after_none(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    waiting = asyncio.create_task(consumer.receive())
    sending = asyncio.create_task(producer.send(b"x"))
    stopping = asyncio.create_task(consumer.stop())
    first = await waiting
    await asyncio.gather(sending, stopping)
    assert await consumer.receive() is None, "a message came after None" if first is None else "one too many"


async def test_stop_can_be_repeated_after_it_was_cancelled(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", type="exclusive")
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    await consumer.stop()
    await broker.consumer(topic, "s", type="exclusive")
