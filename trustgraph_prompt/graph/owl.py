"""Reads ontologies of OWL, RDF Schema or schema.org in the formats of RDF."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.parsers.expat import ExpatError

from trustgraph_prompt.config_files import MAX_ERRORS
from trustgraph_prompt.errors import ConfigError, excerpt, raise_first, suggestion
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.ontology import MOST_COMPARED
from trustgraph_prompt.graph.ontology_config import MAX_ALTERNATIVES
from trustgraph_prompt.graph.rdf_limits import MAX_CHARACTERS, check_text
from trustgraph_prompt.graph.statements import Iri

if TYPE_CHECKING:
    import pyoxigraph as rdf

FORMATS: Final = {
    ".ttl": ("TURTLE", "Turtle"),
    ".rdf": ("RDF_XML", "RDF/XML"),
    ".owl": ("RDF_XML", "RDF/XML"),
    ".jsonld": ("JSON_LD", "JSON-LD with its @context in the file"),
    ".nt": ("N_TRIPLES", "N-Triples"),
}
"""The formats by the extension of a file: pyoxigraph's name, and ours."""

_PLACE = re.compile(r"Parser error .*?\d: ")
_LOCAL_NAME = re.compile(r"(?<![^/#:])[^/#:]++(?=[/#]?\Z)")
_RELATIONS = (v.OBJECT_PROPERTY, v.OWL + "SymmetricProperty", v.OWL + "TransitiveProperty")
_DATATYPES = (v.XSD, v.RDF, v.RDFS + "Literal")
_CLASSES = (v.CLASS, v.RDFS + "Class")
_PROPERTY, _DATATYPE = v.RDF + "Property", v.RDFS + "Datatype"

_IMPORTS, _INVERSE_OF, _DISJOINT_WITH, _UNION_OF = (
    f"{v.OWL}{word}" for word in ("imports", "inverseOf", "disjointWith", "unionOf")
)
_SAME: Final = {
    f"{scheme}://schema.org/{word}": term
    for scheme in ("http", "https")
    for word, term in (
        *(("domainIncludes", v.DOMAIN), ("rangeIncludes", v.RANGE)),
        *(("inverseOf", _INVERSE_OF), ("DataType", _DATATYPE)),
    )
}
"""Terms of schema.org, and what means the same here, where of several domains any one will do."""

_LABELS = (v.LABEL, *(f"{v.PREFIXES['skos']}{word}" for word in ("prefLabel", "altLabel")))
_TEXTS: Final = frozenset({*_LABELS, v.COMMENT, v.DEFINITION})
_NODES: Final = frozenset(
    {
        *(v.SUBCLASS_OF, v.DOMAIN, v.RANGE, _INVERSE_OF, _DISJOINT_WITH, _UNION_OF, _IMPORTS),
        *(v.RDF + "first", v.RDF + "rest"),
    }
)
_TYPES: Final = frozenset({*_CLASSES, *_RELATIONS, v.DATATYPE_PROPERTY, _PROPERTY, _DATATYPE})

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

_NAMESPACES: Final = tuple(v.PREFIXES[prefix] for prefix in _WORDS)

_Statement = tuple[str, str, str | dict[str, str]]
"""Subject, predicate, and a node or a text."""

Iris = dict[str, None]
"""IRIs, each once and in the order of the file."""


def read_owl(path: Path, text: str) -> tuple[dict[str, Any], list[str]]:
    """The ontology in the text of a file, in TrustGraph's format, and warnings. It needs the extra `graph`.

    Its classes and properties get their local names as ids. What OWL says beyond subclasses, domains, ranges
    and inverses is ignored. Raises `ConfigError`.
    """
    file = _File(_statements(text, path), str(path))
    return file.ontology(), file.warnings


