"""The JSON of the page on the wire format is what encoders accept and what a worker publishes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.guides import ROOT, guide_page
from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, Table, connect, retry_and_dead_letters, topics
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, files
from trustgraph_prompt.prompts.pool import Pool
from trustgraph_prompt.worker import Prompts, Service, flow_file
from trustgraph_prompt.worker.canary.record import Canary
from trustgraph_prompt.worker.config import apply, config_topic, history
from trustgraph_prompt.worker.config.report_topic import REPORT
from trustgraph_prompt.worker.dead_letters.letters import LetterSource, failure_properties

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
        ScriptedAnswer(
            f"{json.dumps(EXAMPLES['object'])}\n{EXAMPLES['answer record']['rejected'][0]['raw']}"
        ),
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


def test_pool_of_the_page_has_the_hash_of_its_key() -> None:
    [(key, pool)] = [(title, shown) for title, shown in EXAMPLES.items() if title.startswith("default/pool.")]
    written = json.dumps(pool, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(Pool.parse(written, key.removeprefix("default/")).texts) == 2


async def test_a_worker_publishes_what_the_page_shows() -> None:
    flows = [flow_file.parse({"name": name, **flow}, name) for name, flow in FLOWS.items()]
    prompts = Prompts(files.load(ROOT / "templates"))
    chunk = wire.Chunk(
        wire.Metadata("urn:chunk:1", "urn:doc:1", "geology"), EXAMPLES["Chunk"]["chunk"], "urn:chunk:1"
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
    assert found["object"] == page["object"]
    assert found["PromptResponse"]["object"] == page["PromptResponse"]["object"]
    for name in ("rejected", "grounding"):
        assert found["answer record"][name] == page["answer record"][name]
    properties, shown = messages["object"].properties, EXAMPLES["properties of an object"]
    assert properties.keys() == shown.keys()
    assert properties["grounding"] == shown["grounding"]


@pytest.mark.parametrize("record", [wire.ConfigResponse, wire.ConfigPush])
def test_messages_of_the_config_service_on_the_page_are_decoded(record: Any) -> None:
    example = EXAMPLES[record.__name__]
    assert json.loads(wire.encode(record.decode(json.dumps(example).encode()))) == example


def test_the_request_to_the_config_service_is_what_the_encoder_writes() -> None:
    request = wire.ConfigRequest("getvalues", workspace="default", type="prompt")
    assert json.loads(request.encode()) == EXAMPLES["ConfigRequest"]


def test_the_letters_of_the_page_are_what_the_broker_writes() -> None:
    dead, again = (
        EXAMPLES["properties of a dead letter"],
        EXAMPLES["properties of a request to be tried again"],
    )
    source = LetterSource(dead["REAL_TOPIC"], dead["REAL_SUBSCRIPTION"])
    data = json.dumps(EXAMPLES["dead letter"]).encode()
    published = int(dead["ORIGIN_PUBLISH_TIME"]) / 1000
    request = Message(data, source.topic, dead["ORIGIN_MESSAGE_ID"], {"id": "1"}, published=published)
    why = failure_properties(dead["error"], dead["flow"], dead["prompt"], int(dead["died"]) / 1000)
    letter = retry_and_dead_letters.dead_letter(source, request, dead["reason"], why)
    assert (letter.topic, letter.data, letter.properties) == (source.dead_letter_topic, data, dead)
    assert retry_and_dead_letters.retry_letter(source, request, 30, None).properties == again


async def the_entry(broker: Broker, topic: str) -> Message:
    [message] = (await config_topic.messages(broker, "default", topic=topic)).values()
    return message


async def first(table: Table, fits: Callable[[Message], bool]) -> Message:
    """The first message of a table that fits, which may still have to come."""
    there = [*filter(fits, table.entries.values())]
    coming = (message async for message in table.changes() if fits(message))
    return there[0] if there else await anext(coming)


async def test_records_beside_the_config_topic_are_those_of_the_page() -> None:
    change, canary = EXAMPLES["change of a prompt"], EXAMPLES["canary"]
    author = history.Author(change["by"], change["why"])
    wanted = {"template.summary": change["entry"]}
    async with await connect("embedded:") as broker:

        async def read(topic: str) -> dict[str, bytes]:
            return await config_topic.entries(broker, "default", topic=topic)

        plan, _ = await apply.propose(read, "geology", wanted, topic=config_topic.TOPIC)
        push = await apply.carry_out(
            broker, "default", "geology", plan, topic=config_topic.TOPIC, author=author
        )
        published = await the_entry(broker, config_topic.TOPIC)
        recorded = await the_entry(broker, config_topic.TOPIC + history.HISTORY)
        owned = await the_entry(broker, config_topic.TOPIC + apply.OWNERS)

    assert published.properties.keys() == EXAMPLES["properties of an entry"].keys()
    assert recorded.key == f"default/template.summary@{push}"
    assert shape(json.loads(recorded.data)) == shape(change)
    assert json.loads(owned.data) == EXAMPLES["what an owner applied"]
    assert json.loads(Canary.decode(json.dumps(canary).encode()).encode()) == canary


async def test_records_on_a_workers_own_topics_are_those_of_the_page() -> None:
    flow = flow_file.parse({"name": "requests", **FLOWS["requests"]}, "requests")
    source, rejected = LetterSource.of(flow), EXAMPLES["rejected entry"]
    async with await connect("embedded:") as broker:
        reports = await broker.table(config_topic.TOPIC + REPORT)
        work = await broker.table(topics.in_progress_topic(source.topic, source.subscription))
        service = Service(broker, [flow], Prompts(), lambda model: ANSWERS)
        push = await config_topic.push(broker, "default", {"template.broken": '{"prompt": "{{ a"}'})
        serving = asyncio.create_task(service.run())
        requests = await broker.producer(source.topic)
        await requests.send(wire.PromptRequest("nope").encode(), properties={"id": "1"})
        in_progress = await first(work, lambda message: message.data not in (b"", b"{}"))
        report = await first(reports, lambda message: message.key == rejected["key"])
        announcement = await first(reports, lambda message: push.encode() in message.data)
        service.stop()
        await serving

    assert [*json.loads(in_progress.data).values()] == [*EXAMPLES["requests in progress"].values()]
    assert json.loads(report.data) == rejected
    shown = json.dumps(EXAMPLES["worker"]).replace("17fd51da4b5e4e68a4d802f3e88ba4e1", push)
    assert json.loads(announcement.data) == json.loads(shown)
