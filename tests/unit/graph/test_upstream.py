"""The same objects make the statements of TrustGraph's extractors, and TrustGraph's own classes read them.

What its extractors of 2.11.1 make stands here as data, from reading them. The provenance is made by its code.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import astuple
from typing import Any

import pytest

from tests.support.requirements import unavailable
from trustgraph_prompt import package_data
from trustgraph_prompt.graph.batches import entity_contexts, triples
from trustgraph_prompt.graph.mapping import Graph, graph_of
from trustgraph_prompt.graph.names import Naming, naming
from trustgraph_prompt.graph.ontology_config import read_ontology
from trustgraph_prompt.graph.ontology_statements import ontology_graph
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE, Origin, provenance
from trustgraph_prompt.graph.statements import Iri, Statement
from trustgraph_prompt.prompts import files
from trustgraph_prompt.wire import Chunk, Metadata

pytestmark = pytest.mark.upstream

E = "http://trustgraph.ai/e/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DEFINITION = "http://www.w3.org/2004/02/skos/core#definition"
LIMIT = 5_000_000
CHUNK = Chunk(Metadata("urn:chunk:1", "urn:doc:1", "default"), "Etna lies in Sicily.", "urn:chunk:1")
PROMPTS = files.read(package_data.templates()).build().prompts

DEFINITIONS: list[dict[str, Any]] = [
    {"entity": "Monte Etna/Süd", "definition": "A volcano & a mountain."},
    {"entity": "", "definition": "Nothing."},
    {"entity": "Nobody", "definition": None},
    {"entity": "Monte Etna/Süd", "definition": "A volcano & a mountain."},
]
OF_DEFINITIONS = {
    (E + "monte-etna/s%C3%BCd", LABEL, "l Monte Etna/Süd"),
    (E + "monte-etna/s%C3%BCd", DEFINITION, "l A volcano & a mountain."),
}
CONTEXTS = {
    (E + "monte-etna/s%C3%BCd", "Monte Etna/Süd", "urn:chunk:1"),
    (E + "monte-etna/s%C3%BCd", "A volcano & a mountain.", "urn:chunk:1"),
}

RELATIONSHIPS: list[dict[str, Any]] = [
    {"subject": "Etna", "predicate": "located in", "object": "South Italy", "object-entity": True},
    {"subject": "Etna", "predicate": "height", "object": 3403, "object-entity": False},
    {"subject": "Etna", "predicate": "active", "object": True, "object-entity": None},
    {"subject": "Etna", "predicate": "", "object": "x", "object-entity": True},
]
OF_RELATIONSHIPS = {
    (E + "etna", E + "located-in", "i " + E + "south-italy"),
    (E + "etna", LABEL, "l Etna"),
    (E + "located-in", LABEL, "l located in"),
    (E + "south-italy", LABEL, "l South Italy"),
    (E + "etna", E + "height", "l 3403"),
    (E + "height", LABEL, "l height"),
    (E + "etna", E + "active", "l True"),
    (E + "active", LABEL, "l active"),
}

MIXED: list[dict[str, Any]] = [
    {"type": "definition", "entity": "Monte Etna", "definition": "A volcano."},
    {"type": "relationship", "subject": "Etna", "predicate": "located in", "object": "South Italy"},
    {"type": "other", "entity": "x"},
]
OF_MIXED = {
    (E + "Monte%20Etna", LABEL, "l Monte Etna"),
    (E + "Monte%20Etna", DEFINITION, "l A volcano."),
    (E + "Etna", LABEL, "l Etna"),
    (E + "located%20in", LABEL, "l located in"),
    (E + "South%20Italy", LABEL, "l South Italy"),
    (E + "Etna", E + "located%20in", "i " + E + "South%20Italy"),
}


class Upstream:
    """TrustGraph's classes, and how it reads JSON."""

    def __init__(self) -> None:
        try:
            self._schema = importlib.import_module("trustgraph.schema")
        except ModuleNotFoundError:
            unavailable("no trustgraph-base: pip install trustgraph-prompt[upstream]")
        self.provenance: Any = importlib.import_module("trustgraph.provenance")
        self._serialization: Any = importlib.import_module("trustgraph.base.serialization")

    def read(self, name: str, data: bytes) -> Any:
        return self._serialization.dict_to_dataclass(json.loads(data), getattr(self._schema, name))

    def triples(self, statements: list[Statement]) -> list[Any]:
        return [
            triple
            for message in triples(statements, CHUNK, LIMIT)
            for triple in self.read("Triples", message).triples
        ]


