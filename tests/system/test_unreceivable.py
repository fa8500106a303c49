"""Messages that take more memory to receive than a worker has: it dies in native code, at every start."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal

import pulsar
import pytest

from tests.support.model_server import ModelServer
from tests.support.pulsar_server import PulsarServer
from tests.support.restless_model import PROMPT, TEMPLATES, RestlessModel
from tests.support.worker_processes import Site
from tests.support.workers import listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.pulsar import receipt_probe
from trustgraph_prompt.broker.pulsar.admin import PulsarAdmin, subscriptions_of
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


def send(url: str, topic: str, data: bytes, id: str, *, compressed: bool = False) -> None:
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    compression = pulsar.CompressionType.ZSTD if compressed else pulsar.CompressionType.NONE
    producer = client.create_producer(topic, chunking_enabled=not compressed, compression_type=compression)
    producer.send(data, {"id": id})
    client.close()


async def test_requests_that_cannot_be_received_are_buried_by_their_ids(
    pulsar_site: Site, pulsar: PulsarServer, pulsar_space: str, server: ModelServer
) -> None:
    topic, site = f"persistent://{pulsar_space}/flow/in", pulsar_site
    site.serves(FLOW.format(space=pulsar_space), TEMPLATES)
    site.asks(server.url)
    server.reply = RestlessModel(pause=0.0).reply
    async with (
        await connect(site.url) as broker,
        listening(broker, f"persistent://{pulsar_space}/flow/out") as out,
    ):
        for id in ("good0", "packed", "good1", "chunked", "good2"):
            good = PromptRequest.asking(PROMPT, {"text": id}).encode()
            data = good if id.startswith("good") else b"x" * TOO_MUCH
            await asyncio.to_thread(send, site.url, topic, data, id, compressed=id == "packed")

        deaths: list[int] = []
        answered = asyncio.ensure_future(out.missing(["good0", "good1", "good2"]))
        while not answered.done():
            worker = await site.begin(TRUSTGRAPH_PROMPT_ADMIN_URL=pulsar.admin_url)
            resource.prlimit(worker.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
            ended = asyncio.ensure_future(worker.wait())
            await asyncio.wait([ended, answered], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                deaths.append(ended.result())
        assert not await answered
        assert deaths == [-signal.SIGABRT]

        letters = await broker.reader(f"{topic}-s-DLQ")
        buried = [letter for _ in range(2) if (letter := await letters.receive())]
        assert not await letters.behind()
        assert not await out.missing(["good0", "good1", "good2"])
    assert [letter.data for letter in buried] == [b"", b""]
    assert {letter.properties["error"] for letter in buried} == {"worker-crashed"}
    assert all("dies" in letter.properties["reason"] for letter in buried)
    assert not [message for message in out.messages if json.loads(message.data)["error"]]
    async with PulsarAdmin(pulsar.admin_url) as admin:
        assert (await subscriptions_of(admin, [topic]))[topic] == {"s"}
    assert TOO_MUCH > receipt_probe.LARGEST
