"""Objects with quotes, published: in the words of the text, once for all quotes, with them or without."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest

from tests.support.graph_records import Triples
from tests.support.workers import ENTRIES, House, entry
from trustgraph_prompt.llm import Call
from trustgraph_prompt.wire import Chunk, Metadata, encode
from trustgraph_prompt.worker import Answer, Flow, Input, Outputs

TEXT = "The Rhine rises\nin the Alps. It ends in the sea."
RISES = {"quote": "The Rhine rises in the Alps.", "subject": "Rhine", "object": "Alps"}
ENDS = {"quote": "It ends in the sea.", "subject": "Rhine", "object": "sea"}
SCHEMA = {
    "type": "object",
    "properties": {
        "quote": {"type": "string", "x-quote": "text"},
        "subject": {"type": "string", "x-from": "text"},
        "object": {"type": "string", "x-from": "text"},
    },
    "required": ["quote", "subject", "object"],
}
EXACT = "http://www.w3.org/ns/oa#exact"
SPANS = {RISES["quote"]: [0, 28], ENDS["quote"]: [29, 48]}


@pytest.fixture(autouse=True)
def _prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"response-type": "jsonl", "object-schema": SCHEMA, "attempts": 2}
    clause = [{"entity": {"subject": "subject", "properties": {"object": {"predicate": "urn:in"}}}}]
    monkeypatch.setitem(ENTRIES, "template.quote", entry("{{ text }}", **settings))
    monkeypatch.setitem(ENTRIES, "template.graph", entry("{{ text }}", graph=clause, **settings))


def lines(*objects: object) -> str:
    return b"\n".join(map(encode, objects)).decode()


def answering(*objects: object) -> Callable[[Call], str]:
    return lambda call: lines(*objects)


def without_quote(value: dict[str, str]) -> dict[str, str]:
    return {key: part for key, part in value.items() if key != "quote"}


@pytest.mark.parametrize("streaming", [False, True])
async def test_object_with_a_wrong_quote_is_asked_again_and_published(house: House, streaming: bool) -> None:
    answers, objects = await house.hear(house.topic("answers")), await house.hear(house.topic("objects"))
    wrong = {**RISES, "quote": "The Rhine flows."}
    written = {**RISES, "quote": "the rhine rises in the alps."}
    asked = iter([lines(wrong, ENDS), lines(written)])
    await house.work(house.flow(), lambda call: next(asked))

    await house.send(house.flow(), "quote", text=TEXT, streaming=streaming)

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    published = {message.key: message for message in await objects.until(2)}
    as_it_is = {**RISES, "quote": "The Rhine rises in the Alps"}
    assert [json.loads(published[id].data) for id in answer.objects] == [ENDS, as_it_is]
    assert list(json.loads(published[answer.objects[0]].data)) == ["quote", "subject", "object"]
    for id, spans in zip(answer.objects, ([29, 48], [0, 27]), strict=True):
        grounding = json.loads(published[id].properties["grounding"])
        assert grounding["/quote"]["spans"] == [spans]
        assert answer.grounding[id] == grounding
    assert answer.rejected_count == 0


async def test_objects_that_differ_only_in_their_quotes_are_one_with_the_first(house: House) -> None:
    answers, objects = await house.hear(house.topic("answers")), await house.hear(house.topic("objects"))
    same = {**RISES, "quote": "in the Alps"}
    await house.work(house.flow(), lambda call: lines(RISES, same, ENDS))

    await house.send(house.flow(), "quote", text=TEXT)

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    published = {message.key: json.loads(message.data) for message in await objects.all()}
    assert [published[id] for id in answer.objects] == [RISES, ENDS]
    assert answer.grounding[answer.objects[0]]["/quote"]["spans"] == [SPANS[RISES["quote"]]]


async def test_another_answer_with_other_quotes_has_the_same_ids(house: House) -> None:
    ids: list[tuple[str, ...]] = []
    for quote in (RISES["quote"], "in the Alps"):
        model = answering({**RISES, "quote": quote})
        answers = await house.hear(house.topic(f"answers-{len(ids)}"))
        flow = replace(house.flow(), outputs=Outputs(house.topic(f"answers-{len(ids)}")))
        working = await house.work(flow, model)
        await house.send(flow, "quote", id="r", text=TEXT)
        [record] = await answers.until(1)
        ids.append(Answer.decode(record.data).objects)
        await working.stop()
    assert ids[0] == ids[1] != ()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("quotes", ["keep", "drop"])
async def test_objects_and_responses_have_quotes_as_the_flow_says(
    house: House, quotes: Literal["keep", "drop"], streaming: bool
) -> None:
    flow = house.flow()
    flow = replace(flow, outputs=replace(flow.outputs, quotes=quotes))
    answers, objects = await house.hear(house.topic("answers")), await house.hear(house.topic("objects"))
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: lines(RISES, ENDS))

    await house.send(flow, "quote", text=TEXT, streaming=streaming)

    expected = [RISES, ENDS] if quotes == "keep" else [*map(without_quote, (RISES, ENDS))]
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    published = {message.key: message for message in await objects.until(2)}
    assert [json.loads(published[id].data) for id in answer.objects] == expected
    assert [answer.grounding[id]["/quote"]["spans"] for id in answer.objects] == [[[0, 28]], [[29, 48]]]
    received = [json.loads(message.data) for message in await responses.all()]
    text = "".join(each.get("text") or "" for each in received)
    given = list(map(json.loads, text.splitlines())) if streaming else json.loads(received[-1]["object"])
    assert given == expected


def chunks(house: House, quotes: Literal["keep", "drop"]) -> Flow:
    outputs = Outputs(house.topic("answers"), triples=house.topic("triples"), quotes=quotes)
    kind = Input(house.topic("chunks"), "prompt--default--f--request", kind="chunk")
    return replace(house.flow(), input=kind, outputs=outputs, prompt="graph")


@pytest.mark.parametrize("quotes", ["keep", "drop"])
async def test_quote_is_the_target_of_its_fact(house: House, quotes: Literal["keep", "drop"]) -> None:
    flow = chunks(house, quotes)
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: lines(RISES))

    chunk = Chunk(Metadata("urn:chunk:1", "urn:doc:1", "rivers"), TEXT, document_id="urn:d")
    await house.put(flow.input.topic, chunk.encode())

    await answers.until(1)
    messages = await house.published("triples")
    statements = [each for message in messages for each in Triples.decode(message.data).triples]
    said = [(each.p.iri, each.o.value or each.o.iri, each.g) for each in statements if each.p and each.o]
    assert [value for predicate, value, _ in said if predicate == EXACT] == [TEXT[:28]]
    assert ("urn:in", "Alps", None) in said
    assert RISES["quote"] not in {value for _, value, _ in said}
