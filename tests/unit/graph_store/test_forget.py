"""A document's statements are taken out of a store again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pyoxigraph as ox
import pytest

from tests.support.stored_graph import CHALK, ROCKS, Answer, Paper, definition, entity, relation, same
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph.statements import Literal, Statement
from trustgraph_prompt.graph_store.forget import forget, forget_text
from trustgraph_prompt.graph_store.store import GraphStore

SAME_TEXT_TWICE = Paper(
    "copy.txt",
    "Chalk.\nChalk.\n",
    {
        n: [Answer("definitions", {definition("Chalk", "A soft rock."): ("Chalk",)}, ["Chalk"])]
        for n in (0, 1)
    },
)
PAPERS = (CHALK, ROCKS, SAME_TEXT_TWICE)


def content(*papers: Paper, more: Iterable[Statement] = ()) -> set[ox.Quad]:
    with GraphStore.in_memory() as store:
        for paper in papers:
            store.add(paper.statements())
        store.add(more)
        return set(store.dataset)


@pytest.mark.parametrize(
    ("forgotten", "left"), [*itertools.permutations(PAPERS, 2)], ids=lambda paper: paper.file
)
def test_store_without_a_forgotten_document_is_as_if_it_had_never_been_there(
    forgotten: Paper, left: Paper
) -> None:
    with GraphStore.in_memory() as store:
        store.add(forgotten.statements())
        store.add(left.statements())
        before = len(store.dataset)
        gone = forget(store, forgotten.iri)
        assert set(store.dataset) == content(left)
        assert gone == before - len(store.dataset) > 0


def test_store_is_empty_after_its_only_document_is_forgotten() -> None:
    with GraphStore.in_memory() as store:
        store.add(CHALK.statements())
        forget(store, CHALK.iri)
        assert not store.dataset


def test_forgetting_twice_changes_nothing() -> None:
    with GraphStore.in_memory() as store:
        store.add(CHALK.statements())
        store.add(ROCKS.statements())
        forget(store, CHALK.iri)
        assert forget(store, CHALK.iri) == 0
        assert set(store.dataset) == content(ROCKS)


def test_same_things_are_forgotten_with_the_last_fact_about_one_of_them() -> None:
    kept, lost = same("England", "Chalk"), same("Needles", "England")
    with GraphStore.in_memory() as store:
        store.add([*CHALK.statements(), *ROCKS.statements(), *kept, *lost])
        forget(store, CHALK.iri)
        assert set(store.dataset) == content(ROCKS, more=kept)


def test_facts_that_no_document_states_stay() -> None:
    """Somebody else loaded them."""
    foreign = relation("Moon", "made of", "Cheese")
    with GraphStore.in_memory() as store:
        store.add([*CHALK.statements(), foreign])
        forget(store, CHALK.iri)
        assert set(store.dataset) == content(more=[foreign])


def test_blank_nodes_at_a_forgotten_document_go_too() -> None:
    with GraphStore.in_memory() as store:
        store.add(CHALK.statements())
        note = ox.Quad(
            ox.NamedNode(CHALK.iri), ox.NamedNode(v.COMMENT), ox.BlankNode(), ox.NamedNode(GRAPH_SOURCE)
        )
        store.dataset.add(note)
        forget(store, CHALK.iri)
        assert not store.dataset


def test_hostile_texts_are_forgotten() -> None:
    text = 'Chalk \x00 "} \\ } ; <urn:x> 🦕\r\t\u2028 DROP ALL'
    fact = definition("Chalk", text)
    paper = Paper(text, text, {0: [Answer(text, {fact: ()}, refused={text: text})]})
    with GraphStore.in_memory() as store:
        store.add(paper.statements())
        assert store.documents()[paper.iri].text == text
        assert entity("Chalk") in {
            quad.subject.value for quad in store.dataset if quad.predicate.value == v.DEFINITION
        }
        forget(store, paper.iri)
        assert not store.dataset


def test_forgetting_a_text_leaves_what_another_text_says_too() -> None:
    with GraphStore.in_memory() as store:
        store.add(CHALK.statements())
        store.add(ROCKS.statements())
        assert forget_text(store, CHALK.iri.removeprefix("urn:sha256:"), CHALK.file) > 0
        assert set(store.dataset) == content(ROCKS)


@pytest.mark.parametrize(("folder", "goes"), [("..", True), ("/home/ann", True), ("other", False)])
def test_text_of_a_file_of_the_same_name_in_another_folder_stays(folder: str, goes: bool) -> None:
    with GraphStore.in_memory() as store:
        paper = Paper("papers/chalk.txt", CHALK.text, {})
        store.add(paper.statements())
        file = f"{folder}/papers/chalk.txt" if goes else f"{folder}/chalk.txt"
        assert bool(forget_text(store, paper.iri.removeprefix("urn:sha256:"), file)) is goes


def test_text_that_another_file_has_too_only_loses_the_name_of_the_file() -> None:
    with GraphStore.in_memory() as store:
        store.add(CHALK.statements())
        store.add([Statement(CHALK.iri, v.NAME, Literal("copy.txt"), GRAPH_SOURCE)])
        assert forget_text(store, CHALK.iri.removeprefix("urn:sha256:"), "copy.txt") == 1
        assert forget_text(store, CHALK.iri.removeprefix("urn:sha256:"), "copy.txt") == 0
        assert set(store.dataset) == content(CHALK)
