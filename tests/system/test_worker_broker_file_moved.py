"""A worker whose broker's file is taken away: it is not ready, and goes on when the file is back."""

from __future__ import annotations

import json

from tests.support.worker_processes import Site
from tests.support.workers import entry, listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: f
input: {topic: "persistent://tg/flow/in"}
outputs:
  response: persistent://tg/flow/out
  answers: persistent://tg/flow/answers
"""


async def test_worker_is_not_ready_while_its_broker_file_is_moved_away(site: Site) -> None:
    site.serves(FLOW, {"system": json.dumps("Be careful."), "template.say": entry("Say {{ text }}")})
    site.answers({"prompt": "say", "answer": "said"})
    place, elsewhere = site.folder / "place", site.folder / "elsewhere"
    place.mkdir()
    site.url = f"embedded:{place / 'broker.db'}"
    worker = await site.run()
    place.rename(elsewhere)
    await worker.shows("/readyz", "moved or deleted")
    elsewhere.rename(place)
    await worker.shows("/readyz", '"ready": true')
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        producer = await broker.producer("persistent://tg/flow/in")
        await producer.send(PromptRequest.asking("say", {"text": "it"}).encode(), properties={"id": "r"})
        [response] = await responses.until(1)
    assert json.loads(response.data)["text"] == "said"
