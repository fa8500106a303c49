"""The graph of a store in files of RDF, read by pyoxigraph and by rdflib."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pyoxigraph as ox
import pytest
import rdflib

from tests.support.stored_graph import CHALK, Answer, Paper, definition, entity, relation, same
from trustgraph_prompt.errors import ConfigError, StoreError
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph.statements import Iri, Literal, Statement
from trustgraph_prompt.graph_store.rdf import FORMATS, file_format, write_rdf
from trustgraph_prompt.graph_store.store import GraphStore

pytestmark = [  # rdflib's own
    pytest.mark.filterwarnings("ignore:Dataset.default_context:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning"),
]

HOSTILE = 'a "quote" \\ \' \r\n\t 白亜 🦕 ]]> <b> & \u2028'


def store_of(*statements: Statement) -> GraphStore:
    store = GraphStore.in_memory()
    store.add(statements)
    return store


def full() -> GraphStore:
    paper = Paper(HOSTILE, HOSTILE, {0: [Answer(HOSTILE, {definition("Chalk", HOSTILE): ()}, [HOSTILE])]})
    return store_of(*CHALK.statements(), *paper.statements(), *same("Chalk", "Needles"))


@pytest.mark.parametrize("suffix", [".nq", ".trig"])
def test_formats_with_named_graphs_hold_the_store_as_it_is(suffix: str, tmp_path: Path) -> None:
    with full() as store:
        write_rdf(store.dataset, file := tmp_path / f"graph{suffix}")
        data = file.read_bytes()
        assert set(ox.parse(data, file_format(file))) == set(store.dataset)


@pytest.mark.parametrize("suffix", [".nt", ".ttl", ".rdf"])
def test_formats_without_named_graphs_hold_all_statements_in_one(suffix: str, tmp_path: Path) -> None:
    with full() as store:
        write_rdf(store.dataset, file := tmp_path / f"graph{suffix}")
        data = file.read_bytes()
        written = {quad.triple for quad in store.dataset}
        if suffix == ".rdf":
            assert len([*ox.parse(data, file_format(file))]) == len(written)
        else:
            assert {quad.triple for quad in ox.parse(data, file_format(file))} == written


def test_json_ld_describes_each_quoted_statement_by_a_node(tmp_path: Path) -> None:
    """Rdflib reads it, which knows no triple terms."""
    with full() as store:
        write_rdf(store.dataset, file := tmp_path / "graph.jsonld")
        read = rdflib.Dataset()
        read.parse(data=file.read_bytes(), format="json-ld")
        source = read.graph(rdflib.URIRef(GRAPH_SOURCE))
        described = {
            (source.value(node, rdflib.RDF.subject), source.value(node, rdflib.RDF.predicate))
            for node in source.objects(None, rdflib.URIRef(v.CONTAINS))
        }
        contained = [
            quad.object
            for quad in store.dataset.quads_for_pattern(None, ox.NamedNode(v.CONTAINS), None, None)
            if isinstance(quad.object, ox.Triple)
        ]
        assert described == {
            (rdflib.URIRef(str(each.subject)[1:-1]), rdflib.URIRef(each.predicate.value))
            for each in contained
        }
        objects = {str(o) for _, _, o in source.triples((None, rdflib.RDF.object, None))}
        assert HOSTILE in objects
        quoted = {(q.object, q.graph_name) for q in store.dataset if isinstance(q.object, ox.Triple)}
        assert len(read) == len(store.dataset) + 4 * len(quoted)


@pytest.mark.parametrize("suffix", [".nt", ".nq", ".ttl", ".trig", ".jsonld", ".rdf"])
def test_facts_are_read_by_rdflib(suffix: str, tmp_path: Path) -> None:
    statements = [relation("Chalk", "found in", "England"), definition("Chalk", HOSTILE)]
    with store_of(*statements) as store:
        write_rdf(store.dataset, file := tmp_path / f"graph{suffix}")
    read = rdflib.Dataset()
    names = {
        ".nt": "nt",
        ".nq": "nquads",
        ".ttl": "turtle",
        ".trig": "trig",
        ".jsonld": "json-ld",
        ".rdf": "xml",
    }
    read.parse(data=file.read_bytes(), format=names[suffix])
    found = {(str(s), str(p), str(o)) for s, p, o, _ in read.quads()}
    text = HOSTILE.replace("\r", " ") if suffix == ".rdf" else HOSTILE
    assert found == {
        (entity("Chalk"), entity("found in"), entity("England")),
        (entity("Chalk"), v.DEFINITION, text),
    }


@pytest.mark.parametrize("suffix", FORMATS)
def test_invalid_iris_and_control_characters_still_make_a_file(suffix: str, tmp_path: Path) -> None:
    subject, predicate = Iri("http://trustgraph.ai/e/[a b]\ud800"), Iri("no iri at all")
    statements = [
        Statement(subject, predicate, Literal("\x00 \x0b \ud800")),
        Statement(Iri("http://["), Iri("http://x:y/z"), Iri("")),
    ]
    with store_of(*statements) as store:
        write_rdf(store.dataset, file := tmp_path / f"graph{suffix}")
        read = [*ox.parse(file.read_bytes(), file_format(file))]
    (text,) = [each.object.value for each in read if isinstance(each.object, ox.Literal)]
    assert text == ("\ufffd \ufffd ?" if suffix == ".rdf" else "\x00 \x0b ?")


@pytest.mark.parametrize("name", ["1999", "born in (year)", "的", "-"])
def test_predicate_that_xml_cannot_name_is_written_with_another_name(name: str, tmp_path: Path) -> None:
    fact = relation("Chalk", name, "England")
    paper = Paper("a.txt", "Chalk.", {0: [Answer("p", {fact: (), relation("Chalk", name, "Kent"): ()})]})
    with store_of(*paper.statements()) as store:
        write_rdf(store.dataset, file := tmp_path / "graph.rdf")
        ElementTree.parse(file)
        read = {*ox.parse(file.read_bytes(), ox.RdfFormat.RDF_XML)}
        assert len(read) == len(store.dataset) + 1
    chalk, england = ox.NamedNode(fact.subject), ox.NamedNode(str(fact.object))
    (written,) = [each.predicate for each in read if (each.subject, each.object) == (chalk, england)]
    assert written.value == f"{fact.predicate}_"
    equivalent = ox.NamedNode("http://www.w3.org/2002/07/owl#equivalentProperty")
    assert (written, equivalent, ox.NamedNode(fact.predicate)) in [tuple(each)[:3] for each in read]


@pytest.mark.parametrize("name", ["graph.csv", "graph", "graph.ttl.gz", "graph.TTL"])
def test_unknown_suffix_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown format.*\.nt, \.nq, \.ttl, \.trig, \.jsonld, \.rdf"):
        file_format(Path(name))


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with full() as store, pytest.raises(StoreError, match="missing"):
        write_rdf(store.dataset, tmp_path / "missing" / "graph.ttl")
    (tmp_path / "graph.ttl").mkdir()
    with full() as store, pytest.raises(StoreError, match=r"graph\.ttl: cannot be written"):
        write_rdf(store.dataset, tmp_path / "graph.ttl")
    assert not [*tmp_path.glob("*.part")]
