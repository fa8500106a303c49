"""An answer in the terms of an ontology: what is refused, what is meant, and what goes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_answer import AnswerReading, Vocabulary, asks_for_facts
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.outcome import Outcome
from trustgraph_prompt.reader import read

DOCUMENT: dict[str, Any] = {
    "classes": {
        "Q5": {"rdfs:label": "human"},
        "Q11424": {"rdfs:label": "film", "owl:disjointWith": ["Q5"]},
        "Q483394": {"rdfs:label": "genre"},
        "Q201658": {"rdfs:label": "film genre", "rdfs:subClassOf": "Q483394"},
    },
    "objectProperties": {
        "P57": {
            "rdfs:label": "director ",
            "rdfs:domain": "Q11424",
            "rdfs:range": "Q5",
            "owl:inverseOf": "https://example.org/directorOf",
        },
        "P161": {"rdfs:label": "cast member", "rdfs:domain": "Q11424", "rdfs:range": "Q5"},
        "P136": {"rdfs:label": "genre", "rdfs:domain": "Q11424", "rdfs:range": "Q483394"},
        "P2130": {"rdfs:label": "cost", "rdfs:domain": "Q11424"},
        "P1": {"rdfs:label": "about", "rdfs:domain": "Q11424", "rdfs:range": "owl:Thing"},
    },
    "datatypeProperties": {
        "P577": {"rdfs:label": "publication date", "rdfs:domain": "Q11424", "rdfs:range": "xsd:date"}
    },
}
ONTOLOGY = make_ontology("m", DOCUMENT, "m")
FACT = {
    "type": "object",
    "properties": {key: {"type": "string"} for key in ("subject", "relation", "object")},
}


def reading(text: str = "", *, strict: bool = False, ontology: Ontology = ONTOLOGY) -> AnswerReading:
    return AnswerReading(Vocabulary(ontology), text, strict)


def fact(subject: object, relation: object, object: object, **more: object) -> dict[str, Any]:
    return {"subject": subject, "relation": relation, "object": object, **more}


def answered(*facts: dict[str, Any]) -> Outcome:
    return Outcome([*facts], Reason.SUCCESS, Contract.from_schema(FACT, format="jsonl"))


def remarks(outcome: Outcome) -> list[tuple[int, str, str]]:
    return [(each.index, each.about, each.path) for each in outcome.remarks]


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        (["subject", "relation", "object"], True),
        (["quote", "subject", "relation", "object", "sure"], True),
        (["subject", "subject_type", "relation", "object", "object_type"], False),
        (["subject", "subject-type", "relation", "object"], False),
        (["subject", "predicate", "object"], False),
    ],
)
def test_objects_without_classes_are_facts(keys: list[str], facts: bool) -> None:
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in keys}}
    assert asks_for_facts(Contract.from_schema(schema, format="jsonl")) is facts
    assert not asks_for_facts(Contract.from_schema(schema, format="json", many=True))
    assert not asks_for_facts(Contract.from_schema(None, format="jsonl"))


def test_relationship_has_the_id_and_the_derived_classes() -> None:
    outcome = reading().read(answered(fact("Heat", "director", "Mann", quote="by Mann")))
    assert outcome.value == [
        {
            "type": "relationship",
            "subject": "Heat",
            "subject_type": "Q11424",
            "relation": "P57",
            "object": "Mann",
            "object_type": "Q5",
            "quote": "by Mann",
        }
    ]
    assert outcome.remarks == ()


@pytest.mark.parametrize(
    ("relation", "value", "id", "remark"),
    [
        ("publication date", "15 December 1995", "P577", []),
        ("publication date", "soon", "P577", [(0, "value", "/value")]),
        ("cost", 60, "P2130", []),  # a relation without a range gives a value
        ("cost", True, "P2130", []),
    ],
)
def test_value_is_an_attribute(relation: str, value: object, id: str, remark: list[Any]) -> None:
    outcome = reading().read(answered(fact("Heat", relation, value)))
    [made] = outcome.value
    assert made == {
        "type": "attribute",
        "entity": "Heat",
        "entity_type": "Q11424",
        "attribute": id,
        "value": {60: "60", True: "true"}.get(value, value),  # type: ignore[call-overload]
    }
    assert remarks(outcome) == remark


def test_range_that_is_anything_is_an_entity_of_unknown_class() -> None:
    outcome = reading().read(answered(fact("Heat", "about", "crime")))
    [made] = outcome.value
    assert (made["type"], made["object"], "object_type" in made) == ("relationship", "crime", False)
    assert remarks(outcome) == [(0, "class", "/object_type")]
    assert outcome.remarks[0].message.endswith("unknown: nothing in the answer says what it is")


def test_relation_in_other_words_is_remarked() -> None:
    outcome = reading().read(
        answered(fact("Heat", "Directed by", "Mann"), fact("Heat", "castMember", "Pacino"))
    )
    assert [each["relation"] for each in outcome.value] == ["P57", "P161"]
    assert [each.message for each in outcome.remarks] == [
        "'Directed by' was read as 'P57' (by its form)",
        "'castMember' was read as 'P161' (by its spelling)",
    ]


def test_equal_objects_in_other_words_become_one() -> None:
    given = answered(fact("Heat", "director", "Mann"), fact("Heat", "directed by", "Mann"))
    assert len(reading().read(given).value) == 1


def test_ends_are_swapped_for_an_inverse_that_the_ontology_declares() -> None:
    outcome = reading().read(answered(fact("Mann", "director of", "Heat")))
    [made] = outcome.value
    assert (made["subject"], made["relation"], made["object"]) == ("Heat", "P57", "Mann")
    assert [each.about for each in outcome.remarks] == ["relation", "ends"]
    assert "it is the inverse of 'P57'" in outcome.remarks[1].message


def test_ends_are_swapped_where_other_objects_exclude_the_order() -> None:
    wrong, sure = fact("Mann", "director", "Heat"), fact("Heat", "publication date", "1995-12-15")
    outcome = reading().read(answered(wrong, sure))
    assert (outcome.value[0]["subject"], outcome.value[0]["object_type"]) == ("Heat", "Q5")
    assert remarks(outcome) == [(0, "ends", "")]
    [alone] = reading().read(answered(wrong)).value
    assert alone["subject"] == "Mann"


def test_wrong_value_neither_swaps_the_ends_of_a_right_relation_nor_takes_its_class() -> None:
    right, wrong = fact("Heat", "director", "Mann"), fact("Mann", "publication date", "soon")
    outcome = reading().read(answered(right, wrong))
    ends = outcome.value[0]
    assert (ends["subject"], ends["object"], ends["object_type"]) == ("Heat", "Mann", "Q5")
    assert remarks(outcome) == [(1, "value", "/value")]


def test_objects_that_differ_only_in_their_quotes_become_one() -> None:
    schema = {"properties": {**FACT["properties"], "q": {"type": "string", "x-quote": "text"}}}  # type: ignore[dict-item]
    contract = Contract.from_schema({**FACT, **schema}, format="jsonl")
    said = [fact("Heat", "director", "Mann", q="one"), fact("Heat", "directed by", "Mann", q="two")]
    outcome = reading().read(Outcome([*said], Reason.SUCCESS, contract))
    assert [each["q"] for each in outcome.value] == ["one"]


def test_grounding_stays_with_its_object_where_one_is_not_known_any_more() -> None:
    given = replace(
        answered(fact("Heat", "gone", "x"), fact("Heat", "director", "Mann")),
        grounding=({}, {"/subject": None}),
    )
    outcome = reading().read(given)
    assert (len(outcome.value), outcome.grounding) == (1, ({"/subject": None},))


def test_grounding_moves_with_the_ends() -> None:
    schema = {
        "type": "object",
        "properties": {
            key: {"type": "string", **({} if key == "relation" else {"x-from": "text"})}
            for key in ("subject", "relation", "object")
        },
    }
    text = "Heat, published on 1995-12-15, is by Mann."
    answer = (
        '{"subject": "Mann", "relation": "director", "object": "Heat"}\n'
        '{"subject": "Heat", "relation": "publication date", "object": "1995-12-15"}'
    )
    given = read(answer, Contract.from_schema(schema, format="jsonl"), terms={"text": text}).without_terms()
    outcome = reading(text).read(given)
    assert outcome.grounding is not None
    places = [
        {path: text[slice(*where.spans[0])] for path, where in found.items() if where}
        for found in outcome.grounding
    ]
    assert places == [
        {"/subject": "Heat", "/object": "Mann"},
        {"/entity": "Heat", "/value": "1995-12-15"},
    ]


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (
            fact("Heat", "directs", "Mann"),
            "/relation",
            "unknown relation 'directs', did you mean 'director'?",
        ),
        (fact("Heat", "", "Mann"), "/relation", "unknown relation '', expected 'publication date' or"),
        (fact("Heat", "director", "!?"), "/object", "found '!?', expected a string with a letter or a digit"),
        (fact("Heat", "director", "human"), "/object", "'human' is the name of a class, not of a thing"),
        (fact("Film", "director", "Mann"), "/subject", "'Film' is the name of a class, not of a thing"),
        (fact("Heat", "genre", "film genre"), "/object", "'film genre' is the name of a class"),
    ],
)
def test_refused_object_names_its_key(value: dict[str, Any], path: str, message: str) -> None:
    [issue] = reading("A film by Mann.").check(value)
    assert issue.path == path
    assert issue.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "value", "is_refused"),
    [
        ("Heat is about every human.", fact("Heat", "about", "human"), False),
        ("Heat is by Mann.", fact("Heat", "about", "human"), True),
        ("A human directed it.", fact("Heat", "director", "human"), True),  # of its own class
        ("A film genre.", fact("Heat", "genre", "film genre"), False),  # a kind of what is expected
        ("A genre.", fact("Heat", "genre", "genre"), True),
    ],
)
def test_class_name_is_a_thing_only_if_the_text_says_so(
    text: str, value: dict[str, Any], is_refused: bool
) -> None:
    assert bool(reading(text).check(value)) is is_refused


def test_value_that_is_no_object_is_refused() -> None:
    assert [each.path for each in reading().check("Heat")] == ["/subject", "/object", "/relation"]


def test_relation_that_may_be_two_is_refused_with_both() -> None:
    ends = {"rdfs:label": "name", "rdfs:domain": "A"}
    document = {
        "classes": {"A": {}, "B": {}},
        "objectProperties": {"x": ends, "y": {**ends, "rdfs:domain": "B"}},
    }
    [issue] = reading(ontology=make_ontology("o", document, "o")).check(fact("a", "name", "b"))
    assert issue.message == "'name' may be 'name (a)' or 'name (b)'"


def test_name_of_two_classes_has_none_and_a_remark() -> None:
    said = [fact("Heat", "cast member", "Pacino"), fact("Pacino", "cost", "3"), fact("Heat", "cost", "9")]
    outcome = reading().read(answered(*said))
    ends = [each.get("object_type", each.get("entity_type")) for each in outcome.value]
    assert ends == [None, None, "Q11424"]
    assert remarks(outcome) == [(0, "class", "/object_type"), (1, "class", "/entity_type")]
    assert "'Q5' and 'Q11424' are expected of it" in outcome.remarks[0].message


def test_strict_reading_refuses_what_does_not_fit() -> None:
    strict = reading(strict=True)
    [issue] = strict.check(fact("Heat", "publication date", "soon"))
    assert (issue.path, issue.message) == ("/object", "'soon' is not a date, as 'P577' expects")
    given = answered(
        fact("Heat", "cast member", "Pacino"), fact("Pacino", "cost", "3"), fact("Heat", "cost", "9")
    )
    outcome = strict.read(given)
    assert [each["value"] for each in outcome.value] == ["9"]
    assert [(each.index, each.issues[0].path) for each in outcome.rejected] == [
        (0, "/object"),
        (1, "/subject"),
    ]
    assert outcome.reason is Reason.SUCCESS


def test_strict_reading_that_refuses_everything_fails() -> None:
    said = [fact("Mann", "cast member", "Pacino"), fact("Pacino", "director", "Mann")]
    outcome = reading(strict=True).read(answered(*said))
    assert (outcome.value, outcome.reason) == ([], Reason.INVARIANT_VIOLATION)
    assert [each.index for each in outcome.rejected] == [0, 1]


def test_keys_that_a_model_adds_do_not_replace_what_is_derived() -> None:
    given = fact("Heat", "director", "Mann", type="entity", subject_type="Q5", value="x", note="n")
    [made] = reading().read(answered(given)).value
    assert (made["type"], made["subject_type"], made["note"]) == ("relationship", "Q11424", "n")
    assert "value" not in made


def test_hostile_names_are_short_in_messages() -> None:
    huge = "x" * 100_000
    for value in (fact(huge, huge, huge), fact("Heat", "publication date", huge)):
        assert all(len(str(issue)) < 400 for issue in reading(strict=True).check(value))
    outcome = reading().read(answered(fact(huge, "about", huge)))
    assert all(len(each.message) < 400 for each in outcome.remarks)


def test_answer_without_objects_stays_as_it_is() -> None:
    nothing = answered()
    assert reading().read(nothing) is nothing
