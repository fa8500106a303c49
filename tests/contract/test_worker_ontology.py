"""A prompt that asks for classes: what the ontology allows is published, the rest is asked for again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

import pytest

from tests.support.workers import House, Script, entry
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.graph.ontology_files import parse_ontology
from trustgraph_prompt.llm import Call, ScriptedAnswer
from trustgraph_prompt.prompts import files
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.flow import Flow, Input, Outputs

CLASSES = {f"Filler{n}": {"rdfs:label": f"widget {n}"} for n in range(300)} | {
    "Agent": {},
    "Person": {"rdfs:subClassOf": "Agent"},
    "Organization": {"rdfs:subClassOf": "Agent"},
    "Post": {},
}
DOCUMENT = {
    "classes": CLASSES,
    "objectProperties": {
        "headOf": {"rdfs:domain": "Person", "rdfs:range": "Organization"},
        "holds": {"rdfs:domain": "Agent", "rdfs:range": "Post"},
    },
    "datatypeProperties": {"founded": {"rdfs:domain": "Organization", "rdfs:range": "xsd:gYear"}},
}
TEXT = "Ada, a person, is head of the organization Babbage Ltd, and holds the post of director."


def head(subject_type: str, object_type: str) -> dict[str, str]:
    return {
        "type": "relationship",
        "subject": "Ada",
        "subject_type": subject_type,
        "relation": "headOf",
        "object": "Babbage Ltd",
        "object_type": object_type,
    }


def line(value: dict[str, str]) -> str:
    return json.dumps(value) + "\n"


ADA = {"type": "entity", "entity": "Ada", "entity_type": "Person"}


class Turns:
    """A model that gives its answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, call: Call) -> ScriptedAnswer:
        self.asked.append("\n".join(message.text for message in call.messages))
        return ScriptedAnswer(self.answers[len(self.asked) - 1])


#: A prompt that asks for the classes of both ends, as the bundled one did.
TYPED = files.load(Path(__file__).parents[1] / "data" / "typed-objects.prompt")
TRUSTGRAPHS = {
    "template.extract-with-ontologies": entry("{{ classes }}: {{ text }}", **{"response-type": "jsonl"})
}


async def working(
    house: House, model: Script, ontology: Ontology | None = None, prompts: Mapping[str, str] = TYPED
) -> Flow:
    flow = house.flow(
        input=Input(house.topic("chunks"), "prompt--default--f--request", kind="chunk"),
        outputs=Outputs(answers=house.topic("answers"), objects={"": house.topic("objects")}),
        prompt="extract-with-ontologies",
        ontology=OntologyIndex(ontology or make_ontology("org", DOCUMENT, "org")),
    )
    house.base = prompts
    await house.work(flow, model, config=True)
    return flow


async def chunk(house: House, flow: Flow, text: str = TEXT) -> None:
    await house.put(flow.input.topic, Chunk(Metadata("urn:c", "urn:d", "docs"), text, "urn:c").encode())


@pytest.mark.parametrize("prompts", [TYPED, TRUSTGRAPHS])
async def test_forbidden_object_is_asked_for_again_with_the_reason(
    house: House, prompts: Mapping[str, str]
) -> None:
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    turns = Turns(line(ADA) + line(head("Agent", "Organization")), line(head("Person", "Organization")))
    flow = await working(house, turns, prompts=prompts)

    await chunk(house, flow)

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    published = [json.loads(each.data) for each in await objects.until(2)]
    assert sorted(published, key=itemgetter("type")) == [ADA, head("Person", "Organization")]
    assert (answer.rejected_count, [call["why"] for call in answer.calls]) == (0, ["first", "invalid"])
    assert (
        "'headOf' does not fit the class of the subject: found 'Agent', expected 'Person'" in turns.asked[1]
    )


@pytest.mark.parametrize(
    ("file", "relation", "wrong", "right"),
    [
        ("org.ttl", "memberOf", ("Agent", "Site"), ("Agent", "Organization")),
        ("foaf.rdf", "knows", ("Person", "Group"), ("Person", "Person")),
    ],
)
async def test_a_public_ontology_drives_an_extraction(
    house: House, file: str, relation: str, wrong: tuple[str, str], right: tuple[str, str]
) -> None:
    pytest.importorskip("pyoxigraph", reason="no pyoxigraph: pip install trustgraph-prompt[graph]")
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    turns = Turns(*[line({**head(*classes), "relation": relation}) for classes in (wrong, right)])
    path = Path(__file__).parents[1] / "data" / "ontologies" / file
    flow = await working(house, turns, parse_ontology(path, path.read_text()))

    await chunk(house, flow)

    [published] = await objects.until(1)
    assert json.loads(published.data) == {**head(*right), "relation": relation}
    [record] = await answers.until(1)
    assert [call["why"] for call in Answer.decode(record.data).calls] == ["first", "invalid"]
    [_, again] = turns.asked
    assert f"found {wrong[1]!r}, expected {right[1]!r} or a subclass" in again


async def test_object_that_stays_forbidden_is_in_the_record_and_not_published(house: House) -> None:
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    wrong = line(ADA) + line(head("Person", "Post"))
    flow = await working(house, Turns(wrong, wrong))

    await chunk(house, flow)

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert [json.loads(each.data) for each in await objects.until(1)] == [ADA]
    [rejected] = answer.rejected
    [issue] = rejected["issues"]
    assert (issue["reason"], issue["path"]) == ("invariant_violation", "/object_type")
    assert "found 'Post', expected 'Organization' or a subclass" in issue["message"]


async def test_model_sees_the_part_of_the_ontology_that_the_chunk_needs(
    house: House,
) -> None:
    answers = await house.hear(house.topic("answers"))
    turns = Turns(line({**ADA, "entity_type": "Widget"}), line(ADA))
    flow = await working(house, turns)

    await chunk(house, flow, TEXT + " It makes every widget.")

    await answers.until(1)
    question, again = turns.asked[0], turns.asked[1].removeprefix(turns.asked[0])
    assert "- headOf (Person to Organization)" in question
    assert 50 < question.count("- Filler") < 160
    assert "unknown class 'Widget'" in again
    assert again.count("Filler") < 8


async def test_ungrounded_and_forbidden_objects_are_both_refused(house: House) -> None:
    answers = await house.hear(house.topic("answers"))
    flow = await working(
        house, Turns(*[line(ADA) + line({**ADA, "entity": "Grace"}) + line(head("Post", "Post"))] * 2)
    )

    await chunk(house, flow)

    [record] = await answers.until(1)
    reasons = {each["issues"][0]["reason"] for each in Answer.decode(record.data).rejected}
    assert reasons == {"ungrounded", "invariant_violation"}


async def test_a_chunk_without_a_word_of_the_ontology_costs_nothing_and_has_no_objects(house: House) -> None:
    answers = await house.hear(house.topic("answers"))
    turns = Turns()
    flow = await working(house, turns)

    await chunk(house, flow, "Nobody sang.")

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (answer.reason, answer.objects, answer.calls, turns.asked) == ("success", (), (), [])
