"""Copies parts of a store, to be read without the rest: what concerns one name, or the facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pyoxigraph as ox

from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph_store.store import GRAPH_SAME, GraphStore

Node = ox.NamedNode | ox.BlankNode

_FACTS: Final = ox.DefaultGraph()
_SOURCE, _SAME = ox.NamedNode(GRAPH_SOURCE), ox.NamedNode(GRAPH_SAME)
_LABEL, _SAME_AS, _CONTAINS, _REIFIES = map(ox.NamedNode, (v.LABEL, v.SAME_AS, v.CONTAINS, v.REIFIES))
_FOLLOWED: Final = frozenset(
    (v.WAS_GENERATED_BY, v.USED, v.WAS_DERIVED_FROM, v.HAS_TARGET, v.HAS_SOURCE, v.HAS_SELECTOR)
)


def excerpt(store: GraphStore, name: str) -> GraphStore:
    """Copy into memory what concerns the things of this IRI, or of this label, whatever its case.

    `read_view` of the copy has these things and their facts as in the whole store, and of the things that
    they are related to the names.
    """
    copied = _Excerpt(store.dataset)
    for thing in {same for node in _named(store.dataset, name) for same in copied.same(node)}:
        copied.add(thing)
    excerpt = GraphStore.in_memory()
    excerpt.dataset.extend(copied.quads)
    return excerpt


def without_sources(store: GraphStore) -> GraphStore:
    """Copy the facts and names of a store into memory, but not where they come from, which is most of it."""
    copy = GraphStore.in_memory()
    for graph in (_FACTS, _SAME):
        copy.dataset.extend(store.dataset.quads_for_pattern(None, None, None, graph))
    return copy


def _named(dataset: ox.Store, name: str) -> Iterator[Node]:
    """The nodes that have this IRI or label."""
    with suppress(ValueError):
        yield ox.BlankNode(name[2:]) if name.startswith("_:") else ox.NamedNode(name)
    for label in dataset.quads_for_pattern(None, _LABEL, None, _FACTS):
        if isinstance(label.object, ox.Literal) and label.object.value.casefold() == name.casefold():
            yield from _nodes(label.subject)


class _Excerpt:
    def __init__(self, dataset: ox.Store) -> None:
        self.quads: set[ox.Quad] = set()
        self._dataset = dataset
        self._read: set[object] = set()  # facts and nodes whose sources are copied

    def add(self, thing: Node) -> None:
        """Copy the facts about a thing, where they come from, and the names of all that is in them."""
        related = self._dataset.quads_for_pattern(None, None, thing, _FACTS)
        facts = {fact for fact in related if fact.predicate.value != v.TYPE}
        facts |= self._copy(thing, None, None, _FACTS)
        self.quads |= facts
        for fact in facts:
            self._add_sources(fact)
        for node in {thing} | {node for fact in facts for node in _nodes(*fact.triple)}:
            labels = {label for same in self.same(node) for label in self._copy(same, _LABEL, None, _FACTS)}
            if len(labels) > 1:  # the sources tell which of them is used most
                for label in labels:
                    self._add_sources(label)

    def same(self, node: Node) -> set[Node]:
        """Copy what is the same as a node, directly or through others; returns the nodes."""
        same, ahead = {node}, [node]
        for one in ahead:
            pairs = self._copy(one, _SAME_AS, None, _SAME) | self._copy(None, _SAME_AS, one, _SAME)
            new = {each for pair in pairs for each in _nodes(pair.subject, pair.object)} - same
            same |= new
            ahead += new
        return same

    def _add_sources(self, fact: ox.Quad) -> None:
        """Copy the answers that state a fact, and the passages of its values."""
        if fact.triple not in self._read:
            self._read.add(fact.triple)
            for about in (_CONTAINS, _REIFIES):
                for quad in self._dataset.quads_for_pattern(None, about, fact.triple, _SOURCE):
                    self._follow(quad.subject)

    def _follow(self, node: object) -> None:
        """Copy what is said of a node of the sources, and of those that it leads to."""
        if isinstance(node, Node) and node not in self._read:
            self._read.add(node)
            for quad in self._copy(node, None, None, _SOURCE):
                if quad.predicate.value in _FOLLOWED:
                    self._follow(quad.object)

    def _copy(self, *pattern: Any) -> set[ox.Quad]:
        quads = {*self._dataset.quads_for_pattern(*pattern)}
        self.quads |= quads
        return quads


def _nodes(*terms: object) -> Iterator[Node]:
    return (each for each in terms if isinstance(each, Node))
