"""A graph as RDF: our statements as quads of pyoxigraph, and files of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyoxigraph as ox

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.statements import Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.graph.vocabulary import PREFIXES
from trustgraph_prompt.replaced_file import replaced

FORMATS: Final = (".nt", ".nq", ".ttl", ".trig", ".jsonld", ".rdf")

_XML_NAME_AT_END = re.compile(r"(?<![\w.-])[\d.-]*+[A-Za-z_][\w.-]*+\Z", re.ASCII)
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_DEFAULT = ox.DefaultGraph()


def quads(statements: Iterable[Statement]) -> Iterator[ox.Quad]:
    """Convert statements. A lone surrogate becomes `?`, an invalid IRI one with `urn:invalid:`."""
    for subject, predicate, object, graph in statements:
        yield ox.Quad(_iri(subject), _iri(predicate), _term(object), _iri(graph) if graph else _DEFAULT)


def _term(term: Iri | Literal | TripleTerm) -> ox.NamedNode | ox.Literal | ox.Triple:
    if isinstance(term, Literal):
        datatype = _iri(term.datatype) if term.datatype else None
        try:
            return ox.Literal(term.value, datatype=datatype)
        except ValueError:
            return ox.Literal(term.value.encode(errors="replace").decode(), datatype=datatype)
    if isinstance(term, TripleTerm):
        return ox.Triple(_iri(term.subject), _iri(term.predicate), _term(term.object))
    return _iri(term)


@lru_cache(10_000)  # predicates, and the ids that follow each other in the provenance of an answer
def _iri(iri: str) -> ox.NamedNode:
    try:
        return ox.NamedNode(iri)
    except ValueError:
        return ox.NamedNode("urn:invalid:" + quote(iri, safe="", errors="replace"))


def file_format(path: Path) -> ox.RdfFormat:
    """The format that the end of a file's name stands for. Raises `ConfigError`."""
    format = ox.RdfFormat.from_extension(path.suffix[1:])
    if format is None or path.suffix not in FORMATS:
        expected = f"one of {', '.join(FORMATS)}"
        raise ConfigError("unknown format of RDF", where=str(path), found=path.name, expected=expected)
    return format


def write_rdf(quads: Iterable[ox.Quad], path: Path) -> None:
    """Write quads, such as the `dataset` of a store, to a file, which replaces the previous one at the end.

    A format without named graphs gets facts and provenance as one graph. In JSON-LD, an `rdf:Statement` takes
    the place of each triple term. In XML, a `_` follows a predicate that does not end in a name, and an
    `owl:equivalentProperty` says so. Raises `ConfigError`, `StoreError`.
    """
    format = file_format(path)
    with replaced(path) as part:
        ox.serialize(_written(quads, format), part, format, prefixes=PREFIXES)


def _written(quads: Iterable[ox.Quad], format: ox.RdfFormat) -> Iterable[ox.Quad] | Iterable[ox.Triple]:
    if format == ox.RdfFormat.RDF_XML:
        return _as_xml(quad.triple for quad in quads)
    if format == ox.RdfFormat.JSON_LD:
        return (each for quad in quads for each in _reified(quad))
    return quads if format.supports_datasets else (quad.triple for quad in quads)


def _reified(quad: ox.Quad) -> Iterator[ox.Quad]:
    """A statement without triple terms: for each, the node that describes it."""
    if not isinstance(term := quad.object, ox.Triple):
        yield quad
        return
    id = hashlib.sha256(str(term).encode()).hexdigest()[:32]
    node, graph = ox.NamedNode(f"urn:statement:{id}"), quad.graph_name
    yield ox.Quad(quad.subject, quad.predicate, node, graph)
    yield ox.Quad(node, ox.NamedNode(v.TYPE), ox.NamedNode(v.STATEMENT), graph)
    for predicate, part in zip((v.SUBJECT, v.PREDICATE, v.OBJECT), term, strict=True):
        yield from _reified(ox.Quad(node, ox.NamedNode(predicate), part, graph))


def _as_xml(triples: Iterable[ox.Triple]) -> Iterator[ox.Triple]:
    """Statements that can be written in XML, where a predicate is the name of an element."""
    equivalent = ox.NamedNode(v.OWL + "equivalentProperty")
    for triple in triples:
        written = _triple_as_xml(triple)
        if written.predicate != triple.predicate:
            yield ox.Triple(written.predicate, equivalent, triple.predicate)
        yield written


def _triple_as_xml(triple: ox.Triple) -> ox.Triple:
    predicate, object = triple.predicate, triple.object
    if not _XML_NAME_AT_END.search(predicate.value):
        predicate = ox.NamedNode(f"{predicate.value}_")
    if isinstance(object, ox.Triple):
        object = _triple_as_xml(object)
    elif isinstance(object, ox.Literal) and not object.language:
        object = ox.Literal(_NOT_XML.sub(_xml_character, object.value), datatype=object.datatype)
    return ox.Triple(triple.subject, predicate, object)


def _xml_character(found: re.Match[str]) -> str:
    """One character for one, so that offsets in a text stay. Readers of XML drop a carriage return."""
    return " " if found[0] == "\r" else "\N{REPLACEMENT CHARACTER}"
