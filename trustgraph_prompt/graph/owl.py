"""Parses the file of an ontology: OWL or RDF Schema in several formats, or TrustGraph's JSON."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import chain, islice
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.parsers.expat import ExpatError

from trustgraph_prompt.config_files import MAX_ERRORS
from trustgraph_prompt.errors import ConfigError, excerpt, raise_first, suggestion
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.ontology import MOST_COMPARED, Ontology
from trustgraph_prompt.graph.ontology_config import MAX_ALTERNATIVES, make_ontology, read_ontology
from trustgraph_prompt.graph.rdf_limits import MAX_CHARACTERS, check_text
from trustgraph_prompt.graph.statements import Iri

if TYPE_CHECKING:
    import pyoxigraph as rdf

_FORMATS: Final = {
    ".ttl": ("TURTLE", "Turtle"),
    ".rdf": ("RDF_XML", "RDF/XML"),
    ".owl": ("RDF_XML", "RDF/XML"),
    ".jsonld": ("JSON_LD", "JSON-LD with its @context in the file"),
    ".nt": ("N_TRIPLES", "N-Triples"),
}
_PLACE = re.compile(r"Parser error .*?\d: ")
_LOCAL_NAME = re.compile(r"(?<![^/#:])[^/#:]++(?=[/#]?\Z)")
_RELATIONS = (v.OBJECT_PROPERTY, v.OWL + "SymmetricProperty", v.OWL + "TransitiveProperty")
_DATATYPES = (v.XSD, v.RDF, v.RDFS + "Literal")

_WORDS: Final = {
    "owl": "AllDifferent AllDisjointClasses AllDisjointProperties Annotation AnnotationProperty "
    "AsymmetricProperty Axiom Class DataRange DatatypeProperty DeprecatedClass DeprecatedProperty "
    "FunctionalProperty InverseFunctionalProperty IrreflexiveProperty NamedIndividual "
    "NegativePropertyAssertion Nothing ObjectProperty Ontology OntologyProperty ReflexiveProperty "
    "Restriction SymmetricProperty Thing TransitiveProperty allValuesFrom annotatedProperty annotatedSource "
    "annotatedTarget assertionProperty backwardCompatibleWith bottomDataProperty bottomObjectProperty "
    "cardinality complementOf datatypeComplementOf deprecated differentFrom disjointUnionOf disjointWith "
    "distinctMembers equivalentClass equivalentProperty hasKey hasSelf hasValue imports incompatibleWith "
    "intersectionOf inverseOf maxCardinality maxQualifiedCardinality members minCardinality "
    "minQualifiedCardinality onClass onDataRange onDatatype onProperties onProperty oneOf priorVersion "
    "propertyChainAxiom propertyDisjointWith qualifiedCardinality rational real sameAs someValuesFrom "
    "sourceIndividual targetIndividual targetValue topDataProperty topObjectProperty unionOf versionIRI "
    "versionInfo withRestrictions",
    "rdfs": "Class Container ContainerMembershipProperty Datatype Literal Resource comment domain "
    "isDefinedBy label member range seeAlso subClassOf subPropertyOf",
    "rdf": "Alt Bag CompoundLiteral HTML JSON List PlainLiteral Property Seq Statement XMLLiteral "
    "dirLangString direction first langString language nil object predicate reifies rest subject type value",
}
_TERMS: Final = frozenset(f"{prefix}:{word}" for prefix, words in _WORDS.items() for word in words.split())
"""All terms of OWL 1 and 2, RDF Schema and RDF, but for `rdf:_1` and so on."""

_Statement = tuple[str, str, str | dict[str, str]]
"""Subject, predicate, and a node or a text."""

Iris = dict[str, None]
"""IRIs, each once and in the order of the file."""


def parse_ontology(path: Path, text: str) -> Ontology:
    """Parse the ontology in the text of a file; its id is the name of the file without the extension.

    A `.json` file is in TrustGraph's format. The others need the extra `graph`: their classes and properties
    get their local names as ids, and what OWL says beyond subclasses, domains and ranges is ignored. Raises
    `ConfigError`.
    """
    where = str(path)
    if path.suffix == ".json":
        return read_ontology(path.stem, text, where)
    if path.suffix not in _FORMATS:
        expected = f"one of .json, {', '.join(_FORMATS)}"
        raise ConfigError("unknown format of an ontology", where=where, found=path.name, expected=expected)
    file = _File(_statements(text, path), where)
    ontology = make_ontology(path.stem, file.ontology(), where)
    return replace(ontology, warnings=(*file.warnings, *ontology.warnings))


def _statements(text: str, path: Path) -> Iterator[_Statement]:
    """The statements of a file, without triple terms. Raises `ConfigError`."""
    where = str(path)
    try:
        import pyoxigraph as rdf
    except ModuleNotFoundError:
        message = "this format needs the extra `graph`: pip install 'trustgraph-prompt[graph]'"
        raise ConfigError(message, where=where) from None
    name, format = _FORMATS[path.suffix]
    characters = 0
    try:
        check_text(text, name, where)
        base = Iri.of(f"https://trustgraph.ai/ontology/{path.stem}")  # of relative IRIs
        for subject, predicate, object, _ in rdf.parse(text, getattr(rdf.RdfFormat, name), base_iri=base):
            characters += len(f"{subject} {predicate} {object}")
            if characters > MAX_CHARACTERS:
                expected = f"at most {MAX_CHARACTERS:,} characters, with all IRIs in full"
                raise ConfigError("the ontology is too large", where=where, expected=expected)
            if isinstance(object, rdf.Literal):
                yield _name(subject), predicate.value, {"value": object.value, "lang": object.language or ""}
            elif not isinstance(object, rdf.Triple):
                yield _name(subject), predicate.value, _name(object)
    except (SyntaxError, ExpatError, JSONDecodeError) as cause:
        line = f":{cause.lineno}" if cause.lineno else ""
        message = _PLACE.sub("", getattr(cause, "msg", str(cause)))
        raise ConfigError(f"not {format}: {message}", where=where + line) from None


def _name(node: rdf.NamedNode | rdf.BlankNode) -> str:
    """The IRI of a node, or the id of a blank node, which begins with `_:`."""
    written = str(node)
    return written if written.startswith("_:") else node.value


class _File:
    """What a file says of its subjects: their texts, and the nodes that they are joined with."""

    def __init__(self, statements: Iterable[_Statement], where: str) -> None:
        self.warnings: list[str] = []
        self._where = where
        self._texts: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
        self._nodes: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._typed: dict[str, Iris] = defaultdict(dict)
        for subject, predicate, object in statements:
            if isinstance(object, dict):
                self._texts[subject, predicate].append(object)
                continue
            self._nodes[subject, predicate].append(object)
            if predicate == v.TYPE and not subject.startswith("_:"):
                self._typed[object][subject] = None
        predicates = [predicate for _, predicate in (*self._nodes, *self._texts)]
        terms = dict.fromkeys([*predicates, *chain.from_iterable(self._nodes.values())])
        raise_first(islice(filter(None, (_misspelt(each, where) for each in terms)), MAX_ERRORS))

    def ontology(self) -> dict[str, Any]:
        """The ontology in TrustGraph's format. Raises `ConfigError`."""
        relations, attributes = self._properties()
        classes = self._classes(relations, attributes)
        if not classes:
            raise ConfigError("the file has no class", where=self._where, expected="owl:Class or rdfs:Class")
        ids = _ids([*classes, *relations, *attributes])
        return {
            "classes": {ids[iri]: self._entry(iri, ids, v.SUBCLASS_OF) for iri in classes},
            "objectProperties": {ids[iri]: self._entry(iri, ids, v.DOMAIN, v.RANGE) for iri in relations},
            "datatypeProperties": {ids[iri]: self._entry(iri, ids, v.DOMAIN, v.RANGE) for iri in attributes},
        }

    def _properties(self) -> tuple[Iris, Iris]:
        """The relations and the attributes. What is only called a property is what its range makes it."""
        relations = dict.fromkeys(iri for kind in _RELATIONS for iri in self._typed[kind])
        attributes = dict.fromkeys(iri for iri in self._typed[v.DATATYPE_PROPERTY] if iri not in relations)
        for iri in self._typed[v.RDF + "Property"]:
            if iri not in relations and iri not in attributes:
                has_values = any(end.startswith(_DATATYPES) for end in self._ends(iri, v.RANGE))
                (attributes if has_values else relations)[iri] = None
        return relations, attributes

    def _classes(self, relations: Iris, attributes: Iris) -> Iris:
        """The classes that the file declares, then those that are only a superclass, domain or range."""
        declared = {**self._typed[v.CLASS], **self._typed[v.RDFS + "Class"]}
        above = [end for iri in declared for end in self._ends(iri, v.SUBCLASS_OF)]
        ends = [end for iri in (*relations, *attributes) for end in self._ends(iri, v.DOMAIN)]
        ends += [end for iri in relations for end in self._ends(iri, v.RANGE)]
        undeclared = _undeclared(dict.fromkeys(ends), declared, frozenset(above), self._where)
        self.warnings += islice(undeclared, MAX_ERRORS)
        named = (iri for iri in (*above, *ends) if not iri.startswith((v.OWL, v.RDF, v.RDFS, v.XSD)))
        return declared | dict.fromkeys(named)

    def _entry(self, iri: str, ids: Mapping[str, str], *predicates: str) -> dict[str, Any]:
        comments = self._english(iri, v.COMMENT) or self._english(iri, v.DEFINITION)
        ends = {
            f"rdfs:{predicate.removeprefix(v.RDFS)}": [
                ids.get(end, end.replace(v.XSD, "xsd:").replace(v.RDFS, "rdfs:"))
                for end in self._ends(iri, predicate)
            ]
            for predicate in predicates
        }
        labels = self._english(iri, v.LABEL)
        return {"uri": iri, "rdfs:label": labels, "rdfs:comment": comments[:1], **ends}

    def _english(self, iri: str, predicate: str) -> list[dict[str, str]]:
        """The texts in all languages, those in English or in none first."""
        texts = self._texts.get((iri, predicate), [])
        return sorted(texts, key=lambda text: text["lang"].partition("-")[0] not in ("", "en"))

    def _ends(self, iri: str, predicate: str) -> list[str]:
        """The classes that are superclasses, the domain or the range. Those of a union are alternatives."""
        ends: list[str] = []
        for node in self._nodes.get((iri, predicate), ()):
            if not node.startswith("_:"):
                ends.append(node)
            elif predicate != v.SUBCLASS_OF and (union := self._nodes.get((node, v.OWL + "unionOf"))):
                members = self._list(union[0])
                ends += [] if any(each.startswith("_:") for each in members) else members
        return ends

    def _list(self, node: str) -> list[str]:
        members: list[str] = []
        while node != v.RDF + "nil":
            rest = self._nodes.get((node, v.RDF + "rest"))
            if not rest or len(members) >= MAX_ALTERNATIVES:
                expected = f"a list of at most {MAX_ALTERNATIVES} classes that ends"
                raise ConfigError("invalid union of classes", where=self._where, expected=expected)
            members += self._nodes.get((node, v.RDF + "first"), ["_:"])[:1]
            node = rest[0]
        return members


