"""A model server that is stopped under load, a worker as a process, requests of many kinds of patience."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.worker_processes import Site
from tests.support.workers import entry, listening
from trustgraph_prompt.broker import connect, topics
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: f
input: {{topic: "{requests}", subscription: s}}
outputs:
  response: {space}/out
  answers: {space}/answers
concurrency: 16
deliveries: 1
"""

OUTAGE = 5.0
"""Seconds; two minutes were tried by hand."""

MODELS = Reply([json.dumps({"data": [{"id": "small"}]}).encode()], content_type="application/json")


ANSWER: list[bytes | float] = [0.1, *streamed("Here it is.", chunk=10_000)]


def reply(body: dict[str, Any]) -> Reply:
    return Reply(ANSWER) if body else MODELS


async def test_a_server_that_is_stopped_under_load_costs_no_request(
    place: tuple[Site, str], record_counts: Callable[..., None]
) -> None:
    site, space = place[0], f"persistent://{place[1]}/flow"
    requests = f"{space}/in"
    site.serves(FLOW.format(requests=requests, space=space), {"template.say": entry("Say {{ text }}")})
    ids, all_sent = [f"r{n}" for n in range(240)], asyncio.Event()
    async with (
        await connect(site.url) as broker,
        listening(broker, f"{space}/out") as responses,
        listening(broker, topics.dead_letter_topic(requests, "s")) as dead,
    ):
        async with ModelServer() as server:
            server.reply = lambda body: Reply([all_sent, *ANSWER]) if body else MODELS
            port = server.port
            site.asks(server.url)
            worker = await site.run()
            producer = await broker.producer(requests)
            for id in ids:
                await producer.send(PromptRequest.asking("say", {"text": id}).encode(), properties={"id": id})
            await producer.close()
            all_sent.set()
            await responses.until(40)
        await worker.shows("/readyz", f"model small of http://127.0.0.1:{port}/v1", seconds=10)
        await worker.shows("/readyz", "provider_unavailable: http://127.0.0.1")
        await worker.shows("/metrics", 'model_away{model="small"')
        await worker.says("is unavailable")
        await asyncio.sleep(OUTAGE)
        answered = len(responses.messages)
        async with ModelServer(port=port) as server:
            server.reply = reply
            assert not await responses.missing(ids, 90)
            await worker.shows("/readyz", '"ready": true')
            await worker.says("is available again")
            calls, most = server.lines.count("POST /v1/chat/completions"), server.most_on_the_wire
        assert not await dead.all()
    assert len(responses.messages) == 240
    assert all(json.loads(response.data)["error"] is None for response in responses.messages)
    assert answered < 140  # at least a hundred waited
    assert calls <= 240 - answered
    record_counts(answered_before=answered, calls_after=calls, most_on_the_wire=most)