def _statements(text: str, path: Path) -> Iterator[_Statement]:
    """The statements of a file, without triple terms. Raises `ConfigError`."""
    where = str(path)
    try:
        import pyoxigraph as rdf
    except ModuleNotFoundError:
        message = "this format needs the extra `graph`: pip install 'trustgraph-prompt[graph]'"
        raise ConfigError(message, where=where) from None
    kind, format = FORMATS[path.suffix]
    characters = 0
    try:
        check_text(text, kind, where)
        base = Iri.of(f"https://trustgraph.ai/ontology/{path.stem}")  # of relative IRIs
        for subject, predicate, object, _ in rdf.parse(text, getattr(rdf.RdfFormat, kind), base_iri=base):
            characters += len(f"{subject} {predicate} {object}")
            if characters > MAX_CHARACTERS:
                expected = f"at most {MAX_CHARACTERS:,} characters, with all IRIs in full"
                raise ConfigError("the ontology is too large", where=where, expected=expected)
            relation = _SAME.get(predicate.value, predicate.value)
            if isinstance(object, rdf.Literal):
                said = {"value": object.value.strip(), "lang": object.language or ""}
                yield _name(subject), relation, said
            elif not isinstance(object, rdf.Triple):
                yield _name(subject), relation, _SAME.get(name := _name(object), name)
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
        terms: Iris = {}
        for subject, predicate, object in statements:
            if predicate.startswith(_NAMESPACES):
                terms[predicate] = None
            if isinstance(object, dict):
                if predicate in _TEXTS and object["value"]:
                    self._texts[subject, predicate].append(object)
                continue
            if object.startswith(_NAMESPACES):
                terms[object] = None
            if predicate in _NODES:
                self._nodes[subject, predicate].append(object)
            elif predicate == v.TYPE and object in _TYPES and not subject.startswith("_:"):
                self._typed[object][subject] = None
        raise_first(islice(filter(None, (_misspelt(each, where) for each in terms)), MAX_ERRORS))
        imports = (ends for (_, predicate), ends in self._nodes.items() if predicate == _IMPORTS)
        for each in chain.from_iterable(imports):
            self.warnings.append(f"{where}: {excerpt(each)} is not imported: give its file, too")
        self._datatypes = {*self._typed[_DATATYPE]}
        for iri in chain(*map(self._typed.__getitem__, _CLASSES)):
            if not self._datatypes.isdisjoint(self._ends(iri, v.SUBCLASS_OF)):
                self._datatypes.add(iri)

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
        for iri in self._typed[_PROPERTY]:
            if iri not in relations and iri not in attributes:
                ranges = self._ends(iri, v.RANGE)
                has_values = ranges and all(map(self._is_datatype, ranges))
                (attributes if has_values else relations)[iri] = None
        return relations, attributes

    def _classes(self, relations: Iris, attributes: Iris) -> Iris:
        """The classes that the file declares, then those that are only a superclass, domain or range."""
        typed = chain(*map(self._typed.__getitem__, _CLASSES))
        declared = dict.fromkeys(iri for iri in typed if not self._is_datatype(iri))
        above = [end for iri in declared for end in self._ends(iri, v.SUBCLASS_OF)]
        ends = [end for iri in (*relations, *attributes) for end in self._ends(iri, v.DOMAIN)]
        ends += [end for iri in relations for end in self._ends(iri, v.RANGE)]
        undeclared = _undeclared(dict.fromkeys(ends), declared, frozenset(above), self._where)
        self.warnings += islice(undeclared, MAX_ERRORS)
        named = (iri for iri in (*above, *ends) if not iri.startswith((v.OWL, v.RDF, v.RDFS, v.XSD)))
        return declared | dict.fromkeys(iri for iri in named if not self._is_datatype(iri))

    def _is_datatype(self, iri: str) -> bool:
        return iri.startswith(_DATATYPES) or iri in self._datatypes

    def _entry(self, iri: str, ids: Mapping[str, str], *predicates: str) -> dict[str, Any]:
        comments = self._english(iri, v.COMMENT) or self._english(iri, v.DEFINITION)
        labels = [label for predicate in _LABELS for label in self._english(iri, predicate)]
        ends: dict[str, Any] = {
            f"rdfs:{predicate.removeprefix(v.RDFS)}": self._names(self._ends(iri, predicate), ids)
            for predicate in predicates
        }
        inverses = self._nodes.get((iri, _INVERSE_OF), ())
        inverse = next((ids.get(each, _local(each)) for each in inverses if not each.startswith("_:")), None)
        if inverse is not None:
            ends["owl:inverseOf"] = inverse
        if disjoint := [ids[each] for each in self._nodes.get((iri, _DISJOINT_WITH), ()) if each in ids]:
            ends["owl:disjointWith"] = disjoint
        return {"uri": iri, "rdfs:label": labels[:MAX_ALTERNATIVES], "rdfs:comment": comments[:1], **ends}

    def _names(self, ends: Sequence[str], ids: Mapping[str, str]) -> list[str]:
        """The ids of classes; only where there is none, the names of datatypes."""
        classes = [each for each in ends if not self._is_datatype(each)]
        names = {each: each.replace(v.XSD, "xsd:").replace(v.RDFS, "rdfs:") for each in classes or ends}
        return [ids.get(each, name) for each, name in names.items()]

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
