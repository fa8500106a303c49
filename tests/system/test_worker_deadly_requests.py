"""A request on which the worker dies: buried after so many crashes, and all others are answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.model_server import ModelServer, Reply, Then
from tests.support.restless_model import PROMPT, TEMPLATES, RestlessModel
from tests.support.worker_processes import Process, Site
from tests.support.workers import listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: f
workspace: w
input: {{topic: "persistent://{space}/flow/in", subscription: s}}
outputs:
  response: persistent://{space}/flow/out
  answers: persistent://{space}/flow/answers
concurrency: 16
deliveries: 2
crashes: 2
"""

GOOD = [f"good{n}" for n in range(30)]


class DeadlyModel(RestlessModel):
    """Kills its client where it is asked about `poison`; `beside` counts what else was being answered."""

    def __init__(self, server: ModelServer) -> None:
        super().__init__(pause=0.02)
        self.worker: Process | None = None
        self.beside: list[int] = []
        self._server = server

    def reply(self, body: dict[str, Any]) -> Reply:
        if "poison" not in body["messages"][-1]["content"]:
            return super().reply(body)
        if self.worker is not None:
            self.beside.append(len(self._server.on_the_wire) - 1)
            self.worker.kill()
        return Reply([Then.HANG])


async def kept_running(site: Site, model: DeadlyModel, until: Callable[[], Awaitable[object]]) -> int:
    """Start a worker whenever none is running, as Kubernetes does; returns how many died."""
    enough, died = asyncio.ensure_future(until()), 0
    while not enough.done():
        model.worker = await site.begin()
        ended = asyncio.ensure_future(model.worker.wait())
        await asyncio.wait([ended, enough], return_when=asyncio.FIRST_COMPLETED, timeout=100)
        died += ended.done()
    await enough
    return died


async def send(broker: Broker, space: str, *ids: str) -> None:
    producer = await broker.producer(f"persistent://{space}/flow/in")
    for id in ids:
        request = PromptRequest.asking(PROMPT, {"text": id})
        await producer.send(request.encode(), properties={"id": id})
    await producer.close()


async def test_a_deadly_request_is_buried_and_those_beside_it_are_answered(
    place: tuple[Site, str], server: ModelServer, record_counts: Callable[..., None]
) -> None:
    site, space = place
    site.serves(FLOW.format(space=space), TEMPLATES)
    site.asks(server.url)
    model = DeadlyModel(server)
    server.reply = model.reply
    async with await connect(site.url) as broker, listening(broker, f"persistent://{space}/flow/out") as out:
        await send(broker, space, *GOOD[:8], "poison", *GOOD[8:])
        died = await kept_running(site, model, lambda: out.missing([*GOOD, "poison"]))
        letters = await broker.reader(f"persistent://{space}/flow/in-s-DLQ")
        letter = await letters.receive()
        assert letter is not None
        assert not await letters.behind()
    errors = {m.properties["id"]: error for m in out.messages if (error := json.loads(m.data)["error"])}
    record_counts(died=died, asked_again=model.paid_twice)
    assert list(errors) == ["poison"]
    assert errors["poison"]["type"] == "worker-crashed"
    assert letter.properties["id"] == "poison"
    assert letter.deliveries == 1
    assert "2 workers died" in letter.properties["reason"]
    # Once beside others, in groups of 16, 8, 4 and 2 at the most, and then alone as often as the flow allows.
    assert 3 <= died <= 7
    assert model.beside[-2:] == [0, 0]
