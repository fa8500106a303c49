"""The classes of names, derived from what an answer says of them; and relations whose ends are swapped."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_classes import MOST_EXPECTED, DerivedClasses, Triple, in_order, name_key
from trustgraph_prompt.graph.ontology_config import make_ontology

CLASSES: dict[str, Any] = {
    "Agent": {},
    "Person": {"rdfs:subClassOf": "Agent"},
    "Actor": {"rdfs:subClassOf": "Person"},
    "Director": {"rdfs:subClassOf": "Person"},
    "Work": {},
    "Film": {"rdfs:subClassOf": "Work"},
    "Book": {"rdfs:subClassOf": "Work", "owl:disjointWith": ["Film"]},
    "Place": {},
    "Zig": {"rdfs:subClassOf": "Zag"},
    "Zag": {"rdfs:subClassOf": "Zig"},
}
RELATIONS: dict[str, Any] = {
    "directedBy": ("Film", "Director"),
    "stars": ("Film", "Actor"),
    "likes": ("Agent", ["Film", "Book"]),
    "adapts": ("Film", "Book"),
    "bornIn": ("Person", "Place"),
    "knows": ("Person", "Agent"),
    "about": ("Work", None),
    "zigs": ("Zig", "Zag"),
    "zags": ("Zag", "Zig"),
}


def ontology(**more: Any) -> Ontology:
    ends = {
        id: {"rdfs:domain": domain or [], "rdfs:range": range_ or "owl:Thing"}
        for id, (domain, range_) in RELATIONS.items()
    }
    values = {"year": {"rdfs:domain": "Film"}}
    document = {"classes": CLASSES, "objectProperties": ends | more, "datatypeProperties": values}
    return make_ontology("o", document, "o")


ONTOLOGY = ontology()


def triple(subject: str, property: str, object: str, known: Ontology = ONTOLOGY) -> Triple:
    is_relation = property in known.object_properties
    element = known.object_properties[property] if is_relation else known.datatype_properties[property]
    return Triple(subject, element, object, is_relation)


def classes(*said: tuple[str, str, str]) -> DerivedClasses:
    return DerivedClasses(ONTOLOGY, [triple(*each) for each in said])


def test_class_is_the_domain_or_the_range() -> None:
    derived = classes(("Heat", "stars", "Pacino"))
    assert (derived.of("Heat").id, derived.of("Pacino").id) == ("Film", "Actor")


def test_name_in_two_relations_with_super_and_subclass_is_of_the_subclass() -> None:
    said = [("Heat", "stars", "Pacino"), ("Pacino", "knows", "Mann"), ("Pacino", "likes", "Ulysses")]
    assert classes(*said).of("Pacino").id == "Actor"
    assert classes(*said[::-1]).of("Pacino").id == "Actor"


def test_name_in_another_spelling_is_the_same_thing() -> None:
    derived = classes(("Heat", "stars", "Al Pacino"), ("AL_PACINO!", "knows", "Mann"))
    assert derived.of("al pacino").id == "Actor"
    assert name_key(" Al  Pacino ") == name_key("al-pacino?")


def test_one_class_of_a_union_is_decided_by_another_triple() -> None:
    assert classes(("Ada", "likes", "Ulysses"), ("Heat", "adapts", "Ulysses")).of("Ulysses").id == "Book"
    unknown = classes(("Ada", "likes", "Ulysses")).of("Ulysses")
    assert (unknown.id, unknown.why, unknown.conflicts) == ("", "it may be 'Film' or 'Book'", False)


def test_superclass_does_not_decide_a_union() -> None:
    assert classes(("Ada", "likes", "X"), ("X", "about", "Y")).of("X").why == "it may be 'Film' or 'Book'"


def test_union_of_a_class_and_its_subclass_is_the_class() -> None:
    known = ontology(made={"rdfs:domain": ["Person", "Agent"], "rdfs:range": "Work"})
    assert DerivedClasses(known, [triple("Ada", "made", "X", known)]).of("Ada").id == "Agent"


def test_name_of_which_no_class_is_all_that_is_expected_has_none() -> None:
    roles = classes(("Heat", "stars", "Mann"), ("Heat", "directedBy", "Mann")).of("Mann")
    assert roles.why == "'Actor' and 'Director' are expected of it"
    assert (roles.id, roles.conflicts, roles.contradicts) == ("", True, False)


def test_disjoint_classes_contradict_each_other_in_both_directions() -> None:
    said = [("Ada", "likes", "Z"), ("Z", "stars", "Pacino"), ("Heat", "adapts", "Z")]
    assert classes(*said).of("Z").contradicts
    assert classes(*said[::-1]).of("Z").contradicts


def test_name_without_expectations_is_unknown() -> None:
    derived = classes(("Heat", "about", "crime"), ("Heat", "year", "1995"))
    assert [derived.of(name).id for name in ("crime", "1995", "nobody")] == ["", "", ""]
    assert derived.of("Heat").id == "Film"


def test_cyclic_classes_are_equivalent() -> None:
    assert classes(("a", "zigs", "b"), ("b", "zigs", "a")).of("a").id in ("Zig", "Zag")
    known = ontology(either={"rdfs:domain": ["Zag", "Zig"], "rdfs:range": "Work"})
    assert DerivedClasses(known, [triple("a", "either", "x", known)]).of("a").id == "Zag"


def swapped(*said: tuple[str, str, str]) -> list[bool]:
    return in_order(ONTOLOGY, [triple(*each) for each in said])


def test_ends_are_swapped_if_other_triples_exclude_the_order() -> None:
    assert swapped(("Pacino", "stars", "Heat"), ("Heat", "year", "1995")) == [True, False]
    assert swapped(("Mann", "directedBy", "Heat"), ("Mann", "bornIn", "Chicago")) == [True, False]
    assert swapped(("Mann", "directedBy", "Heat"), ("Heat", "adapts", "L.A."), ("Heat", "year", "1995")) == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "said",
    [
        [("Pacino", "stars", "Heat")],  # nothing else is known
        [("Heat", "stars", "Pacino"), ("Heat", "year", "1995")],  # right as it is
        [("Pacino", "stars", "Heat"), ("Heat", "stars", "Pacino")],  # either may be wrong
        [("Heat", "stars", "Heat"), ("Heat", "year", "1995")],  # named alike
        [("Ada", "knows", "Babbage"), ("Ada", "bornIn", "London")],  # fits both ways
        [("Eastwood", "about", "Heat"), ("Heat", "year", "1995")],  # no range
        [("London", "bornIn", "Ada"), ("Ada", "year", "1995"), ("Ada", "knows", "X")],  # Ada is contradictory
    ],
)
def test_ends_stay_where_the_order_is_not_excluded(said: list[tuple[str, str, str]]) -> None:
    assert not any(swapped(*said))


def test_siblings_below_a_common_class_do_not_exclude_each_other() -> None:
    known = ontology(taught={"rdfs:domain": "Director", "rdfs:range": "Actor"})
    said = [triple("Pacino", "taught", "Mann", known), triple("Heat", "stars", "Pacino", known)]
    assert in_order(known, said) == [False, False]


def test_many_triples_about_one_name_take_linear_time() -> None:
    union = [f"C{n}" for n in range(400)]
    document = {
        "classes": {id: {} for id in union} | {"Film": {}},
        "objectProperties": {
            f"r{n}": {"rdfs:domain": union[n : n + 200], "rdfs:range": "Film"} for n in range(200)
        },
    }
    known = make_ontology("o", document, "o")
    said = [triple("X", f"r{n % 200}", f"name {n}", known) for n in range(20_000)]
    assert in_order(known, said) == [False] * len(said)
    assert str(MOST_EXPECTED) in DerivedClasses(known, said).of("X").why
