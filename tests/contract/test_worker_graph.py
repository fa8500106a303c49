"""A flow with a topic for triples publishes the graph that the objects of each chunk make."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.support.graph_records import EntityContexts, Triple, Triples
from tests.support.workers import DEFINITION, ENTRIES, House, entry
from trustgraph_prompt.broker import Message
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.graph.graph_clause import EntityForm, GraphClause
from trustgraph_prompt.wire import Chunk, Metadata, encode
from trustgraph_prompt.worker import Answer, Flow, GraphOptions, Input, Outputs

SOURCE = "urn:graph:source"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DEFINITION_IRI = "http://www.w3.org/2004/02/skos/core#definition"
EXACT = "http://www.w3.org/ns/oa#exact"
CHALK = {"entity": "Soft Chalk", "definition": "a white limestone"}
FLINT = {"entity": "flint", "definition": "a hard stone"}
TEXT = "Of soft chalk and of flint."


@pytest.fixture(autouse=True)
def _prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    clause = [{"entity": {"subject": "entity", "definition": "definition"}}]
    schema = {
        **DEFINITION,
        "properties": {"entity": {"type": "string", "x-from": "text"}, "definition": {"type": "string"}},
    }
    settings = {"response-type": "jsonl", "object-schema": schema}
    monkeypatch.setitem(ENTRIES, "template.graph", entry("{{ text }}", graph=clause, **settings))
    monkeypatch.setitem(ENTRIES, "template.plain", entry("{{ text }}", **settings))


def flow_of(house: House, **changes: object) -> Flow:
    flow = house.flow(
        input=Input(house.topic("chunks"), "prompt--default--f--request", kind="chunk"),
        outputs=Outputs(
            answers=house.topic("answers"),
            triples=house.topic("triples"),
            entity_contexts=house.topic("contexts"),
        ),
        prompt="graph",
    )
    return replace(flow, **changes)  # type: ignore[arg-type]


def chunk(id: str = "urn:chunk:1", text: str = TEXT) -> bytes:
    return Chunk(Metadata(id, "urn:doc:1", "rocks"), text, document_id="urn:d").encode()


def lines(*objects: object) -> str:
    return b"\n".join(map(encode, objects)).decode()


def triples(messages: Iterable[Message]) -> list[Triple]:
    return [triple for message in messages for triple in Triples.decode(message.data).triples]


def said(messages: Iterable[Message]) -> set[tuple[str, str, str]]:
    return {
        (each.s.iri, each.p.iri, each.o.iri or each.o.value)
        for each in triples(messages)
        if each.s and each.p and each.o and each.g is None
    }


async def test_the_objects_of_a_chunk_become_triples_and_contexts(house: House) -> None:
    flow = flow_of(house)
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: lines(CHALK, FLINT, CHALK))

    await house.put(flow.input.topic, chunk())

    [record] = await answers.until(1)
    assert len(Answer.decode(record.data).objects) == 2
    published, contexts = await house.published("triples"), await house.published("contexts")
    assert said(published) == {
        ("http://trustgraph.ai/e/soft-chalk", LABEL, "Soft Chalk"),
        ("http://trustgraph.ai/e/soft-chalk", DEFINITION_IRI, "a white limestone"),
        ("http://trustgraph.ai/e/flint", LABEL, "flint"),
        ("http://trustgraph.ai/e/flint", DEFINITION_IRI, "a hard stone"),
    }
    texts = [each for message in contexts for each in EntityContexts.decode(message.data).entities]
    assert [(each.context, each.chunk_id) for each in texts] == [
        ("Soft Chalk", "urn:d"),
        ("a white limestone", "urn:d"),
        ("flint", "urn:d"),
        ("a hard stone", "urn:d"),
    ]
    quotations = [each.o.value for each in triples(published) if each.o and each.p and each.p.iri == EXACT]
    assert quotations == ["soft chalk", "flint"]
    assert all(
        Triples.decode(message.data).metadata == Metadata("urn:chunk:1", "urn:doc:1", "rocks")
        for message in published
    )


async def test_the_graph_is_durable_before_the_answer_record(house: House) -> None:
    flow = flow_of(house)
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: lines(*({**CHALK, "definition": str(n)} for n in range(300))))

    await house.put(flow.input.topic, chunk())

    await answers.until(1)
    published = await house.published("triples")
    assert max(len(Triples.decode(message.data).triples) for message in published) == 50
    assert len([each for each in triples(published) if each.p and each.p.iri == DEFINITION_IRI]) == 300


async def test_the_same_answer_to_a_chunk_makes_the_same_bytes(house: House) -> None:
    flow = flow_of(house)
    answers = await house.hear(house.topic("answers"))
    first = await house.work(flow, lambda call: lines(CHALK, FLINT))
    await house.put(flow.input.topic, chunk())
    await answers.until(1)
    await first.stop()
    once = await house.published("triples")
    await house.work(flow, lambda call: lines(CHALK, FLINT))

    await house.put(flow.input.topic, chunk())

    await answers.until(2)
    both = await house.published("triples")
    without_time = [message.data.split(b"startedAtTime")[0] for message in both]
    assert without_time[: len(once)] == without_time[len(once) :] != []


async def test_graph_clause_of_the_flow_is_used_for_a_prompt_without_one(house: House) -> None:
    clause = GraphClause((EntityForm("entity", "definition"),))
    options = GraphOptions("urn:e:", triple_terms=False, component="kg", clause=clause, exact=True)
    flow = flow_of(house, prompt="plain", graph=options)
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: lines(CHALK))

    await house.put(flow.input.topic, chunk())

    await answers.until(1)
    published = await house.published("triples")
    assert ("urn:e:Soft%20Chalk", DEFINITION_IRI, "a white limestone") in said(published)
    assert not [each for each in triples(published) if each.o and each.o.triple]
    assert any(each.s and each.s.iri == "https://trustgraph.ai/agent/kg" for each in triples(published))


async def test_a_prompt_without_a_clause_makes_no_graph(house: House) -> None:
    flow = flow_of(house, prompt="plain")
    answers = await house.hear(house.topic("answers"))
    working = await house.work(flow, lambda call: lines(CHALK))

    await house.put(flow.input.topic, chunk())

    [record] = await answers.until(1)
    assert len(Answer.decode(record.data).objects) == 1
    assert "prompt `plain` has no clause `graph`" in working.worker.health.notes()["flow f"]
    assert await house.published("triples") == []


async def test_an_object_too_large_for_a_statement_is_rejected_alone(house: House) -> None:
    flow = flow_of(house, budget=Budget(characters=None))
    answers = await house.hear(house.topic("answers"))
    huge = {"entity": "flint", "definition": "x" * 400_000}
    await house.work(flow, lambda call: lines(huge, CHALK))

    await house.put(flow.input.topic, chunk())

    [record] = await answers.until(1)
    published = await house.published("triples")
    answer = Answer.decode(record.data)
    assert [one["issues"][0]["reason"] for one in answer.rejected] == ["too_large"]
    assert "at most 400,000" in json.dumps(answer.rejected)
    assert {subject for subject, _, _ in said(published)} == {"http://trustgraph.ai/e/soft-chalk"}
