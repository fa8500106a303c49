"""The graph of many chunks on a real Pulsar, whose workers and whose broker are killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.graph_records import EntityContexts, Triples
from tests.support.model_server import DONE, ModelServer, Reply, said, used
from tests.support.pulsar_server import PulsarServer
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry, listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.wire import Chunk, Metadata, encode

pytestmark = [pytest.mark.pulsar, pytest.mark.xdist_group("mortal")]

CHUNKS = 500
KILLS = 20
BROKER_DIES_AT = (7, 14)
PAUSE = 0.02  # seconds before each object

FLOW = """
name: graph
input:
  topic: persistent://{space}/flow/chunks
  kind: chunk
  subscription: {who}
prompt: define
outputs:
  answers: persistent://{space}/flow/answers-{who}
  triples: persistent://{space}/flow/triples-{who}
  entity-contexts: persistent://{space}/flow/contexts-{who}
concurrency: 8
"""
SCHEMA = {
    **DEFINITION,
    "properties": {"entity": {"type": "string", "x-from": "text"}, "definition": {"type": "string"}},
}
TEMPLATES = {
    "system": json.dumps("Be careful."),
    "template.define": entry(
        "{{ text }}",
        graph=[{"entity": {"subject": "entity", "definition": "definition"}}],
        **{"response-type": "jsonl", "object-schema": SCHEMA},
    ),
}


def text(number: int) -> str:
    return f"Of stone {number}, of clay {number % 10}, and of flint."


def chunk(number: int) -> bytes:
    return Chunk(Metadata(f"urn:chunk:{number}", "urn:doc"), text(number)).encode()


def reply(body: dict[str, Any]) -> Reply:
    """The same answer whenever the same chunk is asked about."""
    passage = body["messages"][-1]["content"]
    number = int(passage.removeprefix("Of stone ").split(",")[0])
    parts: list[bytes | float] = []
    for name in (f"stone {number}", f"clay {number % 10}", "flint"):
        parts += [PAUSE, said(json.dumps({"entity": name, "definition": f"{name} in {number}"}) + "\n")]
    return Reply([*parts, said(finish_reason="stop"), used(11, 22), DONE])


def site_of(who: str, space: str, stack: AsyncExitStack, server: ModelServer, url: str, folder: Path) -> Site:
    """What serves the flow under a subscription of its own."""
    (folder / who).mkdir()
    site = Site(folder / who, stack, url)
    site.serves(FLOW.format(space=space, who=who), TEMPLATES)
    site.asks(server.url)
    return site


async def graph_of(broker: Broker, space: str, who: str) -> tuple[set[str], int, int]:
    """The statements and contexts of a flow, how many triples were published, and how many messages."""
    found: list[str] = []
    messages = 0
    for topic, record in (("triples", Triples), ("contexts", EntityContexts)):
        reader = await broker.reader(f"persistent://{space}/flow/{topic}-{who}")
        while await reader.behind() and (message := await reader.receive()):
            messages += 1
            decoded = record.decode(message.data)
            values = decoded.triples if isinstance(decoded, Triples) else decoded.entities
            found += (encode(value).decode() for value in values)
        await reader.close()
    return set(found), len(found), messages


async def until_answered(url: str, space: str, who: str, count: int) -> None:
    """Wait for so many answers, on a new connection.

    One that has lost its broker tries again after pauses of up to a minute, and no setting changes that.
    """
    topic = f"persistent://{space}/flow/answers-{who}"
    async with await connect(url) as broker, listening(broker, topic) as answers, asyncio.timeout(240):
        while len({message.key for message in answers.messages}) < count:
            await asyncio.sleep(0.05)


async def test_kills_of_workers_and_broker_leave_the_graph_as_it_would_be_without_them(
    mortal: PulsarServer, server: ModelServer, tmp_path: Path, record_counts: Callable[..., None]
) -> None:
    dice = random.Random(19)
    mortal.create_space(space := f"graph-{time.time_ns()}")
    server.reply = reply
    async with AsyncExitStack() as stack:
        async with await connect(mortal.url) as broker:
            for who in ("calm", "hurt"):
                await (await broker.consumer(f"persistent://{space}/flow/chunks", who)).close()
            chunks = await broker.producer(f"persistent://{space}/flow/chunks")
            await asyncio.gather(*(chunks.send(chunk(number)) for number in range(CHUNKS)))

        undisturbed = await site_of("calm", space, stack, server, mortal.url, tmp_path).run()
        await until_answered(mortal.url, space, "calm", CHUNKS)
        await undisturbed.end()
        calls = len(server.bodies)

        site = site_of("hurt", space, stack, server, mortal.url, tmp_path)
        for kill in range(KILLS):
            worker = await site.run()
            answered = kill * CHUNKS // (KILLS + 1) + dice.randint(1, 20)
            await until_answered(mortal.url, space, "hurt", answered)
            if kill in BROKER_DIES_AT:
                await asyncio.to_thread(mortal.kill)
                await asyncio.to_thread(mortal.start_again)
            worker.kill()
            await worker.wait()
        last = await site.run()
        await until_answered(mortal.url, space, "hurt", CHUNKS)
        await last.end()
        async with await connect(mortal.url) as broker:
            expected, once, _ = await graph_of(broker, space, "calm")
            found, published, messages = await graph_of(broker, space, "hurt")

    record_counts(
        chunks=CHUNKS,
        kills=KILLS,
        kills_of_the_broker=len(BROKER_DIES_AT),
        statements=len(expected),
        missing=len(expected - found),
        too_many=len(found - expected),
        published_again=published - once,
        messages=messages,
        asked_again=len(server.bodies) - calls - CHUNKS,
    )
    assert len(expected) > CHUNKS
    assert found == expected
