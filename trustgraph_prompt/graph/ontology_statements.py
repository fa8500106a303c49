"""The statements that an answer in the terms of an ontology makes, and those that describe the ontology."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from trustgraph_prompt.graph.ontology import Ontology, OntologyClass, Property, Said
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import DEFINITION, LABEL, TYPE

_ENTITIES = "https://trustgraph.ai"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_PREFIXES = {
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": _RDFS,
    "owl": _OWL,
}

_DEFINITIONS = (DEFINITION, Iri("https://schema.org/description"))
_COMMENT = Iri(f"{_RDFS}comment")
_SUBCLASS_OF = Iri(f"{_RDFS}subClassOf")
_DOMAIN = Iri(f"{_RDFS}domain")
_RANGE = Iri(f"{_RDFS}range")
_CLASS = Iri(f"{_OWL}Class")
_OBJECT_PROPERTY = Iri(f"{_OWL}ObjectProperty")
_DATATYPE_PROPERTY = Iri(f"{_OWL}DatatypeProperty")

_SPACES = re.compile(r"[\s_]+")
_BETWEEN_PARTS = re.compile(r"[/:.\s_]+")
_DROPPED_OF_NAME = re.compile(r"[^\w\-.]")
_DROPPED_OF_CLASS = re.compile(r"[^\w\-]")
_HYPHENS = re.compile(r"-+")


@lru_cache(16_384)
def typed_entity_iri(name: str, class_: str, ontology: str) -> Iri:
    """The IRI of an entity, as TrustGraph's ontology extractor makes it: from its name and its class.

    Case, punctuation, and what stands before a slash in the id of the class make no difference.
    """
    local = _BETWEEN_PARTS.sub("-", class_.rpartition("/")[2].lower())
    kind = _HYPHENS.sub("-", _DROPPED_OF_CLASS.sub("", local).strip("-"))
    words = _DROPPED_OF_NAME.sub("", _SPACES.sub("-", name.lower()))
    return Iri(f"{_ENTITIES}/{ontology}/{kind}-{_HYPHENS.sub('-', words.strip('-'))}")


def facts(ontology: Ontology, objects: Iterable[Mapping[str, Any]]) -> list[Statement]:
    """The statements that the objects of an answer make, each once, in their order.

    Each entity gets its class and its label, also if only a relationship or an attribute mentions it. An
    object in which `Ontology.check` finds an issue makes no statement.
    """
    said = filter(None, map(ontology.read, objects))
    return [*dict.fromkeys(chain.from_iterable(_facts(ontology, each) for each in said))]


def _facts(ontology: Ontology, said: Said) -> Iterator[Statement]:
    subject = typed_entity_iri(said.subject, said.subject_class, ontology.id)
    yield from _entity(ontology, subject, said.subject, said.subject_class)
    if said.object_class:
        object = typed_entity_iri(said.object, said.object_class, ontology.id)
        yield from _entity(ontology, object, said.object, said.object_class)
        yield Statement(subject, ontology.object_properties[said.property].iri, object)
    elif said.property:
        yield Statement(subject, ontology.datatype_properties[said.property].iri, Literal(said.object))


def _entity(ontology: Ontology, iri: Iri, name: str, class_: str) -> Iterator[Statement]:
    yield Statement(iri, TYPE, ontology.classes[class_].iri)
    yield Statement(iri, LABEL, Literal(name))


def used(ontology: Ontology, objects: Iterable[Mapping[str, Any]]) -> Ontology:
    """The part of the ontology that the objects of an answer use."""
    said = [*filter(None, map(ontology.read, objects))]
    classes = {class_ for each in said for class_ in (each.subject_class, each.object_class) if class_}
    return ontology.part(classes, {each.property for each in said if each.property})


def description(ontology: Ontology) -> Iterator[Statement]:
    """The statements that describe an ontology, or a part of one: its classes, then its properties."""
    for each in ontology.classes.values():
        yield from _described(each, _CLASS)
        for parent in each.parents:
            yield Statement(each.iri, _SUBCLASS_OF, ontology.classes[parent].iri)
    for relation in ontology.object_properties.values():
        yield from _described(relation, _OBJECT_PROPERTY)
        yield from _domain(ontology, relation)
        if len(relation.range) == 1:
            yield Statement(relation.iri, _RANGE, ontology.classes[relation.range[0]].iri)
    for attribute in ontology.datatype_properties.values():
        yield from _described(attribute, _DATATYPE_PROPERTY)
        yield from _domain(ontology, attribute)
        if len(attribute.range) == 1 and (datatype := _expanded(attribute.range[0])):
            yield Statement(attribute.iri, _RANGE, datatype)


def _described(element: OntologyClass | Property, type_: Iri) -> Iterator[Statement]:
    yield Statement(element.iri, TYPE, type_)
    if element.labels:
        yield Statement(element.iri, LABEL, Literal(element.labels[0]))
    if element.comment:
        yield Statement(element.iri, _COMMENT, Literal(element.comment))


def _domain(ontology: Ontology, property: Property) -> Iterator[Statement]:
    if len(property.domain) == 1:  # in RDF several domains hold together, here any one of them is enough
        yield Statement(property.iri, _DOMAIN, ontology.classes[property.domain[0]].iri)


def _expanded(name: str) -> Iri | None:
    """The IRI that a name such as `xsd:string` stands for; None if its prefix is unknown."""
    prefix, colon, local = name.partition(":")
    if colon and prefix in _PREFIXES:
        return Iri(_PREFIXES[prefix] + local)
    return Iri(name) if "://" in name or prefix == "urn" else None


def contexts(statements: Iterable[Statement]) -> list[Context]:
    """A text for each subject that has a label or a definition: its first label, and its definitions."""
    labels: dict[Iri, str] = {}
    texts: dict[Iri, list[str]] = {}
    for subject, predicate, object, _ in statements:
        if isinstance(object, Literal):
            if predicate == LABEL:
                texts.setdefault(subject, [])
                labels.setdefault(subject, object.value)
            elif predicate in _DEFINITIONS:
                texts.setdefault(subject, []).append(object.value)
    return [
        Context(subject, ". ".join(([f"Label: {labels[subject]}"] if subject in labels else []) + found))
        for subject, found in texts.items()
    ]
