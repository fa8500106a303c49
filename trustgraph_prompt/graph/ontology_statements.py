"""Makes the graph of an answer in the terms of an ontology."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

from trustgraph_prompt.contract import Grounded
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.mapping import Evidence, Graph, evidence_of, quoted
from trustgraph_prompt.graph.ontology import Element, Ontology, Said
from trustgraph_prompt.graph.ontology_classes import DerivedClasses, Triple, name_key
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement

_ENTITIES: Final = "https://trustgraph.ai"
_PREFIXES: Final = {"xsd": v.XSD, "rdf": v.RDF, "rdfs": v.RDFS, "owl": v.OWL}

_BETWEEN_PARTS = re.compile(r"[/:.\s_]+")
_DROPPED_OF_CLASS = re.compile(r"[^\w\-]")
_HYPHENS = re.compile(r"-+")


def ontology_graph(
    ontology: Ontology,
    objects: Iterable[Any],
    grounded: Grounded | None = None,
    quotes: Collection[str] = (),
    *,
    derived: bool = False,
) -> Graph:
    """Make the graph of the objects of an answer; `grounded` and `quotes` as for `graph_of`.

    Each entity gets its class, if that is known, and its label, also if only a relationship or an attribute
    mentions it. An object in which `Ontology.check` finds an issue adds nothing; if the classes are `derived`
    from the answer, neither does one whose classes are disjoint, or whose value is not of its datatype.
    `labels` describes the classes and properties that are used.
    """
    graph = Graph()
    classes: set[str] = set()
    properties: set[str] = set()
    pairs = zip(objects, grounded or repeat({}), strict=False)
    known = ((ontology.read(value, derived=derived), found) for value, found in pairs)
    read = [(said, found) for said, found in known if said and (said.property or not derived)]
    may_be = _consistent(ontology, [said for said, _ in read]) if derived else repeat(True)
    for (said, found), is_consistent in zip(read, may_be, strict=False):
        if is_consistent:
            classes.update(filter(None, (said.subject_class, said.object_class)))
            properties.add(said.property)
            of_subject = evidence_of(found, "subject") + evidence_of(found, "entity")
            of_object = evidence_of(found, "object") + evidence_of(found, "value")
            for fact, of_fact in _facts(ontology, said, of_subject, of_object):
                graph.facts[fact] = graph.facts.get(fact) or quoted(of_fact, found, quotes)
    graph.labels = dict.fromkeys(description(ontology.part(classes, properties)), ())
    graph.contexts = dict.fromkeys(_contexts([*graph.facts, *graph.labels]))
    return graph


def _consistent(ontology: Ontology, read: Sequence[Said]) -> Iterator[bool]:
    """For each object, whether it may be true: its classes are not disjoint, its value is of its datatype."""
    triples = [
        Triple(said.subject, _property(ontology, said), said.object, _is_relation(ontology, said))
        for said in read
    ]
    classes = DerivedClasses(ontology, triples)
    for triple in triples:
        names = [triple.subject, triple.object] if triple.is_relation else [triple.subject]
        yield triple.fits_datatype() and not any(classes.of(name).contradicts for name in names)


def _property(ontology: Ontology, said: Said) -> Element:
    return ontology.datatype_properties.get(said.property) or ontology.object_properties[said.property]


def _is_relation(ontology: Ontology, said: Said) -> bool:
    """Whether an object joins two entities; a relation without a range may have a value instead."""
    relation = ontology.object_properties.get(said.property)
    return bool(said.object_class) or (relation is not None and relation.has_range)


def _facts(
    ontology: Ontology, said: Said, of_subject: Evidence, of_object: Evidence
) -> Iterator[tuple[Statement, Evidence]]:
    subject = typed_entity_iri(said.subject, said.subject_class, ontology.id)
    yield from _entity(ontology, subject, said.subject, said.subject_class, of_subject)
    if _is_relation(ontology, said):
        object = typed_entity_iri(said.object, said.object_class, ontology.id)
        yield from _entity(ontology, object, said.object, said.object_class, of_object)
        relation = ontology.object_properties[said.property].iri
        yield Statement(subject, relation, object), of_subject + of_object
    elif said.property:
        attribute = _property(ontology, said).iri
        yield Statement(subject, attribute, Literal(said.object)), of_subject + of_object


def _entity(
    ontology: Ontology, iri: Iri, name: str, class_: str, evidence: Evidence
) -> Iterator[tuple[Statement, Evidence]]:
    if class_:
        yield Statement(iri, v.TYPE, ontology.classes[class_].iri), evidence
    yield Statement(iri, v.LABEL, Literal(name)), evidence


def typed_entity_iri(name: str, class_: str, ontology: str) -> Iri:
    """The IRI of an entity, as TrustGraph's ontology extractor makes it: from its name and its class.

    Case, punctuation, and what stands before a slash in the id of the class make no difference. Without a
    class, which TrustGraph always has, `unknown/` stands in its place, and no class has that IRI.
    """
    if not class_:
        return Iri.of(f"{_ENTITIES}/{ontology}/unknown/{name_key(name)}")
    local = _BETWEEN_PARTS.sub("-", class_.rpartition("/")[2].lower())
    kind = _HYPHENS.sub("-", _DROPPED_OF_CLASS.sub("", local).strip("-"))
    return Iri.of(f"{_ENTITIES}/{ontology}/{kind}-{name_key(name)}")


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
