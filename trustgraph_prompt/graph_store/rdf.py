"""Our statements as quads of pyoxigraph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote

import pyoxigraph as ox

from trustgraph_prompt.graph.statements import Iri, Literal, Quoted, Statement

_DEFAULT = ox.DefaultGraph()


def quads(statements: Iterable[Statement]) -> Iterator[ox.Quad]:
    """Convert statements. A lone surrogate becomes `?`, an invalid IRI one with `urn:invalid:`."""
    for subject, predicate, object, graph in statements:
        yield ox.Quad(_iri(subject), _iri(predicate), _term(object), _iri(graph) if graph else _DEFAULT)


def _term(term: Iri | Literal | Quoted) -> ox.NamedNode | ox.Literal | ox.Triple:
    if isinstance(term, Literal):
        datatype = _iri(term.datatype) if term.datatype else None
        try:
            return ox.Literal(term.value, datatype=datatype)
        except ValueError:
            return ox.Literal(term.value.encode(errors="replace").decode(), datatype=datatype)
    if isinstance(term, Quoted):
        return ox.Triple(_iri(term.subject), _iri(term.predicate), _term(term.object))
    return _iri(term)


@lru_cache(10_000)  # predicates, and the ids that follow each other in the provenance of an answer
def _iri(iri: str) -> ox.NamedNode:
    try:
        return ox.NamedNode(iri)
    except ValueError:
        return ox.NamedNode("urn:invalid:" + quote(iri, safe="", errors="replace"))
