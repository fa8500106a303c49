"""A prompt that asks for facts in the terms of an ontology: ids and classes are derived."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.contract.test_worker_ontology import DOCUMENT, TEXT, Turns, chunk
from tests.support.graph_records import Triples
from tests.support.workers import House, Script
from trustgraph_prompt import package_data
from trustgraph_prompt.ask.cache import MemoryCache
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.llm import Call, ScriptedAnswer
from trustgraph_prompt.prompts import files
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.flow import Flow, Input, Outputs

PROMPT = "extract-with-ontologies"
BUNDLED = files.load(package_data.templates() / f"{PROMPT}.prompt")
FILMS: dict[str, Any] = {
    "classes": {"Q5": {"rdfs:label": " human "}, "Q11424": {"rdfs:label": "film"}},
    "objectProperties": {"P57": {"rdfs:label": "director ", "rdfs:domain": "Q11424", "rdfs:range": "Q5"}},
    "datatypeProperties": {
        "P577": {"rdfs:label": "publication date", "rdfs:domain": "Q11424", "rdfs:range": "xsd:date"}
    },
}
#: The terms of the same ontology as TrustGraph's extractor sends them.
TERMS: dict[str, Any] = {**make_ontology("m", FILMS, "m").terms}
HEAT = "Heat is a film by Mann."
DIRECTED = {
    "type": "relationship",
    "subject": "Heat",
    "subject_type": "Q11424",
    "relation": "P57",
    "object": "Mann",
    "object_type": "Q5",
}


async def working(
    house: House,
    model: Script,
    document: Mapping[str, Any] = DOCUMENT,
    entry: Mapping[str, Any] = {},
    **outputs: Any,
) -> Flow:
    flow = house.flow(
        input=Input(house.topic("chunks"), "prompt--default--f--request", kind="chunk"),
        outputs=Outputs(
            answers=house.topic("answers"), **outputs or {"objects": {"": house.topic("objects")}}
        ),
        prompt=PROMPT,
        ontology=OntologyIndex(make_ontology("org", document, "org")),
    )
    [(key, bundled)] = BUNDLED.items()
    house.base = {key: json.dumps(json.loads(bundled) | entry)}
    await house.work(flow, model, config=True)
    return flow


def fact(subject: str, relation: str, object: object) -> str:
    return json.dumps({"subject": subject, "relation": relation, "object": object}) + "\n"


async def test_facts_are_published_with_ids_and_the_classes_that_follow(house: House) -> None:
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    turns = Turns(
        fact("Ada", "head of", "Babbage Ltd")
        + fact("Ada", "Holds", "director")
        + fact("Babbage Ltd", "founded", "1815")
    )
    flow = await working(house, turns)

    await chunk(house, flow, TEXT + " It was founded in 1815.")

    [record] = await answers.until(1)
    published = {json.loads(each.data)["type"]: json.loads(each.data) for each in await objects.until(3)}
    assert published["attribute"] == {
        "type": "attribute",
        "entity": "Babbage Ltd",
        "entity_type": "Organization",
        "attribute": "founded",
        "value": "1815",
    }
    answer = Answer.decode(record.data)
    assert len(answer.objects) == 3
    assert {(each["about"], each["path"]) for each in answer.remarks} == {("relation", "/relation")}


async def test_question_names_relations_by_label_and_the_passage_stands_alone(house: House) -> None:
    answers = await house.hear(house.topic("answers"))
    calls: list[Call] = []

    def model(call: Call) -> ScriptedAnswer:
        calls.append(call)
        return ScriptedAnswer("[]")

    flow = await working(house, model, FILMS)

    await chunk(house, flow, HEAT)

    await answers.until(1)
    [call] = calls
    system, user = call.messages
    assert "- director (of a film, to a human)\n" in system.text
    assert "- publication date (of a film, to a date)\n" in system.text
    assert user.text.strip() == HEAT
    assert call.response_schema is not None
    items = call.response_schema["properties"]["items"]["items"]
    assert items["properties"]["relation"]["enum"] == ["publication date", "director"]


async def test_unknown_relation_is_asked_for_again_with_the_known_ones(house: House) -> None:
    answers = await house.hear(house.topic("answers"))
    turns = Turns(fact("Ada", "headed", "Babbage Ltd"), fact("Ada", "head of", "Babbage Ltd"))
    flow = await working(house, turns)

    await chunk(house, flow)

    [record] = await answers.until(1)
    assert len(Answer.decode(record.data).objects) == 1
    assert "unknown relation 'headed', did you mean 'head of'?" in turns.asked[1]


async def test_name_of_which_two_classes_are_expected_has_none_and_a_remark(house: House) -> None:
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    turns = Turns(fact("Ada", "holds", "Babbage Ltd") + fact("Ada", "head of", "Babbage Ltd"))
    flow = await working(house, turns)

    await chunk(house, flow)

    [record] = await answers.until(1)
    published = [json.loads(each.data) for each in await objects.until(2)]
    assert all("object_type" not in each and each["subject_type"] == "Person" for each in published)
    remarks = Answer.decode(record.data).remarks
    assert [each["path"] for each in remarks] == ["/object_type", "/object_type"]
    assert "'Post' and 'Organization' are expected of it" in remarks[0]["message"]


async def test_each_kind_of_object_goes_to_its_topic(house: House) -> None:
    relations, rest = await house.hear(house.topic("relations")), await house.hear(house.topic("rest"))
    answer = fact("Heat", "director", "Mann") + fact("Heat", "publication date", "15 December 1995")
    outputs = {"relationship": house.topic("relations"), "": house.topic("rest")}
    flow = await working(house, Turns(answer), FILMS, objects=outputs)

    await chunk(house, flow, HEAT + " It came out on 15 December 1995.")

    [relation], [attribute] = await relations.until(1), await rest.until(1)
    assert json.loads(relation.data) == DIRECTED
    assert json.loads(attribute.data)["type"] == "attribute"
    assert set(json.loads(attribute.properties["grounding"])) == {"/entity", "/value"}


async def test_value_of_another_datatype_is_remarked_and_makes_no_statement(house: House) -> None:
    answers = await house.hear(house.topic("answers"))
    answer = fact("Heat", "director", "Mann") + fact("Heat", "publication date", "soon")
    topics: dict[str, Any] = {"triples": house.topic("triples"), "objects": {"": house.topic("objects")}}
    flow = await working(house, Turns(answer), FILMS, **topics)

    await chunk(house, flow, HEAT + " It is out soon.")

    [record] = await answers.until(1)
    assert [each["about"] for each in Answer.decode(record.data).remarks] == ["value"]
    assert len(Answer.decode(record.data).objects) == 2
    made = [
        each for message in await house.published("triples") for each in Triples.decode(message.data).triples
    ]
    predicates = [each.p.iri for each in made if each.p and each.p.iri]
    assert any(iri.endswith("#P57") for iri in predicates)
    assert not any(iri.endswith("#P577") for iri in predicates)


async def test_strict_prompt_asks_again_for_such_a_value(house: House) -> None:
    answers = await house.hear(house.topic("answers"))
    turns = Turns(fact("Heat", "publication date", "soon"), fact("Heat", "publication date", "1995-12-15"))
    flow = await working(house, turns, FILMS, {"ontology": "strict"})

    await chunk(house, flow, "Heat is out soon, on 1995-12-15.")

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (len(answer.objects), answer.remarks) == (1, ())
    assert "'soon' is not a date, as 'P577' expects" in turns.asked[1]


def served(house: House) -> Flow:
    """The flow of a prompt service."""
    house.base = BUNDLED
    return house.flow(prompt=None)


async def test_request_with_an_ontology_in_its_terms_gets_ids_and_classes(house: House) -> None:
    flow, responses = served(house), await house.hear(house.topic("responses"))
    turns = Turns(fact("Heat", "Directed by", "Mann"))
    await house.work(flow, turns, config=True)

    [response] = await responses.under(await house.send(flow, PROMPT, text=HEAT, **TERMS))

    assert json.loads(response["object"]) == [DIRECTED]
    assert "- director (of a film, to a human)" in turns.asked[0]


async def test_stream_in_the_terms_of_an_ontology_has_its_objects_at_the_end(house: House) -> None:
    flow, responses = served(house), await house.hear(house.topic("responses"))
    await house.work(flow, Turns(fact("Heat", "director", "Mann")), config=True)

    pieces = await responses.under(await house.send(flow, PROMPT, streaming=True, text=HEAT, **TERMS))

    assert [json.loads(line) for line in "".join(each["text"] for each in pieces).splitlines()] == [DIRECTED]
    assert pieces[-1]["end_of_stream"]


async def test_terms_that_are_no_ontology_leave_the_facts_as_they_are(house: House) -> None:
    flow, responses = served(house), await house.hear(house.topic("responses"))
    await house.work(flow, Turns(fact("Heat", "director", "Mann")), config=True)
    terms: dict[str, Any] = {
        "classes": {},
        "object_properties": {"P57": {"labels": 3}},
        "datatype_properties": {},
    }

    [response] = await responses.under(await house.send(flow, PROMPT, text=HEAT, **terms))

    assert json.loads(response["object"]) == [json.loads(fact("Heat", "director", "Mann"))]


async def test_request_without_an_ontology_is_refused(house: House) -> None:
    flow, responses = served(house), await house.hear(house.topic("responses"))
    await house.work(flow, Turns(), config=True)

    [response] = await responses.under(await house.send(flow, PROMPT, text=HEAT))

    assert "needs the term classes, datatype_properties, object_properties" in response["error"]["message"]


async def test_cached_answer_is_read_in_the_same_terms(house: House) -> None:
    flow, responses = served(house), await house.hear(house.topic("responses"))
    [(key, bundled)] = BUNDLED.items()
    house.base = {key: json.dumps(json.loads(bundled) | {"cache": True})}
    turns = Turns(fact("Heat", "directed by", "Mann"))
    await house.work(flow, turns, config=True, cache=MemoryCache())

    for _ in range(2):
        [response] = await responses.under(await house.send(flow, PROMPT, text=HEAT, **TERMS))
        assert json.loads(response["object"]) == [DIRECTED]
    assert len(turns.asked) == 1


async def test_second_delivery_gets_the_same_objects(house: House) -> None:
    flow, responses = served(house), await house.hear(house.topic("responses"))
    objects = await house.hear(house.topic("objects"))
    turns = Turns(fact("Heat", "directed by", "Mann"))
    await house.work(flow, turns, config=True)

    await house.send_twice(flow, PROMPT, id="twice", text=HEAT, terms=TERMS)

    both = [json.loads(each.data)["object"] for each in await responses.until(2)]
    assert both[0] == both[1] == json.dumps([DIRECTED], separators=(",", ":"))
    assert {each.key for each in await objects.until(1)} == {each.key for each in await objects.all()}
    assert len(turns.asked) == 1


async def test_quote_stays_with_its_object_and_must_say_it(house: House) -> None:
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    said = fact("Heat", "director", "Mann")
    good, bad = (
        json.dumps({"quote": quote} | json.loads(said)) + "\n" for quote in (HEAT, "a film by Mann of")
    )
    [bundled] = BUNDLED.values()
    schema = json.loads(bundled)["schema"]
    schema["properties"] = {"quote": {"type": "string", "x-quote": "text"}} | schema["properties"]
    schema["required"] = ["quote", *schema["required"]]
    flow = await working(house, Turns(good + bad, "[]"), FILMS, {"schema": schema})

    await chunk(house, flow, HEAT)

    [record], [published] = await answers.until(1), await objects.until(1)
    assert json.loads(published.data) == DIRECTED | {"quote": HEAT}
    assert [each["issues"][0]["path"] for each in Answer.decode(record.data).rejected] == ["/quote"]
