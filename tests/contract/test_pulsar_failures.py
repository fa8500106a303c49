"""What Pulsar's own ways can bring: messages that are no text, crowds of letters, ends that are cut off."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import urllib.request
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import pytest
from pulsar import FileLogger, LoggerLevel
from pulsar.asyncio import Client

from tests.support.pulsar_proxy import LOOKUP_RESPONSE, PulsarProxy
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Consumer, Message, Reader, connect
from trustgraph_prompt.broker.pulsar import broker as pulsar_broker
from trustgraph_prompt.broker.pulsar import producer as pulsar_producer
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable, SubscriptionBusy, TopicInvalid

pytestmark = pytest.mark.pulsar


@pytest.fixture
def topic(pulsar_space: str) -> str:
    return f"persistent://{pulsar_space}/flow/trouble"


@pytest.fixture
async def stranger(pulsar_url: str) -> AsyncIterator[Client]:
    """Another client, which does not care what it puts into properties."""
    quiet = FileLogger(LoggerLevel.Error, os.devnull)
    client = Client(pulsar_url, logger=quiet)
    yield client
    await client.close()


@pytest.fixture
async def proxy(pulsar_url: str) -> AsyncIterator[PulsarProxy]:
    async with PulsarProxy(pulsar_url) as proxy:
        yield proxy


async def send(client: Client, topic: str, data: bytes, *, id: Any) -> None:
    producer = await client.create_producer(topic)
    await producer.send(data, properties={"id": id})
    await producer.close()


async def next_of(source: Consumer | Reader) -> Message:
    message = await asyncio.wait_for(source.receive(), 20)
    assert message is not None
    return message


def stats(server: PulsarServer, topic: str) -> Any:
    path = topic.replace("://", "/")
    with urllib.request.urlopen(f"{server.admin_url}/admin/v2/{path}/stats", timeout=30) as answer:
        return json.load(answer)


def order(server: PulsarServer, method: str, path: str) -> None:
    """Have the admin interface do something with a topic."""
    request = urllib.request.Request(f"{server.admin_url}/admin/v2/{path}", method=method)
    with urllib.request.urlopen(request, timeout=30):
        pass


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
async def test_message_with_properties_that_are_no_text_is_buried(
    pulsar_url: str, pulsar_space: str, stranger: Client, persistence: str
) -> None:
    topic = f"{persistence}://{pulsar_space}/flow/hostile"
    async with await connect(pulsar_url) as broker:
        consumer = await broker.consumer(topic, "s")
        await send(stranger, topic, b"hostile", id=b"\xff\xfe")
        await send(stranger, topic, b"good", id="text")
        good = await next_of(consumer)
        assert (good.data, good.properties) == (b"good", {"id": "text"})
        dead = await broker.consumer(f"persistent://{pulsar_space}/flow/hostile-s-DLQ", "dead")
        letter = await next_of(dead)
        assert (letter.data, letter.topic) == (b"hostile", topic)
        assert "not UTF-8" in letter.properties["reason"]
        await consumer.acknowledge(good)
        await consumer.close()
        again = await broker.consumer(topic, "s")
        await again.stop()
        assert await again.receive() is None


async def test_a_caller_survives_a_response_whose_properties_are_no_text(
    pulsar_url: str, pulsar_space: str, stranger: Client
) -> None:
    request, response = (
        f"non-persistent://{pulsar_space}/{kind}/hostile" for kind in ("request", "response")
    )
    async with await connect(pulsar_url) as broker:
        requests = await broker.consumer(request, "s")
        answers = await broker.producer(response)
        caller = await broker.caller(request, response)
        await send(stranger, response, b"hostile", id=b"\xff\xfe")
        responses = caller.call(b"question")
        asking = asyncio.ensure_future(anext(responses))
        question = await next_of(requests)
        await answers.send(b"answer", properties={"id": question.properties["id"]})
        assert (await asyncio.wait_for(asking, 20)).data == b"answer"
        await responses.aclose()


async def test_a_reader_gives_a_message_without_properties_that_are_no_text(
    pulsar_url: str, topic: str, stranger: Client
) -> None:
    await send(stranger, topic, b"hostile", id=b"\xff\xfe")
    await send(stranger, topic, b"good", id="text")
    async with await connect(pulsar_url) as broker:
        reader = await broker.reader(topic)
        received = [await next_of(reader) for _ in range(2)]
        assert [(message.data, message.properties) for message in received] == [
            (b"hostile", {}),
            (b"good", {"id": "text"}),
        ]


@pytest.mark.parametrize("count", [0, 3])
async def test_a_table_opens_though_its_last_message_is_no_text(
    pulsar: PulsarServer, pulsar_url: str, topic: str, stranger: Client, count: int
) -> None:
    """Also the last one of a partition, before others that have not been read yet."""
    if count:
        await asyncio.to_thread(pulsar.put, f"{topic.replace('://', '/')}/partitions", count)
    async with await connect(pulsar_url) as broker:
        for partition in range(count or 1):
            part = f"{topic}-partition-{partition}" if count else topic
            producer = await broker.producer(part)
            await producer.send(b"1", key=f"key {partition}")
            if partition == 0:
                await send(stranger, part, b"hostile", id=b"\xff\xfe")
        table = await asyncio.wait_for(broker.table(topic), 20)
        assert set(table.entries) == {f"key {partition}" for partition in range(count or 1)}


async def test_letters_posted_together_share_one_producer(
    pulsar: PulsarServer, pulsar_url: str, topic: str
) -> None:
    async with await connect(pulsar_url) as broker:
        producer = await broker.producer(topic)
        consumer = await broker.consumer(topic, "s")
        for _ in range(20):
            await producer.send(b"x")
        messages = [await next_of(consumer) for _ in range(20)]
        await asyncio.gather(*(consumer.retry(message, 30) for message in messages))
        assert len((await asyncio.to_thread(stats, pulsar, f"{topic}-s-RETRY"))["publishers"]) == 1


async def test_cancelled_close_is_finished(pulsar_url: str, topic: str) -> None:
    async with await connect(pulsar_url) as broker:
        producer = await broker.producer(topic)
        await producer.send(b"x")
        consumer = await broker.consumer(topic, "s", type="exclusive")
        await consumer.retry(await next_of(consumer), 0)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        await consumer.close()
        await broker.consumer(topic, "s", type="exclusive")


async def test_unposted_dead_letter_keeps_no_consumer_in_its_subscription(
    pulsar_url: str, pulsar_space: str, proxy: PulsarProxy
) -> None:
    topic = f"non-persistent://{pulsar_space}/flow/closing"
    async with await connect(proxy.url) as far, await connect(pulsar_url) as near:
        closing = await far.consumer(topic, "s")
        producer = await near.producer(topic)
        await producer.send(b"dead")
        proxy.swallowing = {LOOKUP_RESPONSE}
        burying = asyncio.create_task(closing.bury(await next_of(closing), "why"))
        await asyncio.wait_for(proxy.swallowed.wait(), 20)
        waiting = asyncio.create_task(closing.receive())
        await closing.close()
        assert await asyncio.wait_for(waiting, 20) is None
        successor = await near.consumer(topic, "s")
        for number in range(20):
            await producer.send(b"%d" % number)
        assert {(await next_of(successor)).data for _ in range(20)} == {b"%d" % n for n in range(20)}
        burying.cancel()


async def test_dead_letter_is_posted_after_one_that_failed_unawaited(
    pulsar: PulsarServer, pulsar_url: str, topic: str
) -> None:
    letters = f"{topic.replace('://', '/')}-s-DLQ"
    async with await connect(pulsar_url) as broker:
        producer, consumer = await broker.producer(topic), await broker.consumer(topic, "s")
        await producer.send(b"x")
        message = await next_of(consumer)
        await asyncio.to_thread(pulsar.put, letters)
        await asyncio.to_thread(order, pulsar, "POST", f"{letters}/terminate")
        before = asyncio.all_tasks()
        given_up = asyncio.create_task(consumer.bury(message, "why"))
        await asyncio.sleep(0)
        given_up.cancel()
        async with asyncio.timeout(20):
            while asyncio.all_tasks() - before:
                await asyncio.sleep(0.01)
        await asyncio.to_thread(order, pulsar, "DELETE", f"{letters}?force=true")
        await consumer.bury(message, "why")
        dead = await broker.consumer(f"{topic}-s-DLQ", "dead")
        assert (await next_of(dead)).data == b"x"


async def test_dead_letter_is_kept_although_its_topic_was_deleted_after_the_last_one(
    pulsar: PulsarServer, pulsar_url: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulsar_producer, "KEPT_SECONDS", 0.0)
    letters = f"{topic.replace('://', '/')}-s-DLQ"
    async with await connect(pulsar_url) as broker:
        producer, consumer = await broker.producer(topic), await broker.consumer(topic, "s")
        for number in range(2):
            await producer.send(b"%d" % number)
        await consumer.bury(await next_of(consumer), "why")
        await asyncio.to_thread(order, pulsar, "DELETE", f"{letters}?force=true")
        await consumer.bury(await next_of(consumer), "why")
        kept = (await asyncio.to_thread(stats, pulsar, f"{topic}-s-DLQ"))["subscriptions"]["dead"]
        assert kept["msgBacklog"] == 1


async def test_exclusive_subscription_wanted_by_two_at_once_goes_to_one(pulsar_url: str, topic: str) -> None:
    async with await connect(pulsar_url) as one, await connect(pulsar_url) as other:
        for number in range(12):
            asking = [broker.consumer(f"{topic}{number}", "s", type="exclusive") for broker in (one, other)]
            answers = await asyncio.gather(*asking, return_exceptions=True)
            assert [isinstance(answer, SubscriptionBusy) for answer in answers].count(True) == 1


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e300])
async def test_a_delay_beyond_all_calendars_is_refused(pulsar_url: str, topic: str, delay: float) -> None:
    async with await connect(pulsar_url) as broker:
        producer = await broker.producer(topic)
        consumer = await broker.consumer(topic, "s")
        with pytest.raises(BrokerError):
            await producer.send(b"x", deliver_after=delay)
        await producer.send(b"x")
        with pytest.raises(BrokerError):
            await consumer.retry(await next_of(consumer), delay)


async def test_a_subscription_whose_own_topics_would_have_too_long_a_name_is_refused(
    pulsar_url: str, pulsar_space: str
) -> None:
    async with await connect(pulsar_url) as broker:
        with pytest.raises(TopicInvalid):
            await broker.consumer(
                f"persistent://{pulsar_space}/flow/{'n' * 450}", "subscription-of-some-length"
            )


async def test_silent_host_does_not_keep_the_next_one_from_being_tried(pulsar_url: str, topic: str) -> None:
    with ExitStack() as stack:
        silent = stack.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _ in range(4):  # as many as it has room for, so that it no longer answers others
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        url = pulsar_url.replace("://", f"://127.0.0.1:{silent.getsockname()[1]},")
        async with await connect(url):
            pass


async def test_port_that_does_not_speak_pulsar_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulsar_broker, "_CONNECT_SECONDS", 0.5)

    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(slam, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerUnavailable, match="not one of Pulsar with this protocol"):
            await connect(f"pulsar://127.0.0.1:{port}")