def _misspelt(iri: str, where: str) -> ConfigError | None:
    """The error of an IRI that is in a namespace of `_TERMS`, and none of them."""
    prefix = next((prefix for prefix in _WORDS if iri.startswith(v.PREFIXES[prefix])), None)
    local = iri.removeprefix(v.PREFIXES[prefix]) if prefix else ""
    if not local or f"{prefix}:{local}" in _TERMS or (prefix == "rdf" and re.fullmatch(r"_\d+", local)):
        return None
    name = excerpt(f"{prefix}:{local}")
    return ConfigError(f"there is no {name}{suggestion(name, _TERMS)}", where=where)


def _undeclared(ends: Iterable[str], classes: Iterable[str], above: Set[str], where: str) -> Iterator[str]:
    """A warning for each domain or range that is no class of the file, though others of its namespace are."""
    local_names = {iri: _local(iri) for iri in classes}
    own = {iri.removesuffix(local) for iri, local in local_names.items()}
    for iri in ends:
        if iri not in local_names and iri not in above and iri.removesuffix(local := _local(iri)) in own:
            near = suggestion(local, islice(local_names.values(), MOST_COMPARED))
            what = f"{excerpt(iri)} is a domain or a range"
            yield f"{where}: {what}, but the file does not say that it is a class{near}"


def _local(iri: str) -> str:
    found = _LOCAL_NAME.search(iri)
    return found[0] if found else ""


def _ids(iris: Iterable[str]) -> dict[str, str]:
    """An id for each IRI: its local name, or the IRI itself if another one has that name."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for iri in iris:
        local = _local(iri)
        ids[iri] = local if local and local not in taken else iri
        taken.add(ids[iri])
    return ids
