"""A worker with hardly a file descriptor left: model and broker come first, and no request pays for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from resource import RLIMIT_NOFILE, prlimit
from socket import create_connection

import pytest

from tests.support.model_server import ModelServer
from tests.support.worker_processes import Process, Site
from tests.support.workers import Heard, entry, listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: f
input: {{topic: "persistent://{space}/flow/in"}}
outputs:
  response: persistent://{space}/flow/out
  answers: persistent://{space}/flow/answers
concurrency: 4
deliveries: 1
"""

IDS = [f"r{number}" for number in range(20)]

FEW = 64


async def begin(place: tuple[Site, str], model: str) -> Process:
    site, space = place
    site.serves(
        FLOW.format(space=space),
        {"system": json.dumps("Be careful."), "template.say": entry("Say {{ text }}")},
    )
    site.asks(model)
    return await site.run()


async def send(broker: Broker, space: str) -> None:
    producer = await broker.producer(f"persistent://{space}/flow/in")
    for id in IDS:
        await producer.send(PromptRequest.asking("say", {"text": id}).encode(), properties={"id": id})


@contextmanager
def no_descriptors(worker: Process) -> Iterator[None]:
    """It keeps what it has open, and can open nothing more."""
    before = prlimit(worker.pid, RLIMIT_NOFILE)
    prlimit(worker.pid, RLIMIT_NOFILE, (1, before[1]))
    try:
        yield
    finally:
        prlimit(worker.pid, RLIMIT_NOFILE, before)


async def answered(responses: Heard) -> None:
    assert not await responses.missing(IDS)
    assert [json.loads(message.data)["error"] for message in responses.messages] == [None] * len(IDS)


async def test_silent_connections_do_not_take_every_descriptor(
    place: tuple[Site, str], server: ModelServer
) -> None:
    (site, space), worker = place, await begin(place, server.url)
    prlimit(worker.pid, RLIMIT_NOFILE, (FEW, FEW))
    async with (
        await connect(site.url) as broker,
        listening(broker, f"persistent://{space}/flow/out") as responses,
    ):
        address = await worker.address()
        with ExitStack() as silent:
            for _ in range(2 * FEW):
                silent.enter_context(await asyncio.to_thread(create_connection, address))
            await send(broker, space)
            await answered(responses)
            await worker.shows("/readyz", '"ready": true')


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])  # of which one is looked up
async def test_request_survives_a_time_without_descriptors(
    place: tuple[Site, str], server: ModelServer, host: str
) -> None:
    (site, space), worker = place, await begin(place, server.url.replace("127.0.0.1", host))
    async with (
        await connect(site.url) as broker,
        listening(broker, f"persistent://{space}/flow/out") as responses,
    ):
        with no_descriptors(worker):
            await send(broker, space)
            await worker.says("file descriptors are free")
            await worker.says("the worker is out of file descriptors")
        await answered(responses)
        await worker.shows("/readyz", '"ready": true')
    assert len(worker.log) < 200
