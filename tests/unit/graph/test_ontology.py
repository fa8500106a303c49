"""Reading an ontology, the terms that a prompt sees, the check of an answer, and its statements."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.config_files import MAX_FILE_BYTES
from trustgraph_prompt.contract.grounding import Grounding
from trustgraph_prompt.errors import ConfigError, Reason
from trustgraph_prompt.graph.mapping import Graph, Stretch
from trustgraph_prompt.graph.ontology import MAX_SUPERCLASSES, Ontology, unknown_keys
from trustgraph_prompt.graph.ontology_config import MAX_ELEMENTS, make_ontology, merged, read_ontology
from trustgraph_prompt.graph.ontology_statements import (
    description,
    ontology_graph,
    typed_entity_iri,
)
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import LABEL, TYPE
from trustgraph_prompt.grounding import MatchKind

FOOD: dict[str, Any] = {
    "metadata": {"name": "Food"},
    "classes": {
        "fo/Recipe": {
            "uri": "http://food.example/Recipe",
            "rdfs:label": [{"value": "recipe", "lang": "en"}, {"value": "Rezept", "lang": "de"}],
            "rdfs:comment": "How a dish is made.",
        },
        "fo/Food": {"rdfs:label": "food"},
        "fo/Vegetable": {"uri": "http://food.example/Vegetable", "rdfs:subClassOf": "fo/Food"},
        "fo/Leek": {"rdfs:subClassOf": ["fo/Vegetable", "owl:Thing"], "made by": "somebody"},
        "fo/Cook": {},
    },
    "objectProperties": {
        "fo/has_ingredient": {
            "uri": "http://food.example/has_ingredient",
            "rdfs:domain": "fo/Recipe",
            "rdfs:range": "http://food.example/Vegetable",
        },
        "fo/by": {"rdfs:domain": ["fo/Recipe", "fo/Food"], "rdfs:range": "fo/Cook"},
        "fo/near": {"rdfs:domain": "owl:Thing"},
    },
    "datatypeProperties": {"fo/serves": {"rdfs:domain": "fo/Recipe", "rdfs:range": "xsd:string"}},
}
SUBCLASS, DOMAIN, RANGE = (
    Iri(f"http://www.w3.org/2000/01/rdf-schema#{name}") for name in ("subClassOf", "domain", "range")
)


def ontology(document: object = FOOD, id: str = "food") -> Ontology:
    return read_ontology(id, json.dumps(document))


def entity(name: object, class_: str) -> dict[str, Any]:
    return {"type": "entity", "entity": name, "entity_type": class_}


def relation(id: str, subject_class: str, object_class: str) -> dict[str, Any]:
    return {
        "type": "relationship",
        "subject": "leek soup",
        "subject_type": subject_class,
        "relation": id,
        "object": "leek",
        "object_type": object_class,
    }


def attribute(id: str, class_: str, value: object = "4") -> dict[str, Any]:
    return {"type": "attribute", "entity": "soup", "entity_type": class_, "attribute": id, "value": value}


def test_terms_of_an_ontology_have_the_keys_of_trustgraphs_extractor() -> None:
    terms = ontology().terms
    assert terms["classes"]["fo/Recipe"] == {
        "uri": "http://food.example/Recipe",
        "type": "owl:Class",
        "labels": [{"value": "recipe", "lang": "en"}, {"value": "Rezept", "lang": "de"}],
        "comment": "How a dish is made.",
        "subclass_of": None,
        "equivalent_classes": [],
        "disjoint_with": [],
        "identifier": None,
    }
    assert terms["classes"]["fo/Vegetable"]["subclass_of"] == "fo/Food"
    by = terms["object_properties"]["fo/by"]
    assert (by["domain"], by["range"], by["inverse_of"]) == ("fo/Recipe or fo/Food", "fo/Cook", None)
    assert terms["datatype_properties"]["fo/serves"]["range"] == "xsd:string"


def test_ontology_without_sections_is_empty() -> None:
    assert len(ontology({"classes": None})) == 0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "ontology 'food': it is of the wrong type (found [], expected a mapping)"),
        (
            {"classes": ["a"]},
            "ontology 'food' /classes: it is of the wrong type (found ['a'], expected a mapping or null)",
        ),
        (
            {"classes": {"a/b": 1}},
            "ontology 'food' /classes/a~1b: it is of the wrong type (found 1, expected a mapping)",
        ),
        (
            {"classes": {"a": {"rdfs:comment": 5}}},
            "ontology 'food' /classes/a/rdfs:comment: it has none of the allowed forms "
            "(found 5, expected a string; or the key value; or a list of them)",
        ),
        (
            {"objectProperties": {"p": {"rdfs:domain": {"x": 1}}}},
            "ontology 'food' /objectProperties/p/rdfs:domain: it has none of the allowed forms "
            "(found {'x': 1}, expected the id of a class; or a list of them)",
        ),
        (
            {"classes": {"a": {"uri": 7}}},
            "ontology 'food' /classes/a/uri: it is of the wrong type (found 7, expected a string or null)",
        ),
    ],
)
def test_invalid_ontology_is_refused_with_the_place_and_what_was_expected(
    document: object, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        ontology(document)
    assert str(error.value) == message


def test_all_errors_of_an_ontology_are_raised_together() -> None:
    with pytest.raises(ConfigError) as error:
        ontology({"classes": {"a": 1, "b": {}, "c": 2}})
    assert {error.value.path, *(each.path for each in error.value.others)} == {"/classes/a", "/classes/c"}
    assert all(each.where == "ontology 'food'" for each in error.value.others)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"classes": ' + "[" * 100_000, "not JSON"),
        (" " * (MAX_FILE_BYTES + 1), "longer than"),
        (json.dumps({"classes": {str(n): {} for n in range(MAX_ELEMENTS + 1)}}), "too large"),
        (
            json.dumps(
                {"classes": {str(n): {"rdfs:subClassOf": str(n + 1)} for n in range(300)} | {"300": {}}}
            ),
            f"/classes/0: too many superclasses (found None, expected at most {MAX_SUPERCLASSES}",
        ),
    ],
)
def test_ontology_that_is_too_large_or_too_deep_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match="ontology 'food'") as error:
        read_ontology("food", text)
    assert message in str(error.value)


def test_missing_class_is_a_warning_and_restricts_nothing() -> None:
    known = ontology(
        {
            "classes": {"A": {"rdfs:subClassOf": "Gone"}, "B": {}},
            "objectProperties": {"p": {"rdfs:domain": ["A", "Away"], "rdfs:range": "B"}},
        }
    )
    assert known.warnings == (
        "ontology 'food' /classes/A/rdfs:subClassOf: the ontology has no class 'Gone'; it is ignored",
        "ontology 'food' /objectProperties/p/rdfs:domain: the ontology has no class 'Away'; it is ignored",
    )
    assert known.check(relation("p", "B", "B")) == ()


def test_misspelt_key_of_an_element_is_named_in_a_warning() -> None:
    known = ontology(
        {"classes": {"A": {"rdfs:coment": "a"}, "B": {"rdfs:coment": "b", "made by": "somebody"}}}
    )
    assert known.warnings == (
        "ontology 'food' /classes/A: unknown key 'rdfs:coment', did you mean 'rdfs:comment'? It is ignored",
    )


def test_unknown_keys_of_terms_are_named_with_the_known_ones() -> None:
    terms = {"classes": {"A": {"coment": "a"}}, "object_properties": {"p": {"rnge": "A", "domain": "A"}}}
    of_classes, of_relations = unknown_keys({**terms, "text": "x"})
    assert of_classes.startswith("unknown keys in the term classes: coment; the known ones are uri, labels, ")
    assert of_relations.startswith("unknown keys in the term object_properties: rnge; the known ones are ")


def test_fingerprint_is_that_of_what_is_said_and_checked_whatever_the_file_is_called() -> None:
    assert ontology(id="meals").fingerprint == ontology().fingerprint
    assert ontology({"classes": {"A": {"uri": "urn:A"}}}, "a").fingerprint == (
        ontology({"classes": {"A": {"note": "unused", "uri": "urn:A"}}}, "b").fingerprint
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"rdfs:label": "a"},
        {"rdfs:comment": "An A."},
        {"uri": "urn:A"},
        {"rdfs:subClassOf": "B"},
        {"owl:disjointWith": ["B"]},
    ],
)
def test_fingerprint_changes_with_all_that_is_said_of_a_class(changed: dict[str, Any]) -> None:
    assert (
        ontology({"classes": {"A": changed, "B": {}}}).fingerprint
        != ontology({"classes": {"A": {}, "B": {}}}).fingerprint
    )


@pytest.mark.parametrize("value", [{"type": "topic", "topic": "x"}, {}, "leek", {"type": ["entity"]}])
def test_object_of_another_type_is_refused(value: Any) -> None:
    [issue] = ontology().check(value)
    assert str(issue).endswith("expected 'entity' or 'relationship' or 'attribute'")


def test_classes_in_a_circle_are_superclasses_of_each_other() -> None:
    known = ontology(
        {
            "classes": {
                "A": {"rdfs:subClassOf": "B"},
                "B": {"rdfs:subClassOf": "A"},
                "C": {"rdfs:subClassOf": "B"},
            },
            "objectProperties": {"p": {"rdfs:domain": "A", "rdfs:range": "B"}},
        }
    )
    assert known.superclasses["C"] == {"A", "B"}
    assert known.check(relation("p", "C", "A")) == ()


@pytest.mark.parametrize(
    "value",
    [
        entity("leek", "fo/Leek"),
        relation("fo/has_ingredient", "fo/Recipe", "fo/Vegetable"),
        relation("fo/has_ingredient", "fo/Recipe", "fo/Leek"),
        relation("fo/by", "fo/Leek", "fo/Cook"),
        relation("fo/near", "fo/Cook", "fo/Leek"),
        attribute("fo/serves", "fo/Recipe"),
        {key.replace("_", "-"): value for key, value in attribute("fo/serves", "fo/Recipe").items()},
    ],
)
def test_object_that_the_ontology_allows_has_no_issues(value: dict[str, Any]) -> None:
    assert ontology().check(value) == ()


@pytest.mark.parametrize(
    ("value", "issues"),
    [
        (
            entity("leek", "fo/Vegtable"),
            ["/entity_type: unknown class 'fo/Vegtable', did you mean 'fo/Vegetable'?"],
        ),
        (
            entity("leek", "plant"),
            [
                "/entity_type: unknown class 'plant', expected 'fo/Recipe' or 'fo/Food' or 'fo/Vegetable' "
                "or 'fo/Leek' or 'fo/Cook'"
            ],
        ),
        (
            relation("fo/contains", "fo/Recipe", "fo/Leek"),
            [
                "/relation: unknown relation 'fo/contains', "
                "expected 'fo/has_ingredient' or 'fo/by' or 'fo/near'"
            ],
        ),
        (
            relation("fo/has_ingredient", "fo/Cook", "fo/Food"),
            [
                "/subject_type: 'fo/has_ingredient' does not fit the class of the subject: "
                "found 'fo/Cook', expected 'fo/Recipe' or a subclass",
                "/object_type: 'fo/has_ingredient' does not fit the class of the object: "
                "found 'fo/Food', expected 'fo/Vegetable' or a subclass",
            ],
        ),
        (
            relation("fo/by", "fo/Cook", "fo/Cook"),
            [
                "/subject_type: 'fo/by' does not fit the class of the subject: "
                "found 'fo/Cook', expected 'fo/Recipe' or 'fo/Food' or a subclass"
            ],
        ),
        (
            relation("fo/by", "fo/Cook", "fo/Recipe"),
            [
                "/subject_type: 'fo/by' does not fit the class of the subject: found 'fo/Cook', expected "
                "'fo/Recipe' or 'fo/Food' or a subclass; it would fit if subject and object were swapped",
                "/object_type: 'fo/by' does not fit the class of the object: found 'fo/Recipe', expected "
                "'fo/Cook' or a subclass; it would fit if subject and object were swapped",
            ],
        ),
        (
            relation("fo/serves", "fo/Recipe", "fo/Food"),
            ["/relation: 'fo/serves' is an attribute"],
        ),
        (
            attribute("fo/by", "fo/Recipe"),
            ["/attribute: 'fo/by' is a relation"],
        ),
        (
            attribute("fo/serves", "fo/Cook"),
            [
                "/entity_type: 'fo/serves' does not fit the class of the entity: "
                "found 'fo/Cook', expected 'fo/Recipe' or a subclass"
            ],
        ),
        ({"type": "entity", "entity": "leek"}, ["/entity_type: the key 'entity_type' is missing"]),
        (entity("?!", "fo/Leek"), ["/entity: found '?!', expected a string with a letter or a digit"]),
        (
            entity(["leek"], "fo/Leek"),
            ["/entity: found ['leek'], expected a string with a letter or a digit"],
        ),
    ],
)
def test_issue_says_what_was_found_and_what_was_expected(value: dict[str, Any], issues: list[str]) -> None:
    known = ontology()
    assert [str(issue) for issue in known.check(value)] == issues
    assert ontology_graph(known, [value]) == Graph()


def test_broken_rule_of_the_ontology_has_another_reason_than_a_wrong_shape() -> None:
    known = ontology()
    assert [issue.reason for issue in known.check(entity("a", "b"))] == [Reason.INVARIANT_VIOLATION]
    assert [issue.reason for issue in known.check({"type": "entity"})] == [Reason.SCHEMA_MISSING_FIELD] * 2


def test_issue_stays_short_in_a_large_ontology() -> None:
    known = ontology({"classes": {f"class{n}": {} for n in range(5_000)}})
    [issue] = known.check(entity("a", "x" * 100_000))
    assert len(issue.message) < 300
    assert issue.message.endswith("or one of 4995 more")


@pytest.mark.parametrize(
    ("name", "class_", "iri"),
    [
        ("Cornish pasty", "fo/Recipe", "https://trustgraph.ai/food/recipe-cornish-pasty"),
        ("Cornish  pasty!", "Recipe", "https://trustgraph.ai/food/recipe-cornish-pasty"),
        (
            "Crème_brûlée",
            "fo:Dish Of.Day",
            "https://trustgraph.ai/food/fo-dish-of-day-crème_brûlée".replace("_", "-"),
        ),
        ("v1.2 -- (北京)", "A", "https://trustgraph.ai/food/a-v1.2-北京"),
    ],
)
def test_iri_of_an_entity_is_made_from_its_class_and_its_name(name: str, class_: str, iri: str) -> None:
    assert typed_entity_iri(name, class_, "food") == iri


def test_answer_makes_each_statement_once() -> None:
    soup, leek = (Iri(f"https://trustgraph.ai/food/{name}") for name in ("recipe-leek-soup", "leek-leek"))
    said = relation("fo/has_ingredient", "fo/Recipe", "fo/Leek")
    graph = ontology_graph(ontology(), [entity("leek soup", "fo/Recipe"), said, said])
    assert [*graph.facts] == [
        Statement(soup, TYPE, Iri("http://food.example/Recipe")),
        Statement(soup, LABEL, Literal("leek soup")),
        Statement(leek, TYPE, Iri("https://trustgraph.ai/ontology/food#fo/Leek")),
        Statement(leek, LABEL, Literal("leek")),
        Statement(soup, Iri("http://food.example/has_ingredient"), leek),
    ]


@pytest.mark.parametrize(("value", "written"), [("4", "4"), (4, "4"), (True, "True"), ("", "")])
def test_value_of_an_attribute_is_a_literal(value: object, written: str) -> None:
    [*_, last] = ontology_graph(ontology(), [attribute("fo/serves", "fo/Recipe", value)]).facts
    assert last.object == Literal(written)


def test_terms_that_an_answer_uses_are_described() -> None:
    known = ontology()
    said = relation("fo/has_ingredient", "fo/Recipe", "fo/Leek")
    described = ontology_graph(known, [said, entity("a", "unknown")]).labels
    ingredient, vegetable = (Iri(f"http://food.example/{name}") for name in ("has_ingredient", "Vegetable"))
    food = Iri("https://trustgraph.ai/ontology/food#fo/Food")
    assert Statement(vegetable, SUBCLASS, food) in described
    assert Statement(food, LABEL, Literal("food")) in described
    assert Statement(ingredient, RANGE, vegetable) in described
    assert not any(each.subject.endswith("#fo/by") for each in described)


def test_range_of_a_datatype_property_is_described_by_its_iri() -> None:
    described = [*description(ontology())]
    serves, by = (Iri(f"https://trustgraph.ai/ontology/food#fo/{name}") for name in ("serves", "by"))
    assert Statement(serves, RANGE, Iri("http://www.w3.org/2001/XMLSchema#string")) in described
    assert not [each for each in described if each.subject == by and each.predicate == DOMAIN]


@pytest.mark.parametrize(
    ("datatype", "iris"),
    [
        ("xsd:int", ["http://www.w3.org/2001/XMLSchema#int"]),
        ("rdf:langString", ["http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"]),
        ("http://types.example/mass", ["http://types.example/mass"]),
        ("unknown:mass", []),
        ("mass", []),
    ],
)
def test_datatype_without_a_known_iri_is_not_described(datatype: str, iris: list[str]) -> None:
    known = ontology({"datatypeProperties": {"p": {"rdfs:range": datatype}}})
    assert [each.object for each in description(known) if each.predicate == RANGE] == iris


def test_entity_has_a_context_from_its_first_label_and_its_definitions() -> None:
    uri = "http://www.w3.org/2004/02/skos/core#definition"
    known = ontology({"classes": {"Dish": {}}, "datatypeProperties": {"means": {"uri": uri}}})
    graph = ontology_graph(known, [entity("soup", "Dish"), attribute("means", "Dish", "It is hot")])
    assert [*graph.contexts] == [
        Context(
            Iri("https://trustgraph.ai/food/dish-soup"),
            "Label: soup. It is hot",
            ("https://trustgraph.ai/ontology/food#Dish",),
        )
    ]


def test_fact_has_the_evidence_of_the_names_that_it_joins() -> None:
    soup, leek = (Grounding("text", MatchKind.EXACT, 1.0, (span,)) for span in ((0, 9), (20, 24)))
    said = relation("fo/has_ingredient", "fo/Recipe", "fo/Leek")
    facts = ontology_graph(ontology(), [said], ({"/subject": soup, "/object": leek},)).facts
    assert [*facts.values()] == [(soup,), (soup,), (leek,), (leek,), (soup, leek)]


def test_quote_is_the_evidence_of_all_facts_of_its_object() -> None:
    soup, quote = (Grounding("text", MatchKind.EXACT, 1.0, (span,)) for span in ((0, 9), (0, 24)))
    said = relation("fo/has_ingredient", "fo/Recipe", "fo/Leek")
    facts = ontology_graph(ontology(), [said], ({"/q": quote, "/subject": soup},), ["q"]).facts
    assert {evidence[0] for evidence in facts.values()} == {Stretch("text", MatchKind.EXACT, 1.0, ((0, 24),))}


def test_several_ontologies_are_merged_with_their_names_in_the_ids() -> None:
    plants = ontology(
        {
            "classes": {"Plant": {}, "Herb": {"rdfs:subClassOf": "Plant"}},
            "datatypeProperties": {"height": {"rdfs:domain": "Plant", "rdfs:range": "xsd:int"}},
        },
        "plants",
    )
    both = merged([plants, ontology()])

    assert both.check(attribute("plants:height", "plants:Herb")) == ()
    assert both.check(relation("food:fo/has_ingredient", "food:fo/Recipe", "food:fo/Leek")) == ()
    [issue] = both.check(attribute("plants:height", "food:fo/Leek"))
    assert "expected 'plants:Plant'" in issue.message
    assert both.terms["datatype_properties"]["plants:height"]["range"] == "xsd:int"
    [kind, *_] = ontology_graph(both, [entity("Dill", "plants:Herb")]).facts
    assert kind == Statement(
        Iri("https://trustgraph.ai/merged/plants-herb-dill"),
        TYPE,
        Iri("https://trustgraph.ai/ontology/plants#Herb"),
    )


def test_inverse_in_a_merged_ontology_has_its_new_id_if_it_is_there() -> None:
    relations = {"eats": {"owl:inverseOf": "eatenBy"}, "eatenBy": {"owl:inverseOf": ["devours", "eats"]}}
    both = merged([ontology({"classes": {}, "objectProperties": relations}, "zoo"), ontology()])
    eats, eaten = (both.object_properties[f"zoo:{id}"].entry["owl:inverseOf"] for id in relations)
    assert (eats, eaten) == (["zoo:eatenBy"], ["devours", "zoo:eats"])


def test_single_ontology_is_not_renamed() -> None:
    single = ontology()
    assert merged([single]) is single


def in_languages(**labels: str) -> list[dict[str, str]]:
    return [{"value": label, "lang": tag.replace("_", "-")} for tag, label in labels.items()]


def test_labels_in_a_language_come_first() -> None:
    labels = in_languages(en="director", de_AT="Regisseur", pt_BR="diretor")
    document = {
        "classes": {"A": {}, "B": {"rdfs:label": "b"}},
        "objectProperties": {"P57": {"rdfs:label": labels}},
    }
    ontology = make_ontology("o", document, "o")
    for tag, first in (("de", "Regisseur"), ("pt_PT", "diretor"), ("EN", "director")):
        made = ontology.in_language(tag)
        assert made.object_properties["P57"].labels[0] == first
        assert len(made.object_properties["P57"].labels) == 3
        assert made.classes == ontology.classes
    assert ontology.in_language("de").fingerprint != ontology.fingerprint
    with pytest.raises(
        ConfigError, match=r"no label in this language \(found 'fr', expected one of de, en, pt\)"
    ):
        ontology.in_language("fr")
    with pytest.raises(ConfigError, match="expected a label that has one"):
        make_ontology("o", {"classes": {"A": {"rdfs:label": "a"}}}, "o").in_language("de")
