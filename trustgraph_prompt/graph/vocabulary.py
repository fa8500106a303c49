"""The IRIs of the vocabularies in our statements."""

from __future__ import annotations

from typing import Final

from trustgraph_prompt.graph.statements import Iri

RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TYPE: Final = Iri(RDF + "type")
REIFIES: Final = Iri(RDF + "reifies")
STATEMENT: Final = Iri(RDF + "Statement")
SUBJECT: Final = Iri(RDF + "subject")
PREDICATE: Final = Iri(RDF + "predicate")
OBJECT: Final = Iri(RDF + "object")

RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
LABEL: Final = Iri(RDFS + "label")
COMMENT: Final = Iri(RDFS + "comment")
SUBCLASS_OF: Final = Iri(RDFS + "subClassOf")
DOMAIN: Final = Iri(RDFS + "domain")
RANGE: Final = Iri(RDFS + "range")

OWL: Final = "http://www.w3.org/2002/07/owl#"
CLASS: Final = Iri(OWL + "Class")
OBJECT_PROPERTY: Final = Iri(OWL + "ObjectProperty")
SAME_AS: Final = Iri(OWL + "sameAs")
DIFFERENT_FROM: Final = Iri(OWL + "differentFrom")
DATATYPE_PROPERTY: Final = Iri(OWL + "DatatypeProperty")

_SKOS: Final = "http://www.w3.org/2004/02/skos/core#"
DEFINITION: Final = Iri(_SKOS + "definition")

_SCHEMA: Final = "https://schema.org/"
DESCRIPTION: Final = Iri(_SCHEMA + "description")
SHA256: Final = Iri(_SCHEMA + "sha256")
NAME: Final = Iri(_SCHEMA + "name")
TEXT: Final = Iri(_SCHEMA + "text")
ENCODING_FORMAT: Final = Iri(_SCHEMA + "encodingFormat")
DIGITAL_DOCUMENT: Final = Iri(_SCHEMA + "DigitalDocument")

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
BOOLEAN: Final = Iri(XSD + "boolean")
INTEGER: Final = Iri(XSD + "integer")
DOUBLE: Final = Iri(XSD + "double")
NON_NEGATIVE_INTEGER: Final = Iri(XSD + "nonNegativeInteger")

_PROV: Final = "http://www.w3.org/ns/prov#"
ENTITY: Final = Iri(_PROV + "Entity")
ACTIVITY: Final = Iri(_PROV + "Activity")
AGENT: Final = Iri(_PROV + "Agent")
WAS_DERIVED_FROM: Final = Iri(_PROV + "wasDerivedFrom")
WAS_GENERATED_BY: Final = Iri(_PROV + "wasGeneratedBy")
USED: Final = Iri(_PROV + "used")
WAS_ASSOCIATED_WITH: Final = Iri(_PROV + "wasAssociatedWith")
STARTED_AT_TIME: Final = Iri(_PROV + "startedAtTime")

_OA: Final = "http://www.w3.org/ns/oa#"
HAS_TARGET: Final = Iri(_OA + "hasTarget")
HAS_SOURCE: Final = Iri(_OA + "hasSource")
HAS_SELECTOR: Final = Iri(_OA + "hasSelector")
TEXT_POSITION_SELECTOR: Final = Iri(_OA + "TextPositionSelector")
TEXT_QUOTE_SELECTOR: Final = Iri(_OA + "TextQuoteSelector")
START: Final = Iri(_OA + "start")
END: Final = Iri(_OA + "end")
EXACT: Final = Iri(_OA + "exact")

_TRUSTGRAPH: Final = "https://trustgraph.ai/ns/"
SUBGRAPH: Final = Iri(_TRUSTGRAPH + "Subgraph")
CONTAINS: Final = Iri(_TRUSTGRAPH + "contains")
COMPONENT_VERSION: Final = Iri(_TRUSTGRAPH + "componentVersion")
LLM_MODEL: Final = Iri(_TRUSTGRAPH + "llmModel")
ONTOLOGY: Final = Iri(_TRUSTGRAPH + "ontology")
CHAR_OFFSET: Final = Iri(_TRUSTGRAPH + "charOffset")
CHAR_LENGTH: Final = Iri(_TRUSTGRAPH + "charLength")
PAGE_NUMBER: Final = Iri(_TRUSTGRAPH + "pageNumber")

_OURS: Final = "urn:trustgraph-prompt:"
HEADING: Final = Iri(_OURS + "heading")
UNGROUNDED: Final = Iri(_OURS + "ungrounded")
WEAK: Final = Iri(_OURS + "weak")
LOOKED_UP: Final = Iri(_OURS + "lookedUp")
PROMPT: Final = Iri(_OURS + "prompt")
PROMPT_VERSION: Final = Iri(_OURS + "promptVersion")
TRUNCATED: Final = Iri(_OURS + "truncated")
REFUSED: Final = Iri(_OURS + "refused")
REFUSED_OBJECT: Final = Iri(_OURS + "object")
REASON: Final = Iri(_OURS + "reason")
SCORE: Final = Iri(_OURS + "score")

ENTITIES: Final = "http://trustgraph.ai/e/"
"""TrustGraph's base of the IRIs of entities and predicates."""

PREFIXES: Final = {
    "rdf": RDF,
    "rdfs": RDFS,
    "owl": OWL,
    "xsd": XSD,
    "prov": _PROV,
    "oa": _OA,
    "skos": _SKOS,
    "schema": _SCHEMA,
    "tg": _TRUSTGRAPH,
    "tp": _OURS,
    "e": ENTITIES,
}
"""The prefixes that a query need not declare."""
