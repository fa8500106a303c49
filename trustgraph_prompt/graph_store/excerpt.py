"""Copies parts of a store, to be read without the rest: what concerns one name, or the facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyoxigraph as ox

from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph_store.store import GRAPH_SAME, GraphStore

Node = ox.NamedNode | ox.BlankNode

_FACTS: Final = ox.DefaultGraph()
_SOURCE: Final = ox.NamedNode(GRAPH_SOURCE)
_SAME: Final = ox.NamedNode(GRAPH_SAME)
_LABEL, _SAME_AS, _CONTAINS, _WAS_GENERATED_BY, _REIFIES = map(
    ox.NamedNode, (v.LABEL, v.SAME_AS, v.CONTAINS, v.WAS_GENERATED_BY, v.REIFIES)
)
_FOLLOWED: Final = frozenset((v.USED, v.WAS_DERIVED_FROM, v.HAS_TARGET, v.HAS_SOURCE, v.HAS_SELECTOR))


def excerpt(store: GraphStore, name: str) -> GraphStore:
    """Copy into memory what concerns the things of this IRI, or of this label, whatever its case.

    `read_view` of the copy has these things and their facts as in the whole store, and of the things that
    they are related to the names.
    """
    copied = _Excerpt(store.dataset)
    copied.add(copied.nodes(name))
    excerpt = GraphStore.in_memory()
    excerpt.dataset.extend(copied.quads)
    return excerpt


def without_sources(store: GraphStore) -> GraphStore:
    """Copy the facts and names of a store into memory, but not where they come from, which is most of it."""
    copy = GraphStore.in_memory()
    for graph in (_FACTS, _SAME):
        copy.dataset.extend(store.dataset.quads_for_pattern(None, None, None, graph))
    return copy


class _Excerpt:
    def __init__(self, dataset: ox.Store) -> None:
        self._dataset = dataset
        self.quads: set[ox.Quad] = set()
        self._read: set[object] = set()  # what is copied with all that is said of it

    def nodes(self, name: str) -> set[Node]:
        """The nodes that have this IRI or label, and those that are the same."""
        wanted, found = name.casefold(), set[Node]()
        with suppress(ValueError):
            found.add(ox.BlankNode(name[2:]) if name.startswith("_:") else ox.NamedNode(name))
        for label in self._dataset.quads_for_pattern(None, _LABEL, None, _FACTS):
            if isinstance(label.object, ox.Literal) and label.object.value.casefold() == wanted:
                found |= _nodes(label.subject)
        return {same for node in found for same in self._same(node)}

    def add(self, things: set[Node]) -> None:
        """Copy the facts about things, where they come from, and the names of all that is in them."""
        named = set(things)
        for thing in things:
            for fact in [*self._copy(thing), *self._related(thing)]:
                named |= _nodes(fact.subject, fact.predicate, fact.object)
                self._copy_sources(fact)
        for node in named:
            labels = [label for same in self._same(node) for label in self._copy(same, _LABEL)]
            if len(labels) > 1:  # the sources tell which of them is used most
                for label in labels:
                    self._copy_sources(label)

    def _related(self, thing: Node) -> Iterator[ox.Quad]:
        """Copy the facts whose object is a thing, which may be a class with any number of things."""
        for fact in self._dataset.quads_for_pattern(None, None, thing, _FACTS):
            if fact.predicate.value != v.TYPE:
                self.quads.add(fact)
                yield fact

    def _copy_sources(self, fact: ox.Quad) -> None:
        """Copy the answers that state a fact, and the passages of its values."""
        if fact.triple in self._read:
            return
        self._read.add(fact.triple)
        for contains in self._copy(None, _CONTAINS, fact.triple, _SOURCE):
            for generated in self._copy(contains.subject, _WAS_GENERATED_BY, None, _SOURCE):
                self._follow(generated.object)
        for reifies in self._copy(None, _REIFIES, fact.triple, _SOURCE):
            self._follow(reifies.subject)

    def _follow(self, node: object) -> None:
        """Copy what is said of a node of the sources, and of those that it leads to."""
        if node in self._read or not isinstance(node, Node):
            return
        self._read.add(node)
        for quad in self._copy(node, None, None, _SOURCE):
            if quad.predicate.value in _FOLLOWED:
                self._follow(quad.object)

    def _same(self, node: Node) -> set[Node]:
        """Copy what is the same as a node, directly or through others; returns the nodes."""
        same, ahead = {node}, [node]
        while ahead:
            one = ahead.pop()
            pairs = [*self._copy(one, _SAME_AS, None, _SAME), *self._copy(None, _SAME_AS, one, _SAME)]
            new = {each for pair in pairs for each in _nodes(pair.subject, pair.object)} - same
            same |= new
            ahead += new
        return same

    def _copy(
        self,
        subject: Node | ox.Triple | None,
        predicate: ox.NamedNode | None = None,
        object: Node | ox.Triple | None = None,
        graph: ox.NamedNode | ox.DefaultGraph = _FACTS,
    ) -> list[ox.Quad]:
        quads = [*self._dataset.quads_for_pattern(subject, predicate, object, graph)]
        self.quads.update(quads)
        return quads


def _nodes(*terms: object) -> set[Node]:
    return {each for each in terms if isinstance(each, Node)}
