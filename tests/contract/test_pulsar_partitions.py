"""Topics that their owner has partitioned work like any other, and so do their subscriptions' own topics."""

from __future__ import annotations

import asyncio
import json
import urllib.request

import pytest

from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Broker, Consumer, Message, connect
from trustgraph_prompt.errors import BrokerClosed

pytestmark = pytest.mark.pulsar

MESSAGES = [b"%d" % number for number in range(60)]


@pytest.fixture
def broker_kind() -> str:
    return "pulsar"


def partition(server: PulsarServer, topic: str, count: int = 3) -> str:
    server.put(f"{topic.replace('://', '/')}/partitions", count)
    return topic


def add_partitions(server: PulsarServer, topic: str, count: int) -> None:
    url = f"{server.admin_url}/admin/v2/{topic.replace('://', '/')}/partitions"
    request = urllib.request.Request(
        url, json.dumps(count).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60):
        pass


async def next_of(consumer: Consumer) -> Message:
    message = await asyncio.wait_for(consumer.receive(), 20)
    assert message is not None
    return message


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_every_message_of_every_partition_is_received_under_the_topics_own_name(
    broker: Broker, pulsar: PulsarServer, namespace: str, persistence: str
) -> None:
    topic = partition(pulsar, f"{persistence}://{namespace}/parted")
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await asyncio.gather(*(producer.send(data, key=data.decode()) for data in MESSAGES))
    received = [await next_of(consumer) for _ in MESSAGES]
    assert sorted(message.data for message in received) == sorted(MESSAGES)
    assert {message.topic for message in received} == {topic}
    await consumer.check()
    for message in received:
        await consumer.acknowledge(message)
    await consumer.close()
    again = await broker.consumer(topic, "s")
    await again.stop()
    assert await again.receive() is None


async def test_a_topic_that_is_only_called_like_a_partition_keeps_its_name(
    broker: Broker, namespace: str
) -> None:
    topic = f"persistent://{namespace}/part-partition-7"
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"x")
    assert (await next_of(consumer)).topic == topic


async def test_retried_and_buried_messages_name_the_topic_and_not_the_partition(
    broker: Broker, pulsar: PulsarServer, namespace: str
) -> None:
    topic = partition(pulsar, f"persistent://{namespace}/parted")
    partition(pulsar, f"{topic}-s-RETRY", 2)
    consumer = await broker.consumer(topic, "s")
    producer = await broker.producer(topic)
    await producer.send(b"x")
    first = await next_of(consumer)
    await consumer.retry(first, 0)
    second = await next_of(consumer)
    assert (second.data, second.topic, second.id, second.deliveries) == (b"x", topic, first.id, 2)
    await consumer.bury(second, "broken")
    dead = await next_of(await broker.consumer(f"{topic}-s-DLQ", "dead"))
    assert (dead.data, dead.topic, dead.properties["reason"]) == (b"x", topic, "broken")


async def test_exclusive_subscription_of_a_partitioned_topic_goes_to_one_of_two(
    broker: Broker, pulsar_url: str, pulsar: PulsarServer, namespace: str
) -> None:
    topic = partition(pulsar, f"persistent://{namespace}/parted")
    async with await connect(pulsar_url) as other:
        asking = [each.consumer(topic, "s", type="exclusive") for each in (broker, other)]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [isinstance(answer, Exception) for answer in answers].count(True) == 1


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_check_fails_once_the_topic_got_more_partitions(
    broker: Broker, pulsar: PulsarServer, namespace: str, persistence: str
) -> None:
    topic = partition(pulsar, f"{persistence}://{namespace}/parted", 2)
    consumer = await broker.consumer(topic, "s")
    await asyncio.to_thread(add_partitions, pulsar, topic, 3)
    with pytest.raises(BrokerClosed, match="partition-2"):
        await consumer.check()


async def test_a_partitioned_table_is_read_through_and_followed(
    broker: Broker, pulsar: PulsarServer, space: str
) -> None:
    topic = partition(pulsar, f"persistent://{space}/config/parted")
    producer = await broker.producer(topic)
    for data in (b"old", b"new"):
        await asyncio.gather(*(producer.send(data, key=f"k{number}") for number in range(20)))
    await producer.send(b"", key="k3")
    table = await broker.table(topic)
    assert {key: message.data for key, message in table.entries.items()} == {
        f"k{number}": b"new" for number in range(20) if number != 3
    }
    changes = table.changes()
    await producer.send(b"changed", key="k3")
    change = await asyncio.wait_for(anext(changes), 20)
    assert (change.key, change.data, change.topic) == ("k3", b"changed", topic)
    await table.close()
