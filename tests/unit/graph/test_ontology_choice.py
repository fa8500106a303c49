"""The part of a large ontology that is chosen for a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.steps import is_linear, steps
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import read_ontology

CLASSES: dict[str, Any] = {
    "b/Equipment": {},
    "b/Pump": {"rdfs:subClassOf": "b/Equipment"},
    "b/Chilled_Water_Pump": {"rdfs:subClassOf": "b/Pump"},
    "b/HotWaterPump": {"rdfs:subClassOf": "b/Pump"},
    "b/c17": {"rdfs:label": [{"value": "Kühlturm", "lang": "de"}, {"value": "cooling tower", "lang": "en"}]},
    "b/Blind": {"rdfs:comment": "A shade that keeps out the glare of the sun."},
    "b/Room": {},
    "b/Person": {},
}
PROPERTIES: dict[str, Any] = {
    "b/isIn": {"rdfs:domain": "b/Equipment", "rdfs:range": "b/Room"},
    "b/maintains": {"rdfs:domain": "b/Person", "rdfs:range": "b/Equipment"},
    "b/feeds": {"rdfs:domain": "b/Equipment", "rdfs:range": "b/Equipment"},
    "b/relatedTo": {},
}


def ontology(fillers: int = 100) -> Ontology:
    """The classes above among others that no text mentions."""
    return read_ontology(
        "b",
        json.dumps(
            {
                "classes": CLASSES | {f"b/Filler{n}": {} for n in range(fillers)},
                "objectProperties": PROPERTIES,
                "datatypeProperties": {"b/pressure": {"rdfs:domain": "b/Pump"}, "b/age": {}},
            }
        ),
    )


def chosen(text: str, limit: int = 20) -> set[str]:
    part = OntologyIndex(ontology()).choose(text, limit)
    return {*part.classes, *part.object_properties, *part.datatype_properties}


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("A chilled water pump stands there.", "b/Chilled_Water_Pump"),
        ("Two CHILLED-WATER PUMPS stand there.", "b/Chilled_Water_Pump"),
        ("Hot water comes from a pump.", "b/HotWaterPump"),
        ("There are cooling towers on it.", "b/c17"),
        ("Zwei Kühltürme und ein Kuhlturm.", "b/c17"),
        ("We lower them when the sun shines.", "b/Blind"),
    ],
)
def test_class_is_found_by_its_id_label_or_comment(text: str, id: str) -> None:
    assert id in chosen(text)


def test_class_comes_with_its_superclasses() -> None:
    assert {"b/Chilled_Water_Pump", "b/Pump", "b/Equipment"} <= chosen("A chilled water pump.")


def test_properties_between_chosen_classes_are_chosen() -> None:
    ids = chosen("A chilled water pump.")
    assert {"b/feeds", "b/pressure", "b/relatedTo", "b/age"} <= ids
    assert not {"b/isIn", "b/maintains"} & ids


def test_property_named_by_a_text_brings_its_domain_and_range() -> None:
    assert {"b/maintains", "b/Person", "b/Equipment"} <= chosen("Ann maintains it.")


def test_best_matches_are_kept_where_not_all_fit() -> None:
    text = "The cooling tower gets water. It keeps out the glare. The pump is off."
    assert chosen(text, 2) == {"b/c17", "b/relatedTo"}
    assert {"b/c17", "b/Pump", "b/Equipment"} <= chosen(text, 6)


def test_one_phrase_does_not_take_all_the_room() -> None:
    ids = [*(f"Supply_Air_Temperature_Sensor_{n}" for n in "ABCDEFGH"), "Roof", "Door"]
    classes: dict[str, Any] = {id: {} for id in ids}
    index = OntologyIndex(read_ontology("o", json.dumps({"classes": classes})))
    part = index.choose("Supply air temperature sensors A B C D E F G H stand near the roof and the door.", 6)
    assert {"Roof", "Door"} <= part.classes.keys()


@pytest.mark.parametrize("limit", range(1, 30))
def test_chosen_part_stays_within_its_limit(limit: int) -> None:
    text = "Ann maintains chilled water pumps, hot water pumps and cooling towers in a room; the sun shines."
    part = OntologyIndex(ontology()).choose(text, limit)
    assert 0 < len(part) <= limit
    for id in part.classes:
        assert part.superclasses[id] <= part.classes.keys()


def test_word_that_very_many_classes_have_takes_no_more_steps_and_still_brings_its_own_class() -> None:
    def index(size: int) -> OntologyIndex:
        classes: dict[str, Any] = {f"n{n}": {"rdfs:label": f"pump of kind {n}"} for n in range(size)}
        return OntologyIndex(read_ontology("o", json.dumps({"classes": classes | {"Pump": {}}})))

    small, large = index(1_500), index(6_000)
    text = "A pump of the kind 17 stands there. " * 5
    assert steps(lambda: large.choose(text)) < 1.5 * steps(lambda: small.choose(text))
    assert {"n17", "Pump"} <= large.choose(text).classes.keys()


def test_small_ontology_is_given_whole() -> None:
    known = ontology(0)
    assert OntologyIndex(known).choose("Nothing of it.", len(known)) is known


@pytest.mark.parametrize("text", ["", "Nobody sang.", "¿?", "a b c"])
def test_text_without_a_word_of_the_ontology_gets_no_part_of_it(text: str) -> None:
    assert len(OntologyIndex(ontology()).choose(text, 20)) == 0


def test_choice_does_not_depend_on_earlier_texts() -> None:
    index = OntologyIndex(ontology())
    first = index.choose("A chilled water pump in a room.", 12)
    index.choose("Ann maintains the cooling tower.", 12)
    assert [*index.choose("A chilled water pump in a room.", 12).classes] == [*first.classes]


def test_choosing_takes_linear_time() -> None:
    index = OntologyIndex(ontology(20))
    sentence = "Ann maintains a chilled water pump, which feeds the cooling tower in the room. "
    assert is_linear(lambda size: index.choose(sentence * size, 20), 20)
