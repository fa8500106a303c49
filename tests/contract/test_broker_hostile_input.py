"""What every broker does with hostile input and with use after the end: an error of ours, and it goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path

import pytest

from tests.support.brokers import every_broker
from trustgraph_prompt.broker import Broker, Consumer, EmbeddedBroker, Producer, PulsarBroker, connect
from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    MessageTooLarge,
    TopicInvalid,
)

broker_kind = every_broker


class Name(StrEnum):
    ID = "id"


@pytest.fixture(params=["persistent", "non-persistent"])
def topic(request: pytest.FixtureRequest, namespace: str) -> str:
    return f"{request.param}://{namespace}/edges"


async def is_alive(producer: Producer, consumer: Consumer) -> bool:
    await producer.send(b"alive")
    message = await consumer.receive()
    return message is not None and message.data == b"alive"


async def test_a_bad_name_is_refused_at_once(broker: Broker) -> None:
    for name in ["", "x", "flow:tg", "kafka://a/b/c", "persistent://a/b", "flow:tg:a b"]:
        with pytest.raises(TopicInvalid):
            await broker.producer(name)
        with pytest.raises(TopicInvalid):
            await broker.consumer(name, "s")
        with pytest.raises(TopicInvalid):
            await broker.reader(name)
        with pytest.raises(TopicInvalid):
            await broker.table(name)
        with pytest.raises(TopicInvalid):
            await broker.caller("request:tg:x", name)


async def test_a_bad_subscription_is_refused_at_once(broker: Broker, topic: str) -> None:
    for subscription in ["", "a b", "a/b"]:
        with pytest.raises(TopicInvalid, match="subscription"):
            await broker.consumer(topic, subscription)


async def test_queue_names_work_as_topics(broker: Broker, space: str) -> None:
    consumer = await broker.consumer(f"request:{space}:ask:default", "s")
    producer = await broker.producer(f"non-persistent://{space}/request/ask:default")
    assert consumer.topic == producer.topic
    assert await is_alive(producer, consumer)


TOO_LARGE: list[tuple[bytes, str | None, dict[str, str]]] = [
    (b"x" * 6_000_000, None, {}),
    (b"x" * 3_000_000, None, {"p": "y" * 3_000_000}),
    (b"x" * 3_000_000, "k" * 3_000_000, {}),
    (b"", None, {str(number): "y" * 600 for number in range(10_000)}),
]


async def test_too_large_message_is_refused_before_it_is_sent(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    for data, key, properties in TOO_LARGE:
        with pytest.raises(MessageTooLarge, match="edges"):
            await producer.send(data, key=key, properties=properties)
        assert await is_alive(producer, consumer)


async def test_the_largest_message_can_also_be_retried_and_buried(broker: Broker, namespace: str) -> None:
    topic = f"persistent://{namespace}/edges"
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    await producer.send(b"x" * 4_999_000, key="k" * 500, properties={"p": "y" * 499})
    message = await consumer.receive()
    assert message is not None
    await consumer.retry(message, 0.0)
    message = await consumer.receive()
    assert message is not None
    assert len(message.data) == 4_999_000
    await consumer.bury(message, "a reason as long as the message, and \ud800: " + "x" * 5_000_000)
    dead = await (await broker.consumer(f"{topic}-s-DLQ", "dead")).receive()
    assert dead is not None
    assert len(dead.data) == 4_999_000
    assert dead.properties["reason"].startswith("a reason")


async def test_text_that_is_no_unicode_is_refused(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    for key, properties in (("\ud800", {}), (None, {"p": "\ud800"}), (None, {"\ud800": "v"})):
        with pytest.raises(BrokerError, match="UTF-8"):
            await producer.send(b"x", key=key, properties=properties)
    assert await is_alive(producer, consumer)


async def test_str_enum_is_accepted_as_key_and_property(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    await producer.send(b"x", key=Name.ID, properties={Name.ID: Name.ID})
    message = await consumer.receive()
    assert message is not None
    assert (message.key, message.properties) == ("id", {"id": "id"})


async def test_failing_calls_disturb_no_other_at_the_same_time(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    good, bad = producer.send(b"good"), producer.send(b"bad", properties={"n": 1})  # type: ignore[dict-item]
    first, wrong, surrogate, last = await asyncio.gather(
        good, bad, broker.producer("flow:tg:\ud800"), producer.send(b"alive"), return_exceptions=True
    )
    assert isinstance(first, str)
    assert isinstance(wrong, BrokerError)
    assert isinstance(surrogate, TopicInvalid)
    assert isinstance(last, str)
    assert [m.data for _ in range(2) if (m := await consumer.receive())] == [b"good", b"alive"]


async def test_a_step_that_fails_in_the_store_fails_alone() -> None:
    async with await connect("embedded:") as broker:
        producer = await broker.producer("flow:tg:x")
        first, wrong, last = await asyncio.gather(
            producer.send(b"1"),
            broker.consumer("request:tg:new", "s", buffer=2**64),
            producer.send(b"2"),
            return_exceptions=True,
        )
        assert isinstance(first, str)
        assert isinstance(wrong, BrokerError)
        assert isinstance(last, str)
        consumer = await broker.consumer("flow:tg:x", "s")
        assert [m.data for _ in range(2) if (m := await consumer.receive())] == [b"1", b"2"]
        # Nothing of the failed step stayed behind: the place is still free.
        await broker.consumer("request:tg:new", "s", type="exclusive")


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e300])
async def test_a_delay_that_never_ends_is_refused(broker: Broker, namespace: str, delay: float) -> None:
    topic = f"persistent://{namespace}/edges"
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    with pytest.raises(BrokerError, match="delay"):
        await producer.send(b"x", deliver_after=delay)
    await producer.send(b"x")
    message = await consumer.receive()
    assert message is not None
    with pytest.raises(BrokerError, match="delay"):
        await consumer.retry(message, delay)
    await consumer.acknowledge(message)
    assert await is_alive(producer, consumer)


async def test_topic_too_long_for_its_dead_letter_topic_is_refused_when_subscribing(
    broker: Broker, namespace: str
) -> None:
    name = "n" * (512 - len(f"persistent://{namespace}/"))
    with pytest.raises(TopicInvalid, match="512"):
        await broker.consumer(f"persistent://{namespace}/{name[:-10]}", "subscription")


async def test_the_longest_name_can_be_consumed_and_its_dead_letters_too(
    broker: Broker, namespace: str
) -> None:
    name = "n" * (512 - len(f"persistent://{namespace}/-s-RETRY"))
    topic = f"persistent://{namespace}/{name}"
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    await producer.send(b"x")
    message = await consumer.receive()
    assert message is not None
    await consumer.bury(message, "bad")
    dead = await (await broker.consumer(f"{topic}-s-DLQ", "dead")).receive()
    assert dead is not None
    assert dead.topic == topic


async def test_control_characters_survive(broker: Broker, topic: str) -> None:
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    await producer.send(b"x", key="k\x00\n'", properties={"a\x00'\"": "\x00\r\n\u2028"})
    message = await consumer.receive()
    assert message is not None
    assert (message.key, message.properties) == ("k\x00\n'", {"a\x00'\"": "\x00\r\n\u2028"})


async def test_a_closed_producer_sends_nothing(broker: Broker, topic: str) -> None:
    producer = await broker.producer(topic)
    await producer.close()
    await producer.close()
    with pytest.raises(BrokerClosed):
        await producer.send(b"x")


async def test_a_closed_broker_does_nothing_more(broker_url: str, topic: str) -> None:
    broker = await connect(broker_url)
    producer, consumer = await broker.producer(topic), await broker.consumer(topic, "s")
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0.1)
    await broker.close()
    await broker.close()
    assert await waiting is None
    with pytest.raises(BrokerClosed):
        await producer.send(b"x")
    with pytest.raises(BrokerClosed):
        await broker.producer(topic)
    with pytest.raises(BrokerClosed):
        await broker.consumer(topic, "s")
    with pytest.raises(BrokerClosed):
        await broker.reader("flow:tg:edges")


async def test_a_message_of_another_broker_cannot_be_acknowledged(broker: Broker, namespace: str) -> None:
    topic = f"persistent://{namespace}/edges"
    consumer, producer = await broker.consumer(topic, "s"), await broker.producer(topic)
    await producer.send(b"x")
    message = await consumer.receive()
    assert message is not None
    stranger = type(message)(message.data, message.topic, message.id)
    with pytest.raises(BrokerError):
        await consumer.acknowledge(stranger)
    await consumer.acknowledge(message)
    await consumer.acknowledge(message)
    assert await is_alive(producer, consumer)


@pytest.mark.pulsar
async def test_topic_in_a_missing_namespace_is_refused(pulsar_url: str) -> None:
    async with await connect(pulsar_url) as broker:
        for topic in ("persistent://nobody/nowhere/x", "non-persistent://nobody/nowhere/x"):
            with pytest.raises(TopicInvalid, match="nowhere"):
                await broker.producer(topic)
            with pytest.raises(TopicInvalid, match="nowhere"):
                await broker.consumer(topic, "s")


async def test_each_url_has_its_broker(broker_url: str) -> None:
    async with await connect(broker_url) as broker:
        expected = PulsarBroker if broker_url.startswith("pulsar") else EmbeddedBroker
        assert isinstance(broker, expected)


@pytest.mark.parametrize(
    "url", ["", "x", "kafka://localhost", "http://localhost", "pulsar://", "pulsar://h:99999"]
)
async def test_invalid_broker_url_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="pulsar://"):
        await connect(url)


async def test_a_broker_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(BrokerUnavailable, match="nohost"):
        await connect("pulsar://nohost.invalid:6650")


async def test_a_file_that_is_no_broker_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "letter.txt"
    text.write_text("Dear Sir,\n" * 1000)
    with pytest.raises(BrokerUnavailable, match=r"letter\.txt"):
        await connect(f"embedded:{text}")
    assert text.read_text().startswith("Dear Sir,")


async def test_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE photos (name)")
    before = other.read_bytes()
    with pytest.raises(BrokerUnavailable, match=r"other\.db.*expected a broker file"):
        await connect(f"embedded:{other}")
    assert other.read_bytes() == before


async def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    brokers = await asyncio.gather(*(connect(f"embedded:{tmp_path}/new.db") for _ in range(8)))
    consumer = await brokers[0].consumer("flow:tg:x", "s")
    for broker in brokers:
        await (await broker.producer("flow:tg:x")).send(b"x")
    for _ in brokers:
        assert await consumer.receive() is not None
    for broker in brokers:
        await broker.close()


async def test_topics_without_waiting_receivers_take_no_memory() -> None:
    async with await connect("embedded:") as broker:

        async def objects_after(name: str, visits: int) -> int:
            for number in range(visits):
                await (await broker.consumer(f"request:tg:{name}-{number}", "s")).close()
            gc.collect()
            return len(gc.get_objects())

        before = await objects_after("first", 20)
        assert await objects_after("later", 300) < before + 100


def modes_of(folder: Path, pattern: str) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.glob(pattern)}


async def test_broker_file_is_not_readable_by_others(tmp_path: Path) -> None:
    (tmp_path / "shared.db").touch(mode=0o660)
    before = os.umask(0o022)
    try:
        for name in ("new.db", "shared.db"):
            async with await connect(f"embedded:{tmp_path / name}") as broker:
                await (await broker.producer("flow:tg:x")).send(b"secret")
                modes = modes_of(tmp_path, f"{name}*")
            assert modes.keys() == {name, f"{name}-wal", f"{name}-shm", f"{name}-peers"}
            assert not [mode for mode in modes.values() if mode & 0o007]
            assert name == "shared.db" or set(modes.values()) == {0o600, 0o700}
    finally:
        os.umask(before)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800.db"])
async def test_invalid_path_is_refused_at_once(path: str) -> None:
    with pytest.raises(BrokerUnavailable, match="cannot be opened"):
        await asyncio.wait_for(connect(f"embedded:{path}"), 30)


async def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        await connect(f"embedded:{tmp_path}/no/such/directory/broker.db")


async def test_importing_the_broker_package_does_not_import_pulsars_client() -> None:
    code = "import sys, trustgraph_prompt.broker; sys.exit('pulsar' in sys.modules)"
    assert (
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=False)
    ).returncode == 0
