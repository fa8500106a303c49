"""The JSON of the page on the wire format is what encoders accept and what a worker publishes."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.support.guides import ROOT, guide_page
from trustgraph_prompt import wire
from trustgraph_prompt.broker import connect
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, files
from trustgraph_prompt.worker import Prompts, Service, flow_file

BLOCK = re.compile(r'^```json title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
EXAMPLES: dict[str, Any] = {
    title: json.loads(text) for title, text in BLOCK.findall(guide_page("wire-format.md").read_text("utf-8"))
}
FLOWS: dict[str, dict[str, Any]] = {
    "chunks": {
        "input": {"topic": "persistent://tg/flow/chunks", "kind": "chunk"},
        "prompt": "extract-definitions",
        "outputs": {
            "answers": "persistent://tg/flow/answers",
            "entity-contexts": "persistent://tg/flow/entity-contexts",
            "objects": "persistent://tg/flow/objects",
            "triples": "persistent://tg/flow/triples",
        },
    },
    "tables": {
        "input": {"topic": "persistent://tg/flow/row-chunks", "kind": "chunk"},
        "prompt": "extract-rows",
        "tables": {
            "mountains": {
                "fields": [{"name": "name", "type": "string"}, {"name": "height", "type": "integer"}]
            }
        },
        "outputs": {"rows": "persistent://tg/flow/rows"},
    },
    "requests": {
        "input": {"topic": "persistent://tg/flow/requests"},
        "outputs": {"response": "persistent://tg/flow/responses"},
    },
}
ANSWERS = ScriptedProvider(
    [
        ScriptedAnswer('{"name": "Etna", "height": 3403}', contains="The table is"),
        ScriptedAnswer('{"entity": "chalk", "definition": "A soft white rock."}\n{"entity": "flint"}'),
    ]
)


def shape(value: Any) -> Any:
    """The keys of objects in their order, the shape of a list's first element, the kind of the rest."""
    match value:
        case dict():
            return {key: shape(member) for key, member in value.items()}
        case [first, *_]:
            return [shape(first)]
    return None


@pytest.mark.parametrize("record", [wire.Chunk, wire.PromptRequest, wire.TextCompletionRequest])
def test_a_request_of_the_page_is_what_the_encoder_writes(record: Any) -> None:
    example = EXAMPLES[record.__name__]
    assert json.loads(record.decode(json.dumps(example).encode()).encode()) == example


@pytest.mark.parametrize("record", [wire.PromptResponse, wire.TextCompletionResponse])
def test_a_response_of_the_page_has_the_fields_of_the_encoder(record: Any) -> None:
    assert list(EXAMPLES[record.__name__]) == list(json.loads(record().encode()))


def test_the_prompt_of_the_page_is_good() -> None:
    assert PromptDefinition.from_entry("volcanoes", EXAMPLES["default/template.volcanoes"]).id == "volcanoes"


async def test_a_worker_publishes_what_the_page_shows() -> None:
    flows = [flow_file.parse({"name": name, **flow}, name) for name, flow in FLOWS.items()]
    prompts = Prompts(files.load(ROOT / "templates"))
    chunk = wire.Chunk(
        wire.Metadata("urn:chunk:1", "urn:doc:1", "geology"), "Chalk is a soft rock.", "urn:chunk:1"
    )
    question = wire.PromptRequest.asking("extract-definitions", {"text": chunk.chunk})
    async with await connect("embedded:") as broker:
        service = Service(broker, flows, prompts, lambda model: ANSWERS)
        serving = asyncio.create_task(service.run())

        async def send(name: str, record: wire.Chunk | wire.PromptRequest) -> None:
            producer = await broker.producer(f"persistent://tg/flow/{name}")
            await producer.send(record.encode(), properties={"id": "urn:chunk:1"})

        async def published(name: str) -> Any:
            consumer = await broker.consumer(f"persistent://tg/flow/{name}", "test")
            return await consumer.receive()

        await send("chunks", chunk)
        await send("row-chunks", chunk)
        await send("requests", question)
        messages = {
            title: await published(name)
            for title, name in {
                "object": "objects",
                "answer record": "answers",
                "Triples": "triples",
                "EntityContexts": "entity-contexts",
                "rows": "rows",
                "PromptResponse": "responses",
            }.items()
        }
        service.stop()
        await serving

    found = {title: json.loads(message.data) for title, message in messages.items()}
    [object_id] = found["answer record"]["objects"]
    page = json.loads(json.dumps(EXAMPLES).replace("1773427138a3e28ac620faf93574706b", object_id))
    for title, message in found.items():
        assert shape(message) == shape(page[title]), title
    assert messages["object"].properties.keys() == EXAMPLES["properties of an object"].keys()
