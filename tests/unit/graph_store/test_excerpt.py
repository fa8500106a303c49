"""What concerns one name is read as in the whole store, and without the rest."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from tests.support.stored_graph import CHALK, ROCKS, Answer, Paper, entity, label, relation, same
from trustgraph_prompt.graph_store.excerpt import excerpt
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.graph_store.view import Fact, GraphView

OFTEN_SOFT = Paper(
    "soft.txt",
    "Soft rock.\n" * 3,
    {n: [Answer(f"p{n}", {relation("Chalk", "is", "Soft"): ("Soft",)}, ["CHALK", "soft"])] for n in range(3)},
)
SAME = [*same("Chalk", "Limestone"), *same("Limestone", "White rock"), *same("England", "Albion")]


@pytest.fixture
def store() -> GraphStore:
    store = GraphStore.in_memory()
    for paper in (CHALK, ROCKS, OFTEN_SOFT):
        store.add(paper.statements())
    store.add([*SAME, label("Albion"), relation("White rock", "is", "Soft"), label("White rock")])
    store.dataset.add(ox.Quad(ox.BlankNode("b"), ox.NamedNode(entity("is")), ox.NamedNode(entity("chalk"))))
    return store


def about(view: GraphView, iri: str) -> list[Fact]:
    return [fact for fact in view.facts if iri in (fact.subject, fact.object)]


def test_excerpt_has_all_that_the_store_says_of_each_thing(store: GraphStore) -> None:
    whole = read_view(store)
    assert len(whole.things) > 6
    for thing in whole.things.values():
        for iri in thing.iris:
            read = read_view(excerpt(store, iri))
            assert read.things[thing.iri] == thing
            facts = about(read, thing.iri)
            assert facts == about(whole, thing.iri)
            for fact in facts:
                assert read.things[fact.subject].name == whole.things[fact.subject].name
                assert not fact.is_relation or read.things[fact.object].name == whole.things[fact.object].name
                for passage in (*fact.passages, *fact.chunks):
                    assert read.documents[passage.document] == whole.documents[passage.document]


def test_thing_is_found_by_its_name_in_any_case(store: GraphStore) -> None:
    for name in ("CHALK", "white ROCK", "chalk"):
        read = read_view(excerpt(store, name))
        assert about(read, entity("chalk")) == about(read_view(store), entity("chalk"))


def test_excerpt_of_an_unknown_name_is_empty(store: GraphStore) -> None:
    for name in ("Granite", "_:c", "_:", "urn:x", "", "\ud83e", "Rock\x00"):
        assert not excerpt(store, name).dataset


def test_excerpt_does_not_grow_with_the_store(store: GraphStore) -> None:
    before = set(excerpt(store, "Needles").dataset)
    for number in range(50):
        facts = {relation(f"Thing {number}", "made of", f"Thing {number + 1}"): ()}
        store.add(Paper(f"{number}.txt", f"{number}", {0: [Answer("p", facts, ["made of"])]}).statements())
    assert set(excerpt(store, "Needles").dataset) == before


def test_other_things_of_the_same_class_are_not_in_the_excerpt(store: GraphStore) -> None:
    assert entity("chalk") not in read_view(excerpt(store, "Rock")).things
