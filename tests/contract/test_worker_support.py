"""What a worker publishes has a word of its quote, by the clause `graph` of the prompt or of the flow."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import itemgetter

import pytest

from tests.support.workers import ENTRIES, House, entry
from trustgraph_prompt.graph.graph_clause import EntityForm, GraphClause
from trustgraph_prompt.llm import Call
from trustgraph_prompt.wire import encode
from trustgraph_prompt.worker import Answer, Flow, GraphOptions

TEXT = "On chalk. Chalk is a soft limestone. The saw hung on the wall of the pit."
CHALK = {"quote": "Chalk is a soft limestone.", "entity": "Chalk", "definition": "a soft stone"}
SAW = {"quote": "The saw hung on the wall", "entity": "saw", "definition": "a tool used to cut wood"}
BETTER = {**SAW, "definition": "what hung on a wall of the pit"}
SCHEMA = {
    "type": "object",
    "properties": {
        "quote": {"type": "string", "x-quote": "text"},
        "entity": {"type": "string", "x-from": "text"},
        "definition": {"type": "string"},
    },
    "required": ["quote", "entity", "definition"],
}
CLAUSE = GraphClause((EntityForm("entity", "definition"),))


@pytest.fixture(autouse=True)
def _prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"response-type": "jsonl", "object-schema": SCHEMA, "attempts": 2}
    clause = [{"entity": {"subject": "entity", "definition": "definition"}}]
    monkeypatch.setitem(ENTRIES, "template.quote", entry("Quote: {{ text }}", graph=clause, **settings))
    monkeypatch.setitem(ENTRIES, "template.unsaid", entry("Quote: {{ text }}", **settings))


def lines(*objects: object) -> str:
    return b"\n".join(map(encode, objects)).decode()


async def published_by(house: House, flow: Flow, prompt: str) -> tuple[list[object], list[Call]]:
    """The objects that a request publishes, and the calls that it makes."""
    calls: list[Call] = []
    answers = await house.hear(house.topic("answers"))
    objects = await house.hear(house.topic("objects"))

    def model(call: Call) -> str:
        calls.append(call)
        return lines(CHALK, SAW) if len(calls) == 1 else lines(BETTER)

    await house.work(flow, model)
    await house.send(flow, prompt, text=TEXT)
    await answers.until(1)
    published = (json.loads(each.data) for each in await objects.all())
    return sorted(published, key=itemgetter("entity")), calls


async def test_unsupported_object_is_asked_for_again_with_the_words_of_its_quote(house: House) -> None:
    published, calls = await published_by(house, house.flow(), "quote")
    assert published == [CHALK, BETTER]
    [_, again] = calls
    correction = again.messages[-1].text
    assert '/definition: "a tool used to cut wood" has no word in common with its quote' in correction
    assert "say it with the words of the quote, or leave the object out" in correction
    assert "Give again only what is in the passage, as the passage has it" in correction


async def test_object_that_stays_unsupported_is_in_the_record_and_in_the_metrics(house: House) -> None:
    flow = house.flow()
    answers = await house.hear(house.topic("answers"))
    working = await house.work(flow, lambda call: lines(CHALK, SAW))

    await house.send(flow, "quote", text=TEXT)

    [record] = await answers.until(1)
    assert {each["issues"][0]["reason"] for each in Answer.decode(record.data).rejected} == {"unsupported"}
    await working.stop()
    metrics = working.worker.metrics.text().decode()
    assert 'objects_rejected_total{flow="f",prompt="quote",reason="unsupported"}' in metrics
    assert 'verdict="rejected"' in metrics


async def test_clause_of_the_flow_counts_for_a_prompt_without_one(house: House) -> None:
    flow = replace(house.flow(), graph=GraphOptions(clause=CLAUSE))
    published, calls = await published_by(house, flow, "unsaid")
    assert (published, len(calls)) == ([CHALK, BETTER], 2)


async def test_objects_of_a_prompt_and_a_flow_without_a_clause_are_not_asked_what_they_say(
    house: House,
) -> None:
    published, calls = await published_by(house, house.flow(), "unsaid")
    assert (published, len(calls)) == ([CHALK, SAW], 1)