@pytest.fixture(scope="module")
def upstream() -> Upstream:
    return Upstream()


def made_of(prompt: str, objects: list[dict[str, Any]], named: Naming) -> Graph:
    clause = PROMPTS[prompt].graph
    assert clause is not None
    return graph_of(clause, objects, named)


@pytest.mark.parametrize(
    ("prompt", "objects", "exact", "expected"),
    [
        ("extract-definitions", DEFINITIONS, False, OF_DEFINITIONS),
        ("extract-relationships", RELATIONSHIPS, False, OF_RELATIONSHIPS),
        ("agent-kg-extract", MIXED, True, OF_MIXED),
    ],
)
def test_objects_make_the_same_statements_as_in_trustgraph(
    upstream: Upstream, prompt: str, objects: list[dict[str, Any]], exact: bool, expected: set[Any]
) -> None:
    graph = made_of(prompt, objects, naming(exact=exact))

    read = upstream.triples([*graph.facts, *graph.labels])

    assert {
        (each.s.iri, each.p.iri, f"{each.o.type} {each.o.iri or each.o.value}") for each in read
    } == expected
    assert len(read) == len(expected)
    assert {(each.s.type, each.p.type, each.o.datatype, each.g) for each in read} == {("i", "i", "", None)}


def test_definitions_make_the_same_contexts_as_in_trustgraph(upstream: Upstream) -> None:
    graph = made_of("extract-definitions", DEFINITIONS, naming())

    (message,) = [
        upstream.read("EntityContexts", each) for each in entity_contexts(graph.contexts, CHUNK, LIMIT)
    ]

    assert astuple(message.metadata) == ("urn:chunk:1", "urn:doc:1", "default")
    assert {(each.entity.iri, each.context, each.chunk_id) for each in message.entities} == CONTEXTS


def test_contexts_of_an_ontology_name_the_classes_of_their_entities(upstream: Upstream) -> None:
    places = read_ontology("places", '{"classes": {"Peak": {"uri": "urn:Peak", "rdfs:label": "peak"}}}')
    graph = ontology_graph(places, [{"type": "entity", "entity": "Etna", "entity_type": "Peak"}])

    [message] = [
        upstream.read("EntityContexts", each) for each in entity_contexts(graph.contexts, CHUNK, LIMIT)
    ]

    assert [(each.entity.iri, each.context, each.rdf_type) for each in message.entities] == [
        ("https://trustgraph.ai/places/peak-etna", "Label: Etna", ["urn:Peak"]),
        ("urn:Peak", "Label: peak", ["http://www.w3.org/2002/07/owl#Class"]),
    ]


def test_provenance_is_that_of_trustgraph_apart_from_its_ids(upstream: Upstream) -> None:
    graph = made_of("extract-relationships", RELATIONSHIPS, naming())
    origin = Origin(
        chunk=Iri("urn:chunk:1"),
        text=CHUNK.chunk,
        prompt="extract-relationships",
        version="1",
        component="kg-extract-relationships",
        component_version="2.11.1",
        published=1_700_000_000.25,
        model="m",
        ontology=Iri("urn:ontology"),
    )
    ours = upstream.triples(provenance(graph, origin))
    theirs = upstream.provenance.subgraph_provenance_triples(
        subgraph_uri=ours[0].s.iri,
        extracted_triples=upstream.triples(list(graph.facts)),
        chunk_uri="urn:chunk:1",
        component_name="kg-extract-relationships",
        component_version="2.11.1",
        llm_model="m",
        ontology_uri="urn:ontology",
        timestamp="2023-11-14T22:13:20.250000Z",
    )

    def without_ids(triples: list[Any]) -> list[str]:
        """The triples, with the activity named after its kind: TrustGraph's has a random id."""
        texts = [repr(each) for each in triples]
        activity = next(each.o.iri for each in triples if each.p.iri.endswith("#wasGeneratedBy"))
        return sorted(text.replace(activity, "activity") for text in texts)

    assert without_ids(upstream.provenance.set_graph(theirs, GRAPH_SOURCE)) == without_ids(ours)
