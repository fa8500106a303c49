"""A model server that takes requests and says nothing, or next to nothing, for ever."""

from __future__ import annotations

import pytest

from tests.support.model_server import ModelServer, Reply, Then, said
from tests.support.restless_model import PROMPT, TEMPLATES
from tests.support.worker_processes import Site
from tests.support.workers import listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: f
workspace: w
input: {topic: "persistent://tg/flow/in", subscription: s}
outputs: {response: "persistent://tg/flow/out"}
deliveries: 2
budget: {work-seconds: 2}
"""
ENOUGH = 60.0
"""Seconds; without the limit a delivery took 902."""


@pytest.mark.parametrize("says", [[], [said("{")]], ids=["nothing", "one token"])
async def test_request_to_a_silent_server_ends_with_an_error(
    site: Site, server: ModelServer, says: list[bytes]
) -> None:
    server.reply = lambda body: Reply([*says, Then.HANG])
    site.serves(FLOW, TEMPLATES)
    site.asks(server.url)
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as out:
        await site.run()
        producer = await broker.producer("persistent://tg/flow/in")
        await producer.send(PromptRequest.asking(PROMPT, {"text": "r"}).encode(), properties={"id": "r"})
        [response] = await out.under("r", ENOUGH)
    assert response["error"]["type"] == "llm-error"
