"""The graph of objects whose classes were derived from the answer."""

from __future__ import annotations

from trustgraph_prompt.graph.mapping import Graph
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.graph.ontology_statements import ontology_graph
from trustgraph_prompt.graph.statements import Literal

ENDS = {"rdfs:domain": "Agent", "rdfs:range": "Place"}
KNOWN = make_ontology(
    "o",
    {
        "classes": {"Agent": {}, "Place": {"owl:disjointWith": "Thing"}, "Thing": {}, "Other": {}},
        "objectProperties": {
            "at": ENDS,
            "has": {"rdfs:domain": "Thing", "rdfs:range": "Other"},
            "about": {"rdfs:domain": "Agent", "rdfs:range": "owl:Thing"},
            "cost": {"rdfs:domain": "Agent"},
        },
        "datatypeProperties": {
            "since": {"rdfs:domain": "Agent", "rdfs:range": "xsd:gYear"},
            "weight": {"rdfs:domain": "Thing", "rdfs:range": "xsd:integer"},
        },
    },
    "o",
)


def derived_graph(*objects: dict[str, str]) -> dict[str, list[str]]:
    """The objects of the facts in a graph of objects with derived classes, by subject and predicate."""
    found: dict[str, list[str]] = {}
    for each in ontology_graph(KNOWN, objects, derived=True).facts:
        of = each.object.value if isinstance(each.object, Literal) else str(each.object)
        subject = each.subject.removeprefix("https://trustgraph.ai/o/")
        found.setdefault(f"{subject} {each.predicate.rpartition('#')[2]}", []).append(of)
    return found


def relationship(subject: str, relation: str, object: str, **types: str) -> dict[str, str]:
    return {"type": "relationship", "subject": subject, "relation": relation, "object": object, **types}


def attribute(entity: str, name: str, value: str, **types: str) -> dict[str, str]:
    return {"type": "attribute", "entity": entity, "attribute": name, "value": value, **types}


def test_entity_without_a_class_has_no_type_and_an_iri_of_its_own() -> None:
    facts = derived_graph(relationship("Ada", "about", "Some Crime", subject_type="Agent"))
    assert facts == {
        "agent-ada type": ["https://trustgraph.ai/ontology/o#Agent"],
        "agent-ada label": ["Ada"],
        "unknown/some-crime label": ["Some Crime"],
        "agent-ada about": ["https://trustgraph.ai/o/unknown/some-crime"],
    }


def test_relation_without_a_range_has_a_literal() -> None:
    facts = derived_graph(attribute("Ada", "cost", "3", entity_type="Agent"))
    assert facts["agent-ada cost"] == ["3"]
    assert ontology_graph(KNOWN, [attribute("Ada", "cost", "3", entity_type="Agent")]) == Graph()


def test_facts_of_disjoint_classes_and_of_wrong_values_are_left_out() -> None:
    facts = derived_graph(
        relationship("Ada", "at", "Ulm", subject_type="Agent"),
        relationship("Ulm", "has", "Dom", object_type="Other"),
        attribute("Ada", "since", "ever", entity_type="Agent"),
        attribute("Ada", "since", "1815", entity_type="Agent"),
    )
    assert {key.partition(" ")[2] for key in facts} == {"type", "label", "since"}
    assert facts["agent-ada since"] == ["1815"]


def test_wrong_value_takes_no_right_fact_with_it() -> None:
    facts = derived_graph(
        relationship("Ada", "at", "Ulm", subject_type="Agent", object_type="Place"),
        attribute("Ulm", "weight", "heavy"),
    )
    assert facts["agent-ada at"] == ["https://trustgraph.ai/o/place-ulm"]


def test_facts_of_classes_that_are_not_disjoint_are_kept_without_a_class() -> None:
    facts = derived_graph(
        relationship("Ada", "at", "Ulm", subject_type="Agent"),
        relationship("Ulm", "about", "Dom"),
    )
    assert facts["agent-ada at"] == ["https://trustgraph.ai/o/unknown/ulm"]
    assert facts["unknown/ulm about"] == ["https://trustgraph.ai/o/unknown/dom"]
    assert "unknown/ulm type" not in facts
