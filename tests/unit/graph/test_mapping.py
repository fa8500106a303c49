"""The objects of an answer become statements, as the clause `graph` of their prompt says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract, Grounding
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.graph.graph_clause import GraphClause
from trustgraph_prompt.graph.mapping import Graph, Stretch, graph_of
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import BOOLEAN, DEFINITION, DOUBLE, INTEGER, LABEL, TYPE
from trustgraph_prompt.grounding import MatchKind

E = "http://trustgraph.ai/e/"
DEFINED = {"entity": {"subject": "entity", "definition": "definition"}}
RELATED = {
    "statement": {"subject": "subject", "predicate": "predicate", "object": "object", "entity": "is-entity"}
}


def contract(*keys: str) -> Contract:
    return Contract.from_schema({"type": "object", "properties": {key: {} for key in keys}}, format="jsonl")


def clause(*forms: Any) -> GraphClause:
    keys = ("entity", "definition", "subject", "predicate", "object", "is-entity", "type", "name", "height")
    return GraphClause.of(forms, contract(*keys))


def graph(form: Any, *objects: Any, **options: Any) -> Graph:
    return graph_of(clause(form), objects, naming(), **options)


def test_name_becomes_the_iri_that_trustgraph_makes() -> None:
    assert naming()("Marie Curie") == E + "marie-curie"
    assert naming()("Zürich/West & Co") == E + "z%C3%BCrich/west-%26-co"
    assert naming(exact=True)("Marie Curie") == E + "Marie%20Curie"
    assert naming("urn:x:")("A b") == "urn:x:a-b"
    assert naming("urn:x:", exact=True)("A b") == "urn:x:A%20b"
    assert naming()("\ud800") == E + "%3F"


def test_definition_becomes_a_label_a_definition_and_two_contexts() -> None:
    made = graph(DEFINED, {"entity": "Chalk", "definition": "A soft rock."})

    chalk = Iri(E + "chalk")
    assert list(made.facts) == [Statement(chalk, DEFINITION, Literal("A soft rock."))]
    assert list(made.labels) == [Statement(chalk, LABEL, Literal("Chalk"))]
    assert list(made.contexts) == [Context(chalk, "Chalk"), Context(chalk, "A soft rock.")]


def test_relationship_becomes_a_statement_and_labels_of_its_terms() -> None:
    etna = {"subject": "Etna", "predicate": "located in", "object": "Sicily", "is-entity": True}
    height = {"subject": "Etna", "predicate": "height", "object": "3403", "is-entity": False}

    made = graph(RELATED, etna, height)

    assert list(made.facts) == [
        (E + "etna", E + "located-in", E + "sicily", ""),
        (E + "etna", E + "height", Literal("3403"), ""),
    ]
    assert [statement.object.value for statement in made.labels if isinstance(statement.object, Literal)] == [
        "Etna",
        "located in",
        "Sicily",
        "height",
    ]
    assert not made.contexts


@pytest.mark.parametrize(
    ("said", "is_entity"),
    [({}, True), ({"is-entity": True}, True)]
    + [({"is-entity": value}, False) for value in (False, None, "false", "no", "true", 1)],
)
def test_object_of_a_statement_is_an_entity_if_its_key_is_true_or_absent(said: Any, is_entity: bool) -> None:
    made = graph(RELATED, {"subject": "Etna", "predicate": "in", "object": "Sicily", **said})

    assert [isinstance(statement.object, Iri) for statement in made.facts] == [is_entity]


def test_iri_of_the_clause_is_used_and_one_of_the_model_becomes_a_name() -> None:
    volcano, height = "https://schema.org/Volcano", "urn:example:height"
    form = {
        "entity": {
            "subject": "name",
            "type": "type",
            "class": volcano,
            "properties": {"height": {"predicate": height}},
        }
    }

    made = graph(form, {"name": "Etna", "type": "http://a/b", "height": 3403})

    assert [(fact.predicate, fact.object) for fact in made.facts] == [
        (TYPE, volcano),
        (TYPE, E + "http%3A//a/b"),
        (height, Literal("3403", INTEGER)),
    ]
    assert [statement.object for statement in made.labels] == [Literal("http://a/b"), Literal("Etna")]


@pytest.mark.parametrize("empty", ["", " \n\t", None])
@pytest.mark.parametrize("key", ["subject", "predicate", "object", "entity", "definition"])
def test_answer_object_without_a_value_makes_no_statement(key: str, empty: str | None) -> None:
    is_definition = key in ("entity", "definition")
    keys = ("entity", "definition") if is_definition else ("subject", "predicate", "object")
    whole = dict.fromkeys(keys, "x")

    assert graph(DEFINED if is_definition else RELATED, whole).facts
    assert graph(DEFINED if is_definition else RELATED, {**whole, key: empty}) == Graph()


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, {"subject": [1], "other": {}}])
def test_answer_value_of_another_kind_makes_no_statement(value: Any) -> None:
    assert graph(RELATED, value) == Graph()


def test_repeated_object_makes_its_statements_once() -> None:
    said = {"entity": "Chalk", "definition": "A soft rock."}

    assert graph(DEFINED, said, said) == graph(DEFINED, said)


def test_entity_has_classes_and_typed_properties() -> None:
    form = {
        "entity": {
            "subject": "name",
            "type": "type",
            "class": "Mountain",
            "properties": {"height": {}, "object": {"predicate": "located in", "entity": True}},
        }
    }

    made = graph(
        form, {"name": "Etna", "type": "volcano", "height": [1, 2.5, True, "", "?"], "object": "Sicily"}
    )

    etna = Iri(E + "etna")
    assert list(made.facts) == [
        (etna, TYPE, E + "mountain", ""),
        (etna, TYPE, E + "volcano", ""),
        *(
            (etna, E + "height", literal, "")
            for literal in (
                Literal("1", INTEGER),
                Literal("2.5", DOUBLE),
                Literal("true", BOOLEAN),
                Literal("?"),
            )
        ),
        (etna, E + "located-in", E + "sicily", ""),
    ]
    assert Statement(Iri(E + "located-in"), LABEL, Literal("located in")) in made.labels
    assert list(made.contexts) == [Context(etna, "Etna")]


def test_form_applies_only_to_objects_with_the_values_of_its_when() -> None:
    mixed = clause({"when": {"type": "definition"}, **DEFINED}, {"when": {"type": "fact"}, **RELATED})
    objects = [
        {"type": kind, "entity": "a", "definition": "b", "subject": "s", "predicate": "p", "object": "o"}
        for kind in ("definition", "fact", "other")
    ]

    made = [graph_of(mixed, [each], naming()) for each in objects]

    assert [[statement.predicate for statement in each.facts] for each in made] == [
        [DEFINITION],
        [E + "p"],
        [],
    ]


def test_statement_has_the_evidence_of_its_values() -> None:
    etna = Grounding("text", MatchKind.EXACT, 1.0, ((0, 4),))
    sicily = Grounding("text", MatchKind.EXACT, 1.0, ((8, 14),))
    said = {"subject": "Etna", "predicate": "in", "object": "Sicily"}

    made = graph(RELATED, said, said, grounded=({"/subject": None}, {"/subject": etna, "/object": sicily}))

    assert list(made.facts.values()) == [(etna, sicily)]


@pytest.mark.parametrize(
    ("form", "path", "says"),
    [
        ({"entity": {"subject": "nme", "class": "X"}}, "/0/entity/subject", "did you mean 'name'?"),
        ({"entity": {"subject": "name", "definition": "text"}}, "/0/entity/definition", "does not declare"),
        (
            {"entity": {"subject": "name", "properties": {"width": {}}}},
            "/0/entity/properties/width",
            "does not declare",
        ),
        ({"when": {"sort": "x"}, "entity": {"subject": "name", "class": "X"}}, "/0/when/sort", "not declare"),
        ({"when": {"kind": "c"}, "entity": {"subject": "name", "class": "X"}}, "/0/when", "these values"),
        (
            {"when": {"kind": "b"}, "entity": {"subject": "name", "class": "X"}},
            "/0/entity/subject",
            "declare",
        ),
    ],
)
def test_clause_that_does_not_fit_the_schema_is_refused(form: Any, path: str, says: str) -> None:
    named = {"type": "object", "properties": {"kind": {"const": "a"}, "name": {"type": "string"}}}
    other = {"type": "object", "properties": {"kind": {"const": "b"}, "title": {"type": "string"}}}
    either = Contract.from_schema({"anyOf": [named, other]}, format="jsonl")

    with pytest.raises(PromptError, match=says.replace("?", r"\?")) as refused:
        GraphClause.of([form], either)

    assert refused.value.path == path


NAMES = {"type": "array", "items": {"$ref": "#/$defs/name"}}
PROPERTIES = {
    "name": {"$ref": "#/$defs/name"},
    "names": {"anyOf": [NAMES, {"type": "null"}]},
    "enum": {"enum": ["a", None]},
    "any": {},
    "flag": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    "height": {"type": "number"},
    "part": {"$ref": "#/$defs/part"},
    "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
}
KINDS = {"name": {"type": ["string", "null"], "minLength": 1}, "part": {"type": "object"}}
TYPED = Contract.from_schema({"type": "object", "properties": PROPERTIES, "$defs": KINDS}, format="jsonl")
NAME, FLAG = {"name", "enum", "any"}, {"flag", "any"}


@pytest.mark.parametrize(
    ("kind", "use", "allowed"),
    [
        ("statement", "subject", NAME),
        ("statement", "predicate", NAME),
        ("statement", "object", NAME),
        ("statement", "entity", FLAG),
        ("entity", "subject", NAME),
        ("entity", "definition", NAME),
        ("entity", "type", NAME | {"names"}),
        ("entity", "properties", NAME | {"names"}),
    ],
)
def test_key_of_a_type_that_does_not_fit_its_use_is_refused(kind: str, use: str, allowed: set[str]) -> None:
    whole: dict[str, Any] = {"subject": "name", "predicate": "name", "object": "name", "entity": True}
    whole = whole if kind == "statement" else {"subject": "name", "class": "X"}
    refused = {}
    for key in PROPERTIES:
        value = {key: {"entity": True}} if use == "properties" else key
        try:
            GraphClause.of([{kind: {**whole, use: value}}], TYPED)
        except PromptError as error:
            refused[key] = error

    assert refused.keys() == PROPERTIES.keys() - allowed
    assert {error.path.count(f"/0/{kind}/{use}") for error in refused.values() if error.path} == {1}
    assert all(
        f"of type {'boolean' if use == 'entity' else 'string'}" in str(each) for each in refused.values()
    )


def test_literal_may_have_any_type() -> None:
    literal = {"subject": "name", "predicate": "name", "object": "parts"}

    assert GraphClause.of(
        [{"statement": literal}, {"entity": {"subject": "name", "properties": {"part": {}}}}], TYPED
    )


def test_equal_clauses_are_equal_and_hashable() -> None:
    assert {clause(DEFINED), clause(DEFINED)} == {clause(DEFINED)}


QUOTE = Grounding("text", MatchKind.EXACT, 1.0, ((0, 5), (9, 12)))
ETNA = Grounding("text", MatchKind.PART, 0.5, ((20, 24),))
SAID = {"quote": "Here … etna", "subject": "Etna", "predicate": "in", "object": "Sicily"}


def test_stretches_of_a_quote_are_the_evidence_of_its_facts() -> None:
    found = {"/quote": QUOTE, "/subject": ETNA, "/object": None}
    made = graph_of(clause(RELATED), [SAID], naming(), (found,), ["quote"])

    [evidence] = made.facts.values()
    assert [each and each.spans for each in evidence] == [((0, 5),), ((9, 12),), (), None]
    assert [each and each.kind for each in evidence[2:]] == [MatchKind.PART, None]
    assert made.labels[Statement(Iri(E + "etna"), LABEL, Literal("Etna"))] == (ETNA,)
    assert not [each for each in made.facts if "Here" in str(each)]


@pytest.mark.parametrize("quote", [None, replace(QUOTE, spans=()), replace(QUOTE, term="title")])
def test_fact_of_an_object_without_a_quote_has_the_evidence_of_its_values(quote: Grounding | None) -> None:
    found = {"/quote": quote, "/subject": ETNA, "/object": None}
    made = graph_of(clause(RELATED), [SAID], naming(), (found,), ["quote"])
    assert list(made.facts.values()) == [(ETNA, None)]


def test_entity_has_its_quote_as_the_evidence_of_all_that_is_said() -> None:
    form = {"entity": {"subject": "name", "definition": "definition"}}
    value = {"quote": "Etna is a volcano", "name": "Etna", "definition": "a volcano"}
    quote = Stretch("text", MatchKind.EXACT, 1.0, ((0, 17),))
    made = graph_of(
        clause(form),
        [value],
        naming(),
        ({"/quote": replace(QUOTE, spans=quote.spans), "/name": ETNA},),
        ["quote"],
    )
    assert list(made.facts.values()) == [(quote, replace(ETNA, spans=()))]
