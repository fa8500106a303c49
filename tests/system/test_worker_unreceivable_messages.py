"""Messages that take more memory to receive than a worker has: it dies in native code, at every start."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import threading
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.model_server import ModelServer
from tests.support.pulsar_server import PulsarServer
from tests.support.restless_model import PROMPT, TEMPLATES, RestlessModel
from tests.support.worker_processes import Process, Site
from tests.support.workers import listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar.admin.prepare import subscriptions_of
from trustgraph_prompt.wire import PromptRequest

pytestmark = pytest.mark.pulsar

FLOW = """
name: f
workspace: w
input: {{topic: "persistent://{space}/flow/in", subscription: s}}
outputs:
  response: persistent://{space}/flow/out
  answers: persistent://{space}/flow/answers
"""

MEMORY = 250_000_000
TOO_MUCH = 200_000_000


class Sender:
    """Publishes with the client itself, as others do: in batches, compressed, in chunks."""

    def __init__(self, url: str, topic: str) -> None:
        self._client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
        self._topic = topic

    def good(self, *ids: str) -> None:
        """In one batch."""
        producer = self._client.create_producer(
            self._topic, batching_enabled=True, batching_max_publish_delay_ms=500
        )
        sent = threading.Semaphore(0)
        for id in ids:
            request = PromptRequest.asking(PROMPT, {"text": id}).encode()
            producer.send_async(request, lambda result, number: sent.release(), {"id": id})
        for _ in ids:
            assert sent.acquire(timeout=60)

    def packed(self, id: str) -> None:
        producer = self._client.create_producer(self._topic, compression_type=pulsar.CompressionType.ZSTD)
        producer.send(b"x" * TOO_MUCH, {"id": id})

    def chunked(self, id: str) -> None:
        producer = self._client.create_producer(self._topic, chunking_enabled=True)
        producer.send(b"x" * TOO_MUCH, {"id": id})

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def topic(pulsar_site: Site, pulsar_space: str, server: ModelServer) -> str:
    """Where the site's workers receive."""
    pulsar_site.serves(FLOW.format(space=pulsar_space), TEMPLATES)
    pulsar_site.asks(server.url)
    server.reply = RestlessModel(pause=0.0).reply
    return f"persistent://{pulsar_space}/flow/in"


@pytest.fixture
def sender(pulsar_site: Site, topic: str) -> Iterator[Sender]:
    sender = Sender(pulsar_site.url, topic)
    yield sender
    sender.close()


async def begin(site: Site, pulsar: PulsarServer) -> Process:
    """A worker that has little memory."""
    worker = await site.begin(TRUSTGRAPH_PROMPT_ADMIN_URL=pulsar.admin_url)
    resource.prlimit(worker.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
    return worker


async def subscriptions(pulsar: PulsarServer, topic: str) -> frozenset[str]:
    async with PulsarAdmin(pulsar.admin_url) as admin:
        return (await subscriptions_of(admin, [topic]))[topic]


@pytest.mark.parametrize("workers", [1, 3])
async def test_compressed_requests_that_kill_workers_are_buried(
    pulsar_site: Site, pulsar: PulsarServer, topic: str, sender: Sender, workers: int
) -> None:
    good = [f"good{n}" for n in range(12)]
    await asyncio.to_thread(sender.good, *good[:5])
    await asyncio.to_thread(sender.packed, "bad")
    await asyncio.to_thread(sender.good, *good[5:9])
    await asyncio.to_thread(sender.packed, "worse")
    await asyncio.to_thread(sender.good, *good[9:])
    async with (
        await connect(pulsar_site.url) as broker,
        listening(broker, topic.removesuffix("in") + "out") as out,
    ):
        answered = asyncio.ensure_future(out.missing(good))
        deaths: list[int] = []

        async def keep_running() -> None:
            while not answered.done():
                deaths.append(await (await begin(pulsar_site, pulsar)).wait())

        running = [asyncio.create_task(keep_running()) for _ in range(workers)]
        assert not await answered
        for task in running:
            task.cancel()
        letters = await broker.reader(f"{topic}-s-DLQ")
        buried = [letter for _ in range(2) if (letter := await letters.receive())]
        assert not await letters.behind()
    assert set(deaths) == {-signal.SIGABRT}
    assert [letter.data for letter in buried] == [b"", b""]
    assert {letter.properties["error"] for letter in buried} == {"worker-crashed"}
    assert all("crashes" in letter.properties["reason"] for letter in buried)
    assert not [message for message in out.messages if json.loads(message.data)["error"]]
    assert await subscriptions(pulsar, topic) == {"s"}


async def test_chunked_request_that_kills_workers_is_named_and_left(
    pulsar_site: Site, pulsar: PulsarServer, topic: str, sender: Sender
) -> None:
    await asyncio.to_thread(sender.chunked, "bad")
    await asyncio.to_thread(sender.good, "good")

    assert await (await begin(pulsar_site, pulsar)).wait() == -signal.SIGABRT
    worker = await begin(pulsar_site, pulsar)
    async with asyncio.timeout(100):
        while "pulsar-admin topics skip --subscription s" not in "".join(worker.log):
            await asyncio.sleep(0.05)

    assert await subscriptions(pulsar, topic) == {"s"}
    async with await connect(pulsar_site.url) as broker:
        assert not await (await broker.reader(f"{topic}-s-DLQ")).behind()
