"""Reads an ontology from a value of TrustGraph's config type `ontology`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import orjson

from trustgraph_prompt.errors import ConfigError, raise_first
from trustgraph_prompt.graph.ontology import Ontology, OntologyClass, Property
from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.json_text.pointer import pointer

MAX_LENGTH = 4 * 1024 * 1024
"""Characters of the JSON text of an ontology."""

MAX_ELEMENTS = 20_000
"""Classes and properties of an ontology."""

MAX_SUPERCLASSES = 200
"""Superclasses of a class, direct or not."""

_ANYTHING = frozenset(
    (
        *("owl:Thing", "http://www.w3.org/2002/07/owl#Thing"),
        *("rdfs:Resource", "http://www.w3.org/2000/01/rdf-schema#Resource"),
    )
)
_MOST_ERRORS = 100

# Keys of a template's term, the JSON keys that they come from, and their values if those are missing.
_OF_ANY: dict[str, tuple[str, object]] = {"uri": ("uri", ""), "labels": ("rdfs:label", [])}
_OF_CLASS = _OF_ANY | {
    "type": ("type", "owl:Class"),
    "equivalent_classes": ("owl:equivalentClass", []),
    "disjoint_with": ("owl:disjointWith", []),
    "identifier": ("dcterms:identifier", None),
}
_OF_PROPERTY = _OF_ANY | {
    "type": ("type", ""),
    "inverse_of": ("owl:inverseOf", None),
    "functional": ("owl:functionalProperty", False),
    "inverse_functional": ("owl:inverseFunctionalProperty", False),
    "min_cardinality": ("owl:minCardinality", None),
    "max_cardinality": ("owl:maxCardinality", None),
    "cardinality": ("owl:cardinality", None),
}

_Element = TypeVar("_Element")


def read_ontology(id: str, text: str | bytes) -> Ontology:
    """Read the ontology with the key `id`; unknown keys are ignored.

    Where TrustGraph has one class, a list of classes may stand. Classes are named by their ids or IRIs.
    Raises `ConfigError` with a JSON Pointer; its `others` are further errors.
    """
    try:
        return _Reader(id, _document(text)).read()
    except ConfigError as error:
        located = error.at(f"ontology {id!r}")
        located.others = tuple(other.at(f"ontology {id!r}") for other in error.others)
        raise located from None


def _document(text: str | bytes) -> dict[str, Any]:
    if len(text) > MAX_LENGTH:
        raise ConfigError("too long", found=len(text), expected=f"at most {MAX_LENGTH:,} characters")
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise ConfigError(f"not JSON: {cause}") from None
    if not isinstance(document, dict):
        raise ConfigError("not an ontology", found=document, expected="an object with the key `classes`")
    return document


class _Reader:
    def __init__(self, id: str, document: dict[str, Any]) -> None:
        self._id = id
        names = ("classes", "objectProperties", "datatypeProperties")
        self._sections = {name: _section(document, name) for name in names}
        if (found := sum(map(len, self._sections.values()))) > MAX_ELEMENTS:
            expected = f"at most {MAX_ELEMENTS:,} classes and properties"
            raise ConfigError("too large", found=found, expected=expected)
        self._ids = {
            **{
                entry["uri"]: id
                for id, entry in self._sections["classes"].items()
                if isinstance(entry, dict) and isinstance(entry.get("uri"), str)
            },
            **{id: id for id in self._sections["classes"]},
        }
        self._errors: list[ConfigError] = []
        self._warnings: list[str] = []

    def read(self) -> Ontology:
        classes = self._all("classes", self._class)
        relations = self._all("objectProperties", self._object_property)
        attributes = self._all("datatypeProperties", self._datatype_property)
        raise_first(self._errors)
        superclasses = _superclasses(classes)
        self._warnings += (
            f"{pointer(('classes', id))}: the class is a superclass of itself"
            for id, above in superclasses.items()
            if id in above
        )
        return Ontology(self._id, classes, relations, attributes, superclasses, tuple(self._warnings))

    def _all(self, section: str, read: Callable[[str, Any, str], _Element]) -> dict[str, _Element]:
        found = {}
        for id, entry in self._sections[section].items():
            path = pointer((section, id))
            try:
                if not isinstance(entry, dict):
                    raise ConfigError("not a definition", path=path, found=entry, expected="an object")
                found[id] = read(id, entry, path)
            except ConfigError as error:
                if len(self._errors) < _MOST_ERRORS:
                    self._errors.append(error)
        return found

    def _class(self, id: str, entry: dict[str, Any], path: str) -> OntologyClass:
        parents = _names(entry, "rdfs:subClassOf", path)
        term = _term(entry, _OF_CLASS, path) | {"subclass_of": " and ".join(parents) or None}
        return OntologyClass(
            *self._named(id, entry, path), self._known(parents, path, "rdfs:subClassOf"), term
        )

    def _object_property(self, id: str, entry: dict[str, Any], path: str) -> Property:
        ends = [_names(entry, key, path) for key in ("rdfs:domain", "rdfs:range")]
        domain = self._constraint(ends[0], path, "rdfs:domain")
        range = self._constraint(ends[1], path, "rdfs:range")
        return Property(*self._named(id, entry, path), domain, range, _property_term(entry, path, *ends))

    def _datatype_property(self, id: str, entry: dict[str, Any], path: str) -> Property:
        ends = [_names(entry, key, path) for key in ("rdfs:domain", "rdfs:range")]
        domain = self._constraint(ends[0], path, "rdfs:domain")
        return Property(*self._named(id, entry, path), domain, ends[1], _property_term(entry, path, *ends))

    def _named(self, id: str, entry: dict[str, Any], path: str) -> tuple[str, Iri, tuple[str, ...], str]:
        uri = entry.get("uri") or f"https://trustgraph.ai/ontology/{self._id}#{id}"
        if not isinstance(uri, str):
            raise ConfigError("invalid IRI", path=f"{path}/uri", found=uri, expected="a string")
        comments = _texts(entry, "rdfs:comment", path)
        return id, Iri(uri), _texts(entry, "rdfs:label", path), comments[0] if comments else ""

    def _constraint(self, names: tuple[str, ...], path: str, key: str) -> tuple[str, ...]:
        """The classes of a domain or a range; () if it cannot be checked, as one of them is not there."""
        known = self._known(names, path, key)
        return known if len(known) == len(names) else ()

    def _known(self, names: tuple[str, ...], path: str, key: str) -> tuple[str, ...]:
        self._warnings += (
            f"{path}{pointer((key,))}: the ontology has no class {name!r}; it is ignored"
            for name in names
            if name not in self._ids and name not in _ANYTHING
        )
        return tuple(self._ids[name] for name in names if name in self._ids)


def _section(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name) or {}
    if not isinstance(found, dict):
        raise ConfigError(
            "not a section", path=pointer((name,)), found=found, expected="an object with definitions by id"
        )
    return found


def _term(entry: dict[str, Any], keys: Mapping[str, tuple[str, object]], path: str) -> dict[str, object]:
    found = {name: entry.get(key, default) for name, (key, default) in keys.items()}
    if not isinstance(found["labels"], list):
        found["labels"] = [found["labels"]] if found["labels"] else []
    comments = _texts(entry, "rdfs:comment", path)
    return found | {"comment": comments[0] if comments else None}


def _property_term(
    entry: dict[str, Any], path: str, domain: Collection[str], range: Collection[str]
) -> dict[str, object]:
    ends = {"domain": " or ".join(domain) or None, "range": " or ".join(range) or None}
    return _term(entry, _OF_PROPERTY, path) | ends


def _texts(entry: dict[str, Any], key: str, path: str) -> tuple[str, ...]:
    """The texts of a label or comment: one or a list, each a string or an object with its `value`."""
    texts = tuple(text.get("value") if isinstance(text, dict) else text for text in _listed(entry, key))
    for text in texts:
        if not isinstance(text, str):
            expected = "a string, or an object with the key `value`"
            raise ConfigError("not a text", path=path + pointer((key,)), found=text, expected=expected)
    return tuple(filter(None, texts))


def _names(entry: dict[str, Any], key: str, path: str) -> tuple[str, ...]:
    names = tuple(_listed(entry, key))
    for name in names:
        if not isinstance(name, str):
            expected = "the id of a class, or a list of them"
            raise ConfigError("not a reference", path=path + pointer((key,)), found=name, expected=expected)
    return tuple(dict.fromkeys(names))


def _listed(entry: dict[str, Any], key: str) -> Iterator[Any]:
    found = entry.get(key)
    if found is not None and found != "":
        yield from found if isinstance(found, list) else [found]


def _superclasses(classes: Mapping[str, OntologyClass]) -> dict[str, frozenset[str]]:
    """All superclasses of each class. Raises `ConfigError` if a class has too many."""
    found: dict[str, frozenset[str]] = {}
    for id in classes:
        above: set[str] = set()
        rest = [*classes[id].parents]
        while rest and len(above) <= MAX_SUPERCLASSES:
            parent = rest.pop()
            if parent in above:
                continue
            above.add(parent)
            if parent in found:
                above |= found[parent]
            else:
                rest += classes[parent].parents
        if len(above) > MAX_SUPERCLASSES:
            raise ConfigError(
                "too many superclasses",
                path=pointer(("classes", id)),
                expected=f"at most {MAX_SUPERCLASSES}, direct or not",
            )
        found[id] = frozenset(above)
    return found
