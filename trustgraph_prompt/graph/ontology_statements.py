"""Makes the graph of an answer in the terms of an ontology."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import repeat
from typing import Any, Final

from trustgraph_prompt.contract import Grounded
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.mapping import Evidence, Graph, evidence_of, quoted
from trustgraph_prompt.graph.ontology import Element, Ontology, Said
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement

_ENTITIES: Final = "https://trustgraph.ai"
_PREFIXES: Final = {"xsd": v.XSD, "rdf": v.RDF, "rdfs": v.RDFS, "owl": v.OWL}

_SPACES = re.compile(r"[\s_]+")
_BETWEEN_PARTS = re.compile(r"[/:.\s_]+")
_DROPPED_OF_NAME = re.compile(r"[^\w\-.]")
_DROPPED_OF_CLASS = re.compile(r"[^\w\-]")
_HYPHENS = re.compile(r"-+")


def ontology_graph(
    ontology: Ontology,
    objects: Iterable[Any],
    grounded: Grounded | None = None,
    quotes: Collection[str] = (),
) -> Graph:
    """Make the graph of the objects of an answer; `grounded` and `quotes` as for `graph_of`.

    Each entity gets its class and its label, also if only a relationship or an attribute mentions it. An
    object in which `Ontology.check` finds an issue adds nothing. `labels` describes the classes and
    properties that are used.
    """
    graph = Graph()
    classes: set[str] = set()
    properties: set[str] = set()
    for value, found in zip(objects, grounded or repeat({}), strict=False):
        if said := ontology.read(value):
            classes.update(filter(None, (said.subject_class, said.object_class)))
            properties.add(said.property)
            of_subject = evidence_of(found, "subject") + evidence_of(found, "entity")
            of_object = evidence_of(found, "object") + evidence_of(found, "value")
            for fact, of_fact in _facts(ontology, said, of_subject, of_object):
                graph.facts[fact] = graph.facts.get(fact) or quoted(of_fact, found, quotes)
    graph.labels = dict.fromkeys(description(ontology.part(classes, properties)), ())
    graph.contexts = dict.fromkeys(_contexts([*graph.facts, *graph.labels]))
    return graph


def _facts(
    ontology: Ontology, said: Said, of_subject: Evidence, of_object: Evidence
) -> Iterator[tuple[Statement, Evidence]]:
    subject = typed_entity_iri(said.subject, said.subject_class, ontology.id)
    yield from _entity(ontology, subject, said.subject, said.subject_class, of_subject)
    if said.object_class:
        object = typed_entity_iri(said.object, said.object_class, ontology.id)
        yield from _entity(ontology, object, said.object, said.object_class, of_object)
        relation = ontology.object_properties[said.property].iri
        yield Statement(subject, relation, object), of_subject + of_object
    elif said.property:
        attribute = ontology.datatype_properties[said.property].iri
        yield Statement(subject, attribute, Literal(said.object)), of_subject + of_object


def _entity(
    ontology: Ontology, iri: Iri, name: str, class_: str, evidence: Evidence
) -> Iterator[tuple[Statement, Evidence]]:
    yield Statement(iri, v.TYPE, ontology.classes[class_].iri), evidence
    yield Statement(iri, v.LABEL, Literal(name)), evidence


def typed_entity_iri(name: str, class_: str, ontology: str) -> Iri:
    """The IRI of an entity, as TrustGraph's ontology extractor makes it: from its name and its class.

    Case, punctuation, and what stands before a slash in the id of the class make no difference.
    """
    local = _BETWEEN_PARTS.sub("-", class_.rpartition("/")[2].lower())
    kind = _HYPHENS.sub("-", _DROPPED_OF_CLASS.sub("", local).strip("-"))
    words = _DROPPED_OF_NAME.sub("", _SPACES.sub("-", name.lower()))
    return Iri.of(f"{_ENTITIES}/{ontology}/{kind}-{_HYPHENS.sub('-', words.strip('-'))}")


def description(ontology: Ontology) -> Iterator[Statement]:
    """The statements that describe an ontology, or a part of one: its classes, then its properties."""
    iris = {id: each.iri for id, each in ontology.classes.items()}
    for each in ontology.classes.values():
        yield from _described(each, v.CLASS)
        for parent in each.parents:
            yield Statement(each.iri, v.SUBCLASS_OF, iris[parent])
    for kind, properties in (
        (v.OBJECT_PROPERTY, ontology.object_properties),
        (v.DATATYPE_PROPERTY, ontology.datatype_properties),
    ):
        for each in properties.values():
            yield from _described(each, kind)
            for predicate, names in ((v.DOMAIN, each.domain), (v.RANGE, each.range)):
                # In RDF several domains hold together, but here any one of them is enough.
                if len(names) == 1 and (iri := iris.get(names[0]) or _datatype(names[0])):
                    yield Statement(each.iri, predicate, iri)


def _described(element: Element, type_: Iri) -> Iterator[Statement]:
    yield Statement(element.iri, v.TYPE, type_)
    if element.labels:
        yield Statement(element.iri, v.LABEL, Literal(element.labels[0]))
    if element.comment:
        yield Statement(element.iri, v.COMMENT, Literal(element.comment))


def _datatype(name: str) -> Iri | None:
    """The IRI that a name such as `xsd:string` stands for; None if its prefix is unknown."""
    prefix, _, local = name.partition(":")
    if prefix in _PREFIXES:
        return Iri.of(_PREFIXES[prefix] + local)
    return Iri.of(name) if "://" in name else None


def _contexts(statements: Iterable[Statement]) -> Iterator[Context]:
    """A text for each subject with a label, as TrustGraph's extractor makes it: first label, definitions."""
    texts: dict[Iri, list[str]] = {}
    types: dict[Iri, list[str]] = defaultdict(list)
    for subject, predicate, object, _ in statements:
        if not isinstance(object, Literal):
            if predicate == v.TYPE:
                types[subject].append(str(object))
        elif predicate == v.LABEL:
            texts.setdefault(subject, [f"Label: {object.value}"])
        elif predicate in (v.DEFINITION, v.DESCRIPTION):
            texts.setdefault(subject, []).append(object.value)
    for subject, parts in texts.items():
        yield Context(subject, ". ".join(parts), tuple(types[subject]))
