"""A flow with tables asks about one after the other, and publishes their rows; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.brokers import every_broker
from tests.support.flaky_broker import FlakyBroker
from tests.support.graph_records import ExtractedObject
from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.workers import ENTRIES, Heard, House, entry
from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderUnavailable
from trustgraph_prompt.graph.tables import TableDefinition
from trustgraph_prompt.llm import Call, OpenAIProvider, ScriptedAnswer
from trustgraph_prompt.wire import Chunk, Metadata, encode
from trustgraph_prompt.worker import Answer, Flow, Input, Outputs

broker_kind = every_broker

MOUNTAINS = TableDefinition.of(
    "mountains",
    {
        "fields": [
            {"name": "name", "type": "string", "primary_key": True},
            {"name": "height", "type": "integer"},
        ]
    },
    "f",
)
PEOPLE = TableDefinition.of("people", {"fields": [{"name": "name", "type": "string", "required": True}]}, "f")
ROWS = {
    "mountains": '{"name": "Etna", "height": "3403"}\n{"name": "Vesuv", "height": "high"}\n',
    "people": '{"name": "Pliny", "born": 23}\n{"name": "Etna"}\n',
}
TEXTS = {"mountains": [{"name": "Etna", "height": "3403"}], "people": [{"name": "Pliny"}, {"name": "Etna"}]}
ID = "urn:chunk:1"


@pytest.fixture(autouse=True)
def _prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"response-type": "jsonl", "answer-format": "none"}
    monkeypatch.setitem(ENTRIES, "template.rows", entry("Fill {{ schema.name }}: {{ text }}", **settings))


def asked(call: Call) -> str:
    """The table that a call is about."""
    question = next(message.text for message in call.messages if message.role == "user")
    return question.removeprefix("Fill ").partition(":")[0]


class Model:
    """Answers as `ROWS`, or as it is told for a table; counts the calls by table."""

    def __init__(self, **answers: Callable[[], str | ScriptedAnswer]) -> None:
        self.calls: Counter[str] = Counter()
        self._answers = answers

    def __call__(self, call: Call) -> str | ScriptedAnswer:
        self.calls[asked(call)] += 1
        answer = self._answers.get(asked(call))
        return ROWS[asked(call)] if answer is None else answer()


def flow_of(house: House, **changes: object) -> Flow:
    flow = house.flow(
        input=Input(house.topic("chunks"), "prompt--default--f--request", kind="chunk"),
        outputs=Outputs(
            answers=house.topic("answers"), objects={"": house.topic("objects")}, rows=house.topic("rows")
        ),
        prompt="rows",
        tables={"mountains": MOUNTAINS, "people": PEOPLE},
    )
    return replace(flow, **changes)  # type: ignore[arg-type]


async def hear(house: House, flow: Flow) -> tuple[Heard, Heard, Heard]:
    """Its rows, answer records and dead letters."""
    dead = topics.dead_letter_topic(flow.input.topic, flow.input.subscription)
    return (
        await house.hear(house.topic("rows")),
        await house.hear(house.topic("answers")),
        await house.hear(dead),
    )


async def put(house: House, flow: Flow, text: str = "Of Etna, Vesuv and Pliny.") -> None:
    chunk = Chunk(Metadata(ID, "urn:doc:1", "books"), text, document_id="urn:d")
    await house.put(flow.input.topic, chunk.encode())


async def published(rows: Heard) -> dict[str, list[dict[str, str]]]:
    """The rows of each table; fails if those of one are in several messages."""
    records = [ExtractedObject.decode(message.data) for message in await rows.all()]
    assert len({record.schema_name for record in records}) == len(records)
    return {record.schema_name: [dict(row) for row in record.values] for record in records}


async def test_each_table_is_asked_about_and_its_rows_are_one_message(house: House) -> None:
    flow = flow_of(house)
    rows, answers, dead = await hear(house, flow)
    objects = await house.hear(house.topic("objects"))
    model = Model()
    working = await house.work(flow, model)

    await put(house, flow)

    [record] = await answers.until(1)
    assert await published(rows) == TEXTS
    first = ExtractedObject.decode(rows.messages[0].data)
    assert first.metadata == Metadata(f"{ID}:mountains", "urn:doc:1", "books")
    assert (first.confidence, first.source_span) == (0.8, "Of Etna, Vesuv and Pliny.")
    answer = Answer.decode(record.data)
    assert (answer.reason, answer.rejected_count, len(answer.calls)) == ("success", 1, 2)
    assert answer.rejected[0]["issues"][0]["path"] == "/height"
    values = await objects.objects(answer.objects)
    assert values == [{"name": "Etna", "height": 3403}, {"name": "Pliny"}, {"name": "Etna"}]
    await working.stop()
    assert model.calls == {"mountains": 1, "people": 1}
    assert await dead.all() == []


async def test_a_table_without_rows_sends_nothing(house: House) -> None:
    flow = flow_of(house)
    rows, answers, dead = await hear(house, flow)
    working = await house.work(flow, Model(mountains=lambda: "[]"))

    await put(house, flow)

    [record] = await answers.until(1)
    assert Answer.decode(record.data).reason == "success"
    await working.stop()
    assert await published(rows) == {"people": TEXTS["people"]}
    assert await dead.all() == []


async def test_a_retry_asks_only_about_the_tables_that_have_no_answer(house: House) -> None:
    flow = flow_of(house)
    rows, answers, dead = await hear(house, flow)
    failures = 4  # more than one delivery retries by itself

    def people() -> str:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise ProviderUnavailable("not yet")
        return ROWS["people"]

    model = Model(people=people)
    working = await house.work(flow, model)

    await put(house, flow)

    [record] = await answers.until(1)
    assert Answer.decode(record.data).reason == "success"
    assert len(Answer.decode(record.data).objects) == 3
    await working.stop()
    assert await published(rows) == TEXTS  # those of the first table once
    assert model.calls == {"mountains": 1, "people": 5}
    assert await dead.all() == []
    metrics = working.worker.metrics.text().decode()
    assert 'trustgraph_prompt_requests_put_off_total{flow="f"} 1.0' in metrics


@pytest.mark.parametrize("useless", ["mountains", "people"])
async def test_table_with_an_unusable_answer_is_a_dead_letter_and_others_go_out(
    house: House, useless: str
) -> None:
    flow = flow_of(house)
    rows, answers, dead = await hear(house, flow)
    model = Model(**{useless: lambda: "I cannot do that"})
    await house.work(flow, model)

    await put(house, flow)

    [letter] = await dead.until(1)
    assert letter.properties["error"] == "unusable-answer"
    assert letter.properties["reason"].startswith(
        f"extraction_failed: table {useless}: no object in the answer"
    )
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (answer.reason, answer.issues[0]["message"]) == (
        "extraction_failed",
        f"table {useless}: no object in the answer",
    )
    assert not answer.gave_nothing
    other = "people" if useless == "mountains" else "mountains"
    assert await published(rows) == {other: TEXTS[other]}
    assert model.calls == {"mountains": 1, "people": 1}


async def test_a_table_waits_for_a_provider_that_is_away_and_those_before_it_are_kept(house: House) -> None:
    flow = flow_of(house)
    rows, answers, dead = await hear(house, flow)
    calls: Counter[str] = Counter()

    def reply(body: dict[str, Any]) -> Reply:
        table = body["messages"][-1]["content"].removeprefix("Fill ").partition(":")[0] if body else ""
        calls[table] += 1
        if 1 <= calls["people"] <= 3 and table != "mountains":
            return Reply([b"{}"], 401, content_type="application/json")
        return Reply(streamed(ROWS[table])) if body else Reply([b'{"data": [{"id": "small"}]}'])

    async with ModelServer() as server:
        server.reply = reply
        times = {"sleep": lambda seconds: asyncio.sleep(seconds * 0.02)}
        working = await house.work(flow, OpenAIProvider(server.url, "small"), circuit_times=times)
        await put(house, flow)
        [record] = await answers.until(1)
        await working.stop()
    assert (Answer.decode(record.data).reason, len(Answer.decode(record.data).objects)) == ("success", 3)
    assert await published(rows) == TEXTS
    assert (calls["mountains"], calls["people"]) == (1, 4)
    assert await dead.all() == []


async def test_a_passing_failure_of_the_provider_decides_before_an_answer_of_no_use(house: House) -> None:
    flow = flow_of(house)
    rows, answers, dead = await hear(house, flow)
    failures = iter([ProviderUnavailable("not yet")] * 4)

    def people() -> str:
        if failure := next(failures, None):
            raise failure
        return ROWS["people"]

    model = Model(mountains=lambda: "I cannot do that", people=people)
    await house.work(flow, model)

    await put(house, flow)

    [letter] = await dead.until(1)
    assert "table mountains: no object in the answer" in letter.properties["reason"]
    await answers.until(1)
    assert await published(rows) == {"people": TEXTS["people"]}
    assert model.calls == {"mountains": 1, "people": 5}


async def test_unusable_answer_counts_as_no_rows_where_the_flow_says_so(house: House) -> None:
    flow = flow_of(house, unusable="answer")
    rows, answers, dead = await hear(house, flow)
    working = await house.work(flow, Model(mountains=lambda: "I cannot do that"))

    await put(house, flow)

    [record] = await answers.until(1)
    assert Answer.decode(record.data).reason == "extraction_failed"
    await working.stop()
    assert await published(rows) == {"people": TEXTS["people"]}
    assert await dead.all() == []


async def test_after_a_failure_of_the_provider_the_other_tables_are_not_asked_about(house: House) -> None:
    flow = flow_of(house)
    rows, _, dead = await hear(house, flow)

    def mountains() -> str:
        raise ProviderInvalidRequest("too long")

    model = Model(mountains=mountains)
    await house.work(flow, model)

    await put(house, flow)

    [letter] = await dead.until(1)
    assert "too long" in letter.properties["reason"]
    assert model.calls == {"mountains": 1}
    assert await rows.all() == []


async def test_the_rest_of_an_answer_that_was_cut_is_asked_for(house: House) -> None:
    flow = flow_of(house)
    rows, answers, _ = await hear(house, flow)
    parts = iter([ScriptedAnswer(ROWS["people"], cut_after=40), ScriptedAnswer('{"name": "Etna"}')])
    await house.work(flow, Model(people=lambda: next(parts)))

    await put(house, flow)

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert [call["why"] for call in answer.calls] == ["first", "first", "continue"]
    assert answer.truncated is False
    assert await published(rows) == TEXTS


async def test_a_row_that_no_message_can_carry_is_rejected_and_the_others_go_out(house: House) -> None:
    flow = flow_of(house, budget=Budget(characters=None))
    rows, answers, dead = await hear(house, flow)
    large = encode({"name": "x" * 1_000_000}).decode()
    working = await house.work(flow, Model(people=lambda: large + "\n" + ROWS["people"]))

    await put(house, flow)

    [record] = await answers.until(1)
    rejected = Answer.decode(record.data).rejected
    assert [each["issues"][0]["reason"] for each in rejected] == ["schema_type_error", "too_large"]
    await working.stop()
    assert await published(rows) == TEXTS
    assert await dead.all() == []


async def test_without_tables_there_is_nothing_to_extract(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    flow = flow_of(house, tables={})
    rows, answers, dead = await hear(house, flow)
    model = Model()
    working = await house.work(flow, model)

    await put(house, flow)

    [record] = await answers.until(1)
    assert (Answer.decode(record.data).reason, Answer.decode(record.data).objects) == ("success", ())
    await working.stop()
    assert "the flow has no tables" in caplog.text
    assert (await rows.all(), await dead.all(), model.calls) == ([], [], {})


async def test_rows_that_could_not_be_published_are_published_later_and_paid_once(
    house: House, flaky: FlakyBroker
) -> None:
    flow = flow_of(house)
    rows, answers, _ = await hear(house, flow)
    model = Model()
    await house.work(flow, model)
    flaky.failures[house.topic("rows")] = 2

    await put(house, flow)

    await answers.until(1)
    assert await published(rows) == TEXTS
    assert model.calls == {"mountains": 1, "people": 1}


async def test_a_chunk_that_comes_again_is_not_paid_again_and_sends_no_other_bytes(house: House) -> None:
    flow = flow_of(house)
    rows, answers, _ = await hear(house, flow)
    model = Model()
    working = await house.work(flow, model)

    await put(house, flow)
    await answers.until(1)
    await put(house, flow)
    await put(house, flow, "Another text.")
    await answers.until(2)
    await working.stop()
    assert (len(await rows.all()), model.calls) == (4, {"mountains": 2, "people": 2})

    await house.work(flow, model)  # another process
    await put(house, flow)

    again = (await rows.until(6))[4:]
    assert [message.data for message in again] == [message.data for message in rows.messages[:2]]


def kinds(value: Any) -> set[type]:
    return set(map(type, value.values()))


async def test_values_on_the_topic_of_objects_have_the_types_of_their_fields(house: House) -> None:
    flow = flow_of(house, tables={"mountains": MOUNTAINS})
    objects = await house.hear(house.topic("objects"))
    rows = await house.hear(house.topic("rows"))
    await house.work(flow, Model())

    await put(house, flow)

    [message] = await objects.until(1)
    assert kinds(json.loads(message.data)) == {str, int}
    [message] = await rows.until(1)
    assert kinds(ExtractedObject.decode(message.data).values[0]) == {str}
