"""Takes a document out of a store, with everything that only this document states."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyoxigraph as ox

from trustgraph_prompt.errors import ConfigError, suggestion
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph_store.store import GRAPH_SAME, GraphStore
from trustgraph_prompt.graph_store.view import SourceDocument

_GRAPH_STATED: Final = "urn:trustgraph-prompt:graph:forgotten"

# pyoxigraph makes one transaction of the operations of an update: all of them take effect, or none.
_FORGET: Final = f"""
# What this document states, set apart: whether others state a fact is then one look into an index.
DELETE {{ GRAPH <{GRAPH_SOURCE}> {{ ?subgraph tg:contains ?fact }} }}
INSERT {{ GRAPH <{_GRAPH_STATED}> {{ $document tg:contains ?fact }} }}
WHERE {{
  GRAPH <{GRAPH_SOURCE}> {{
    ?chunk prov:wasDerivedFrom $document .
    ?subgraph prov:wasDerivedFrom ?chunk ; tg:contains ?fact
  }}
}} ;

# Facts and labels that no other document states.
DELETE {{ ?subject ?predicate ?object }}
WHERE {{
  GRAPH <{_GRAPH_STATED}> {{ $document tg:contains ?fact }}
  FILTER NOT EXISTS {{ GRAPH <{GRAPH_SOURCE}> {{ ?other tg:contains ?fact }} }}
  BIND (SUBJECT(?fact) AS ?subject) BIND (PREDICATE(?fact) AS ?predicate) BIND (OBJECT(?fact) AS ?object)
}} ;

DROP SILENT GRAPH <{_GRAPH_STATED}> ;

# The document, its chunks, their answers with what was refused, and the passages of facts.
DELETE {{ GRAPH <{GRAPH_SOURCE}> {{ ?node ?predicate ?object }} }}
WHERE {{
  GRAPH <{GRAPH_SOURCE}> {{
    {{ ?node prov:wasDerivedFrom* $document }}
    UNION {{ ?node prov:used/prov:wasDerivedFrom $document }}
    UNION {{ ?activity prov:used/prov:wasDerivedFrom $document . ?activity tp:refused ?node }}
    UNION {{ ?node oa:hasTarget?/oa:hasSource $document }}
    UNION {{ ?target oa:hasSource $document ; oa:hasSelector ?node }}
    ?node ?predicate ?object
  }}
}} ;

DELETE {{ GRAPH <{GRAPH_SOURCE}> {{ ?agent ?predicate ?object }} }}
WHERE {{
  GRAPH <{GRAPH_SOURCE}> {{
    ?agent a prov:Agent ; ?predicate ?object .
    FILTER NOT EXISTS {{ ?activity prov:wasAssociatedWith ?agent }}
  }}
}} ;

# That a thing is the same as another one, if no fact about it is left.
DELETE {{ GRAPH <{GRAPH_SAME}> {{ ?one owl:sameAs ?other . ?reifier ?predicate ?object }} }}
WHERE {{
  GRAPH <{GRAPH_SAME}> {{
    ?one owl:sameAs ?other .
    OPTIONAL {{ ?reifier rdf:reifies <<( ?one owl:sameAs ?other )>> ; ?predicate ?object }}
  }}
  FILTER (
    NOT EXISTS {{ {{ ?one ?p ?o }} UNION {{ ?s ?p ?one }} }}
    || NOT EXISTS {{ {{ ?other ?p ?o }} UNION {{ ?s ?p ?other }} }}
  )
}}
"""


def find_document(store: GraphStore, name: str) -> SourceDocument:
    """The document of this IRI, hash or file, or of a unique beginning of one. Raises `ConfigError`."""
    documents = store.documents()
    named = [{iri, iri.removeprefix("urn:sha256:"), *each.files} for iri, each in documents.items()]
    for matches in (
        lambda known: name == known,
        lambda known: name == Path(known).name,
        lambda known: name and known.startswith(name),
    ):
        found = [iri for iri, names in zip(documents, named, strict=True) if any(map(matches, names))]
        if len(found) == 1:
            return documents[found[0]]
        if found:
            listed = "; ".join(f"{iri} ({', '.join(documents[iri].files)})" for iri in found)
            raise ConfigError(f"several documents have this name; give the IRI of one: {listed}", where=name)
    near = suggestion(name, [file for each in documents.values() for file in each.files])
    raise ConfigError(f"the store has no document of this name or hash{near}", where=name)


def forget(store: GraphStore, document: str) -> int:
    """Remove a document, what was extracted from it, and the facts that no other document states.

    That two things are the same goes with the last fact about one of them. All of it goes, or nothing.
    Returns the number of statements that went.
    """
    before = len(store.dataset)
    store.dataset.update(_FORGET.replace("$document", str(ox.NamedNode(document))), prefixes=v.PREFIXES)
    return before - len(store.dataset)


def forget_text(store: GraphStore, sha256: str, file: str) -> int:
    """Remove the text that a file had; where other files have it too, only the name of this one.

    Returns the number of statements that went, 0 if the store does not have the text of this file.
    """
    node, graph, before = ox.NamedNode(f"urn:sha256:{sha256}"), ox.NamedNode(GRAPH_SOURCE), len(store.dataset)
    names = store.dataset.quads_for_pattern(node, ox.NamedNode(v.NAME), None, graph)
    files = [quad.object.value for quad in names if isinstance(quad.object, ox.Literal)]
    if len(files) == 1 and _may_be_one(files[0], file):
        return forget(store, node.value)
    store.dataset.remove(ox.Quad(node, ox.NamedNode(v.NAME), ox.Literal(file), graph))
    return before - len(store.dataset)


def _may_be_one(path: str, other: str) -> bool:
    """Whether two paths may be those of one file, seen from two folders."""
    names, others = ([part for part in Path(each).parts if part not in ("..", "/")] for each in (path, other))
    common = min(len(names), len(others))
    return names[-common:] == others[-common:]
