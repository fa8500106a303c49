"""What every broker promises about persistent topics: nothing is lost, whoever closes or dies."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.brokers import every_broker
from trustgraph_prompt.broker import Broker, Consumer
from trustgraph_prompt.errors import BrokerClosed, SubscriptionBusy

broker_kind = every_broker

#: Long enough for a broker to deliver what it should not, short enough to wait for.
A_WHILE = 0.5


@pytest.fixture
def topic(namespace: str) -> str:
    return f"persistent://{namespace}/work"


async def publish(broker: Broker, topic: str, *payloads: bytes) -> None:
    producer = await broker.producer(topic)
    for payload in payloads:
        await producer.send(payload)
    await producer.close()


async def take(consumer: Consumer, count: int) -> list[bytes]:
    """The next messages, acknowledged."""
    taken = []
    for _ in range(count):
        message = await consumer.receive()
        assert message is not None
        await consumer.acknowledge(message)
        taken.append(message.data)
    return taken


async def is_empty(broker: Broker, topic: str, subscription: str) -> bool:
    """Whether nothing but a marker sent just now is waiting. What an open consumer holds cannot be seen."""
    consumer = await broker.consumer(topic, subscription)
    await publish(broker, topic, b"marker")
    first = await take(consumer, 1)
    await consumer.close()
    return first == [b"marker"]


async def test_a_message_arrives_as_it_was_sent(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    before = time.time()
    id = await producer.send(b"\x00\xffdata", key="ключ 🔑", properties={"id": "1", "größe": "10 € 🙂"})
    message = await consumer.receive()
    assert message is not None
    assert message.data == b"\x00\xffdata"
    assert message.key == "ключ 🔑"
    assert message.properties == {"id": "1", "größe": "10 € 🙂"}
    assert message.topic == topic
    assert message.id == id
    assert message.deliveries == 1
    assert before - 60 < message.published < time.time() + 60


async def test_a_message_may_be_empty_and_an_empty_key_is_none(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"")
    await producer.send(b"x", key="")
    first, second = await consumer.receive(), await consumer.receive()
    assert first is not None
    assert second is not None
    assert (first.data, first.key, first.properties) == (b"", None, {})
    assert (second.data, second.key) == (b"x", None)


async def test_a_new_subscription_begins_with_the_earliest_message(broker: Broker, topic: str) -> None:
    await publish(broker, topic, b"1", b"2", b"3")
    consumer = await broker.consumer(topic, "late")
    assert await take(consumer, 3) == [b"1", b"2", b"3"]


async def test_every_subscription_gets_every_message(broker: Broker, topic: str) -> None:
    first, second = await broker.consumer(topic, "a"), await broker.consumer(topic, "b")
    await publish(broker, topic, b"1", b"2")
    assert await take(first, 2) == [b"1", b"2"]
    assert await take(second, 2) == [b"1", b"2"]


async def test_a_subscription_outlives_its_consumers(broker: Broker, topic: str) -> None:
    await (await broker.consumer(topic, "s")).close()
    await publish(broker, topic, b"1", b"2")
    consumer = await broker.consumer(topic, "s")
    assert await take(consumer, 1) == [b"1"]
    await consumer.close()
    assert await take(await broker.consumer(topic, "s"), 1) == [b"2"]


async def test_acknowledged_message_never_comes_again(broker: Broker, topic: str) -> None:
    await publish(broker, topic, b"1", b"2")
    consumer = await broker.consumer(topic, "s")
    await take(consumer, 2)
    await consumer.close()
    assert await is_empty(broker, topic, "s")


async def test_unacknowledged_message_comes_again_when_its_consumer_closes(
    broker: Broker, topic: str
) -> None:
    first = await broker.consumer(topic, "s")
    await publish(broker, topic, b"1")
    held = await first.receive()
    second = await broker.consumer(topic, "s")
    waiting = asyncio.create_task(second.receive())
    await first.close()
    again = await waiting
    assert held is not None
    assert again is not None
    assert (again.data, again.id) == (b"1", held.id)


async def test_shared_consumers_divide_the_messages_and_none_hoards(broker: Broker, topic: str) -> None:
    idle = await broker.consumer(topic, "s")
    await publish(broker, topic, *(b"%d" % number for number in range(20)))
    held = await idle.receive()
    busy = await broker.consumer(topic, "s")
    # One that the idle consumer received and one that its client may hold ahead are all it keeps to itself.
    others = await take(busy, 18)
    assert held is not None
    assert held.data not in others
    assert len(set(others)) == 18


async def test_an_exclusive_subscription_has_one_consumer(broker: Broker, topic: str) -> None:
    only = await broker.consumer(topic, "s", type="exclusive")
    with pytest.raises(SubscriptionBusy):
        await broker.consumer(topic, "s", type="exclusive")
    with pytest.raises(SubscriptionBusy):
        await broker.consumer(topic, "s")
    await only.close()
    shared = await broker.consumer(topic, "s")
    with pytest.raises(SubscriptionBusy):
        await broker.consumer(topic, "s", type="exclusive")
    await shared.close()
    await broker.consumer(topic, "s", type="exclusive")


async def test_an_exclusive_consumer_receives_in_the_order_of_publication(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", type="exclusive")
    payloads = [b"%d" % number for number in range(50)]
    await publish(broker, topic, *payloads)
    assert await take(consumer, 50) == payloads


async def test_a_delayed_message_is_overtaken(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    start = time.monotonic()
    await producer.send(b"later", deliver_after=3.0)
    await producer.send(b"now")
    assert await take(consumer, 2) == [b"now", b"later"]
    assert time.monotonic() - start > 2.5


async def test_exclusive_subscription_ignores_a_delay(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s", type="exclusive")
    producer = await broker.producer(topic)
    await producer.send(b"later", deliver_after=3600.0)
    await producer.send(b"now")
    assert await take(consumer, 2) == [b"later", b"now"]
    await producer.send(b"again")
    message = await consumer.receive()
    assert message is not None
    await consumer.retry(message, 3600.0)
    assert await take(consumer, 1) == [b"again"]


async def test_batched_and_concurrent_sends_all_arrive(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic, batch=True)
    payloads = {b"%d" % number for number in range(3000)}
    sending = asyncio.gather(*(producer.send(payload) for payload in payloads))
    assert set(await take(consumer, 3000)) == payloads
    assert len(set(await sending)) == 3000


async def test_a_retried_message_comes_again_to_its_own_subscription(broker: Broker, topic: str) -> None:
    consumer, other = await broker.consumer(topic, "s"), await broker.consumer(topic, "other")
    producer = await broker.producer(topic)
    await producer.send(b"x", key="k", properties={"id": "1", "try": "1"})
    first = await consumer.receive()
    assert first is not None
    start = time.monotonic()
    await consumer.retry(first, 3.0, {"try": "2"})
    second = await consumer.receive()
    assert second is not None
    assert time.monotonic() - start > 2.5
    assert (second.data, second.key, second.topic, second.id) == (b"x", "k", topic, first.id)
    assert second.properties == {"id": "1", "try": "2"}
    assert second.deliveries == 2
    assert abs(second.published - first.published) < 0.01
    await consumer.retry(second, 0.0)
    third = await consumer.receive()
    assert third is not None
    assert (third.deliveries, third.id) == (3, first.id)
    await consumer.acknowledge(third)
    assert await take(other, 1) == [b"x"]
    await consumer.close()
    await other.close()
    assert await is_empty(broker, topic, "s")
    assert await is_empty(broker, topic, "other")


async def test_a_retry_outlives_the_consumer(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    await publish(broker, topic, b"x")
    message = await consumer.receive()
    assert message is not None
    await consumer.retry(message, 0.0)
    await consumer.close()
    again = await (await broker.consumer(topic, "s")).receive()
    assert again is not None
    assert (again.data, again.deliveries) == (b"x", 2)


async def test_dead_letters_keep_the_message_and_the_reason(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"bad", key="k", properties={"id": "1"})
    message = await consumer.receive()
    assert message is not None
    await consumer.retry(message, 0.0)
    message = await consumer.receive()
    assert message is not None
    await consumer.bury(message, "unknown prompt: «x»", {"prompt": "x"})
    await consumer.close()
    assert await is_empty(broker, topic, "s")

    dead = await (await broker.consumer(f"{topic}-s-DLQ", "dead")).receive()
    assert dead is not None
    assert (dead.data, dead.key, dead.topic, dead.id) == (b"bad", "k", topic, message.id)
    assert dead.deliveries == 2
    assert abs(dead.published - message.published) < 0.01
    assert dead.properties == {
        "id": "1",
        "prompt": "x",
        "reason": "unknown prompt: «x»",
        "subscription": "s",
    }


async def test_dead_letters_can_be_read_without_taking_them(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    await publish(broker, topic, b"1", b"2")
    for _ in range(2):
        message = await consumer.receive()
        assert message is not None
        await consumer.bury(message, "bad")
    for _ in range(2):
        reader = await broker.reader(f"{topic}-s-DLQ")
        seen = []
        while await reader.behind():
            message = await reader.receive()
            assert message is not None
            seen.append(message.data)
        assert seen == [b"1", b"2"]


async def test_message_cannot_pretend_to_be_retried_or_a_dead_letter(broker: Broker, topic: str) -> None:
    claims = {"REAL_TOPIC": "persistent://tg/flow/other", "RECONSUMETIMES": "99", "ORIGIN_MESSAGE_ID": "7"}
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"x", properties=claims)
    message = await consumer.receive()
    assert message is not None
    assert (message.topic, message.deliveries, message.properties) == (topic, 1, claims)


async def test_a_stranger_on_the_retry_topic_does_no_harm(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(f"{topic}-s-RETRY")
    await producer.send(b"x", properties={"RECONSUMETIMES": "-1e999", "ORIGIN_PUBLISH_TIME": "9" * 5000})
    message = await consumer.receive()
    assert message is not None
    assert (message.data, message.deliveries) == (b"x", 1)
    await consumer.bury(message, "who are you")


async def test_stopped_consumer_receives_no_more_and_can_still_acknowledge(
    broker: Broker, topic: str
) -> None:
    consumer = await broker.consumer(topic, "s")
    await publish(broker, topic, b"1", b"2")
    message = await consumer.receive()
    assert message is not None
    await consumer.stop()
    await consumer.stop()
    assert await consumer.receive() is None
    await consumer.acknowledge(message)
    await consumer.close()
    assert await take(await broker.consumer(topic, "s"), 1) == [b"2"]


@pytest.mark.parametrize("end", ["stop", "close"])
async def test_a_waiting_receive_ends_with_none(broker: Broker, topic: str, end: str) -> None:
    consumer = await broker.consumer(topic, "s")
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(A_WHILE)
    await getattr(consumer, end)()
    assert await asyncio.wait_for(waiting, 10) is None
    await consumer.close()
    await publish(broker, topic, b"1")
    assert await take(await broker.consumer(topic, "s"), 1) == [b"1"]


@pytest.mark.parametrize("end", ["stop", "close"])
@pytest.mark.parametrize("steps", range(5))
async def test_a_receive_that_has_just_begun_ends_with_none(
    broker: Broker, topic: str, end: str, steps: int
) -> None:
    consumer = await broker.consumer(topic, "s")
    receiving = asyncio.create_task(consumer.receive())
    for _ in range(steps):
        await asyncio.sleep(0)
    await getattr(consumer, end)()
    received = await asyncio.wait_for(receiving, 30)
    assert received is None
    await consumer.close()


async def test_a_closed_consumer_settles_nothing(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    await publish(broker, topic, b"1")
    message = await consumer.receive()
    assert message is not None
    await consumer.close()
    await consumer.close()
    assert await consumer.receive() is None
    for settle in (
        consumer.acknowledge(message),
        consumer.retry(message, 0.0),
        consumer.bury(message, "late"),
    ):
        with pytest.raises(BrokerClosed):
            await settle


async def test_a_cancelled_receive_loses_nothing(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    for number in range(10):
        payload = b"%d" % number
        early = asyncio.create_task(consumer.receive())
        for _ in range(number):
            await asyncio.sleep(0)
        early.cancel()
        await asyncio.gather(early, return_exceptions=True)
        await publish(broker, topic, payload)
        late = asyncio.create_task(consumer.receive())
        for _ in range(number):
            await asyncio.sleep(0)
        late.cancel()
        given = (await asyncio.gather(late, return_exceptions=True))[0]
        message = (
            await asyncio.wait_for(consumer.receive(), 30) if isinstance(given, BaseException) else given
        )
        assert message is not None
        assert message.data == payload
        await consumer.acknowledge(message)


async def test_each_message_ends_one_of_several_receives(broker: Broker, topic: str) -> None:
    consumer = await broker.consumer(topic, "s")
    taken: list[bytes] = []

    async def take_all() -> None:
        while len(taken) < 10 and (message := await consumer.receive()) is not None:
            taken.append(message.data)

    receiving = [asyncio.create_task(take_all()) for _ in range(3)]
    await asyncio.sleep(0)
    payloads = [b"%d" % number for number in range(10)]
    await publish(broker, topic, *payloads)
    await asyncio.wait(receiving, timeout=30, return_when="FIRST_COMPLETED")
    for task in receiving:
        task.cancel()
    await asyncio.gather(*receiving, return_exceptions=True)
    assert sorted(taken) == payloads
