"""An object says something of its own, and has a word of its quote: what is refused, and how."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.contract.roles import Role
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import StreamReader, read

TEXT = "Otto Meier worked at Delft. The saw hung on the wall of his shop. He painted Anna on 3 May 1999."
TERMS = {"text": TEXT}
FACTS = """
schema Fact:
    quote: string @quote(text)
    subject: string @from(text)
    relation: string @supported(of: subject)
    object: string @supported(of: relation)

schema Definition:
    quote: string @quote(text)
    entity: string @from(text)
    definition: string @supported(of: entity)

schema Unquoted:
    subject: string
    relation: string @supported(of: subject)
    object: string @supported(of: relation)
"""
CONTRACTS = Contract.language(FACTS, format="jsonl")
MEIER = {"quote": "Otto Meier worked at Delft.", "subject": "Otto Meier"}
SAW = {"quote": "The saw hung on the wall", "entity": "saw"}


def flaws(value: dict[str, Any], name: str = "Fact") -> list[tuple[str, Reason]]:
    outcome = read(json.dumps(value), CONTRACTS[name], terms=TERMS)
    return [(issue.path, issue.reason) for _, issue in outcome.errors()]


@pytest.mark.parametrize(
    "value",
    [
        {**MEIER, "relation": "worked at", "object": "Delft"},
        {**MEIER, "relation": "worked in", "object": "a university town"},
        {**MEIER, "relation": "employer", "object": "Delft"},
        {**MEIER, "quote": "He painted Anna", "relation": "date", "object": "1999-05-03"},
        {**MEIER, "quote": "He painted Anna", "relation": "occupation", "object": "painter"},
        {**MEIER, "quote": "He painted Anna", "relation": "Jahr", "object": "das Jahr der Entstehung"},
    ],
)
def test_fact_with_a_word_of_its_quote_is_accepted(value: dict[str, Any]) -> None:
    assert flaws(value) == []


def test_value_that_only_repeats_its_relation_is_refused() -> None:
    value = {**MEIER, "relation": "worked at Delft", "object": "Delft"}
    assert flaws(value) == [("/object", Reason.REPETITIVE)]


def test_repetition_is_refused_without_a_quote_too() -> None:
    value = {"subject": "Otto", "relation": "worked at Delft", "object": "Delft"}
    assert flaws(value, "Unquoted") == [("/object", Reason.REPETITIVE)]
    assert flaws({**value, "relation": "grew", "object": "plants"}, "Unquoted") == []


@pytest.mark.parametrize(
    ("object", "is_itself"), [("otto  meier", True), ("Otto Meier Ltd", False), ("Meier", False)]
)
def test_fact_that_says_its_subject_of_itself_is_refused(object: str, is_itself: bool) -> None:
    value = {**MEIER, "relation": "worked at", "object": object}
    assert (flaws(value) == [("/object", Reason.REPETITIVE)]) is is_itself


@pytest.mark.parametrize("definition", ["saw", "The saws", "the saw that is a saw"])
def test_definition_that_only_repeats_its_entity_is_refused(definition: str) -> None:
    assert flaws({**SAW, "definition": definition}, "Definition") == [("/definition", Reason.REPETITIVE)]


def test_fact_without_a_word_of_its_quote_is_refused_whatever_the_passage_names() -> None:
    value = {**MEIER, "relation": "father of", "object": "Anna"}
    assert flaws(value) == [("/object", Reason.UNSUPPORTED)]


def test_subject_is_not_looked_for_in_the_quote() -> None:
    value = {**MEIER, "quote": "He painted Anna", "relation": "painted", "object": "Anna"}
    assert flaws(value) == []


@pytest.mark.parametrize(
    ("definition", "refused"),
    [
        ("a tool used to cut wood", True),
        ("a saw used to cut wood", True),
        ("a saw that hung in a shop", False),
        ("ein Werkzeug aus der Werkstatt", False),
        ("инструмент", False),
    ],
)
def test_definition_needs_a_word_of_its_quote_that_is_not_its_entity(definition: str, refused: bool) -> None:
    expected = [("/definition", Reason.UNSUPPORTED)] if refused else []
    assert flaws({**SAW, "definition": definition}, "Definition") == expected


def test_object_whose_quote_is_not_in_the_text_is_only_ungrounded() -> None:
    value = {**MEIER, "quote": "He lived in Leiden.", "relation": "father of", "object": "Anna"}
    assert flaws(value) == [("/quote", Reason.UNGROUNDED)]


def test_model_is_told_what_to_write_instead() -> None:
    contract = CONTRACTS["Fact"].with_terms(TERMS)
    [issue] = contract.issues({**MEIER, "relation": "worked at Delft", "object": "Delft"})
    assert issue.for_model == (
        '/object: "Delft" only repeats what `relation` says; write the relation without it, or leave the '
        "object out"
    )
    [issue] = contract.issues({**MEIER, "relation": "father of", "object": "Anna"})
    assert issue.for_model == (
        '/object: "Anna" has no word in common with its quote; say it with the words of the quote, or leave '
        "the object out"
    )


def test_nothing_is_checked_without_the_terms_of_the_question() -> None:
    value = {**MEIER, "relation": "worked at Delft", "object": "Delft"}
    assert CONTRACTS["Fact"].accepts(value)
    assert read(json.dumps(value), CONTRACTS["Fact"]).value == [value]


def test_flaw_of_an_element_of_a_list_has_its_index() -> None:
    contract = Contract.language(FACTS, many=True)["Fact"]
    good = {**MEIER, "relation": "worked at", "object": "Delft"}
    outcome = read(json.dumps([good, {**good, "relation": "worked at Delft"}]), contract, terms=TERMS)
    assert [(issue.path, issue.reason) for issue in outcome.issues] == [("/1/object", Reason.REPETITIVE)]


def test_roles_that_are_handed_in_count_where_there_is_a_quote() -> None:
    text = "schema A:\n    quote: string @quote(text)\n    name: string\n    says: string\n    kind: string"
    handed = [Role("name", None, "says", (("kind", "definition"),))]
    contract = Contract.language(text, format="jsonl")["A"].with_roles(handed).with_terms(TERMS)
    value = {"quote": "The saw hung on the wall", "name": "saw", "says": "a tool used to cut wood"}
    assert not contract.accepts({**value, "kind": "definition"})
    assert contract.accepts({**value, "kind": "remark"})


@pytest.mark.parametrize("said", [5, None, True, ["Delft"], {"a": "b"}, "", " "])
def test_value_of_any_type_is_judged_or_left_alone(said: Any) -> None:
    keys = {"quote": {"type": "string", "x-quote": "text"}, "name": {}, "says": {}}
    contract = Contract.from_schema({"type": "object", "properties": keys}).with_roles(
        [Role("name", None, "says")]
    )
    value = {"quote": "The saw hung on the wall", "name": said, "says": said}
    assert contract.with_terms(TERMS).accepts(value)


def test_number_without_its_quote_is_refused() -> None:
    keys = {
        "quote": {"type": "string", "x-quote": "text"},
        "name": {"type": "string"},
        "year": {"type": "integer", "x-supported": "name"},
    }
    contract = Contract.from_schema({"type": "object", "properties": keys}).with_terms(TERMS)
    value = {"quote": "He painted Anna", "name": "Anna"}
    assert contract.accepts({**value, "year": 1999})
    assert not contract.accepts({**value, "year": 1998})


def test_chunks_and_the_whole_answer_are_judged_alike() -> None:
    good = {**MEIER, "relation": "worked at", "object": "Delft"}
    answer = "\n".join(map(json.dumps, [good, {**good, "relation": "worked at Delft"}, good]))
    reader = StreamReader(CONTRACTS["Fact"], TERMS)
    streamed = [value for at in range(0, len(answer), 7) for value in reader.feed(answer[at : at + 7])]
    outcome = reader.close()
    assert streamed == outcome.value == read(answer, CONTRACTS["Fact"], terms=TERMS).value == [good, good]


def test_comparing_statements_counts_towards_the_effort() -> None:
    contract = Contract.language(FACTS, format="jsonl", limits=Limits(steps=500_000))["Unquoted"]
    value = {"subject": "a", "relation": "grew " * 20, "object": "grew"}
    outcome = read("\n".join(json.dumps(value) for _ in range(100)), contract, terms=TERMS)
    reasons = [issue.reason for _, issue in outcome.errors()]
    assert 0 < reasons.count(Reason.REPETITIVE) < 20
    assert Reason.EFFORT_SPENT in reasons
