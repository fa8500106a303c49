"""Reads ontologies from values of TrustGraph's config type `ontology`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from trustgraph_prompt.config_files import MAX_FILE_BYTES, check
from trustgraph_prompt.errors import ConfigError, excerpt, suggestion
from trustgraph_prompt.graph.ontology import (
    ENTRY_KEYS,
    MAX_SUPERCLASSES,
    MOST_COMPARED,
    Element,
    Elements,
    Ontology,
    listed,
    superclasses,
)
from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.graph.vocabulary import OWL, RDFS
from trustgraph_prompt.json_text.pointer import pointer

MAX_ELEMENTS: Final = 100_000
"""Classes and properties of an ontology."""

MAX_ALTERNATIVES: Final = 500
"""Classes of a domain or a range, labels of a class, and the like."""

_ANYTHING = {"owl:Thing", f"{OWL}Thing", "rdfs:Resource", f"{RDFS}Resource"}
_OTHERS = ("owl:inverseOf", "owl:disjointWith")  # keys whose values are ids
_SECTIONS = ("classes", "objectProperties", "datatypeProperties")

_TERMS = ("classes", "object_properties", "datatype_properties")
_KEYS_OF_TERMS = {
    "uri": "uri",
    "labels": "rdfs:label",
    "comment": "rdfs:comment",
    "subclass_of": "rdfs:subClassOf",
    "domain": "rdfs:domain",
    "range": "rdfs:range",
    "inverse_of": "owl:inverseOf",
    "disjoint_with": "owl:disjointWith",
}

_STRING = {"description": "a string", "type": ["string", "null"]}
_TEXT = {"anyOf": [_STRING, {"type": "object", "required": ["value"], "properties": {"value": _STRING}}]}
_LIST = {"description": "a list of them", "type": "array", "maxItems": MAX_ALTERNATIVES}
_TEXTS = {"anyOf": [*_TEXT["anyOf"], {**_LIST, "items": _TEXT}]}
_NAMES = {"anyOf": [{**_STRING, "description": "the id of a class"}, {**_LIST, "items": {"type": "string"}}]}
_ENTRY = {
    "type": "object",
    "properties": {
        "uri": _STRING,
        **dict.fromkeys(("rdfs:label", "rdfs:comment"), _TEXTS),
        **dict.fromkeys(("rdfs:subClassOf", "rdfs:domain", "rdfs:range"), _NAMES),
    },
}
_SECTION = {"type": ["object", "null"], "additionalProperties": _ENTRY}
_SCHEMA = {"type": "object", "properties": dict.fromkeys(_SECTIONS, _SECTION)}
_OBJECTS = {"type": "object", "additionalProperties": {"type": "object"}}
_SECTIONS_OF_TERMS = {"type": "object", "additionalProperties": _OBJECTS}


def read_ontology(id: str, text: str | bytes, where: str = "", *, limit: int = MAX_FILE_BYTES) -> Ontology:
    """Read the ontology with the key `id`, of at most `limit` characters. Raises as `make_ontology`."""
    where = where or f"ontology {id!r}"
    if len(text) > limit:
        raise ConfigError(f"longer than {limit:,} characters", where=where)
    try:
        return make_ontology(id, orjson.loads(text), where)
    except orjson.JSONDecodeError as cause:
        raise ConfigError(f"not JSON: {cause}", where=where) from None


def make_ontology(id: str, document: Any, where: str) -> Ontology:
    """Make an ontology of a document in TrustGraph's format; unknown keys are ignored.

    Where TrustGraph has one class, a list of classes may stand. Classes are named by their ids or IRIs.
    `where` names the document in errors: `ConfigError` with a JSON Pointer, and further ones as its `others`.
    """
    check(document, _SCHEMA, where)
    sections = {name: document.get(name) or {} for name in _SECTIONS}
    if (found := sum(map(len, sections.values()))) > MAX_ELEMENTS:
        expected = f"at most {MAX_ELEMENTS:,} classes and properties"
        raise ConfigError("too large", where=where, found=found, expected=expected)
    reader = _ElementReader(id, sections["classes"], where)
    classes, relations, attributes = (
        {key: reader.element(name, key, entry) for key, entry in section.items()}
        for name, section in sections.items()
    )
    ontology = Ontology(id, classes, relations, attributes, tuple(reader.warnings))
    for key in classes:
        if len(superclasses(key, classes)) > MAX_SUPERCLASSES:
            path, expected = pointer(("classes", key)), f"at most {MAX_SUPERCLASSES}, direct or not"
            raise ConfigError("too many superclasses", where=where, path=path, expected=expected)
    return ontology


def ontology_of_terms(terms: Mapping[str, Any]) -> Ontology:
    """The ontology in the terms of a question, as `Ontology.terms` has them.

    A class that is only named as a domain, a range or a superclass is one. Raises `ConfigError`.
    """
    sections = {section: terms.get(term) or {} for section, term in zip(_SECTIONS, _TERMS, strict=True)}
    where = "the terms of the ontology"
    check(sections, _SECTIONS_OF_TERMS, where)
    document = {
        section: {id: _entry(term, sections["classes"]) for id, term in elements.items()}
        for section, elements in sections.items()
    }
    relations, attributes = document["objectProperties"].values(), document["datatypeProperties"].values()
    named = [each.get("rdfs:domain") for each in (*relations, *attributes)]
    named += [each.get("rdfs:range") for each in relations]
    named += [each.get("rdfs:subClassOf") for each in document["classes"].values()]
    names = (name for each in named for name in listed(each) if isinstance(name, str))
    document["classes"] = {name: {} for name in names if _is_class(name)} | document["classes"]
    return make_ontology("terms", document, where)


def _is_class(name: str) -> bool:
    return name not in _ANYTHING and not name.startswith("xsd:")


def _entry(term: Mapping[str, Any], classes: Mapping[str, Any]) -> dict[str, Any]:
    """An element in TrustGraph's JSON. Several classes are joined by " and ", or " or "."""
    entry = {key: term[name] for name, key in _KEYS_OF_TERMS.items() if term.get(name) is not None}
    for key, joint in (("rdfs:subClassOf", " and "), ("rdfs:domain", " or "), ("rdfs:range", " or ")):
        if isinstance(named := entry.get(key), str) and named not in classes:
            entry[key] = named.split(joint)
    return entry


def merged(ontologies: Sequence[Ontology]) -> Ontology:
    """Merge ontologies as TrustGraph does: as `merged`, with ids `<ontology>:<id>`. One stays as it is."""
    if len(ontologies) == 1:
        return ontologies[0]
    in_order = sorted(ontologies, key=lambda each: each.id)
    classes, relations, attributes = (
        {each.id: each for ontology in in_order for each in _renamed(getattr(ontology, section), ontology)}
        for section in ("classes", "object_properties", "datatype_properties")
    )
    warnings = tuple(warning for each in ontologies for warning in each.warnings)
    return Ontology("merged", classes, relations, attributes, warnings)


def _renamed(elements: Elements, ontology: Ontology) -> Iterator[Element]:
    known = ontology.classes.keys() | ontology.object_properties.keys()

    def new(ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{ontology.id}:{id}" if id in known else id for id in ids)

    for id, each in elements.items():
        parents, domain, ranges = map(new, (each.parents, each.domain, each.range))
        others = {key: [*new([*map(str, listed(each.entry[key]))])] for key in _OTHERS if key in each.entry}
        entry = {**each.entry, **others}
        new_id = f"{ontology.id}:{id}"
        yield each._replace(id=new_id, parents=parents, domain=domain, range=ranges, entry=entry)


class _ElementReader:
    """Reads the elements of an ontology, and collects warnings."""

    def __init__(self, ontology: str, classes: Mapping[str, Mapping[str, Any]], where: str) -> None:
        self.warnings: list[str] = []
        self._where = where
        self._seen = set(ENTRY_KEYS)
        self._base = f"https://trustgraph.ai/ontology/{ontology}#"
        by_iri = {entry["uri"]: id for id, entry in classes.items() if entry.get("uri")}
        self._ids = {**by_iri, **{id: id for id in classes}}

    def element(self, section: str, id: str, entry: Mapping[str, Any]) -> Element:
        path = f"{self._where} {pointer((section, id))}"
        for key in islice((key for key in entry if key not in self._seen), MOST_COMPARED - len(self._seen)):
            self._seen.add(key)
            if near := suggestion(key, ENTRY_KEYS):
                self.warnings.append(f"{path}: unknown key {excerpt(key)!r}{near} It is ignored")
        keys = ("rdfs:subClassOf", "rdfs:domain", "rdfs:range")
        parents, domain, ranges = (listed(entry.get(key)) for key in keys)
        comments = _texts(entry, "rdfs:comment")
        return Element(
            id,
            Iri.of(entry.get("uri") or self._base + id, self._base),
            labels=_texts(entry, "rdfs:label"),
            comment=comments[0] if comments else "",
            parents=self._known(parents, f"{path}/rdfs:subClassOf"),
            domain=self._constraint(domain, f"{path}/rdfs:domain"),
            range=tuple(ranges)
            if section == "datatypeProperties"
            else self._constraint(ranges, f"{path}/rdfs:range"),
            entry=entry,
        )

    def _constraint(self, names: Sequence[str], path: str) -> tuple[str, ...]:
        """The classes of a domain or a range; () if it cannot be checked, as one of them is not there."""
        known = self._known(names, path)
        return known if self._ids.keys() >= set(names) else ()

    def _known(self, names: Sequence[str], path: str) -> tuple[str, ...]:
        """The ids of classes. Those that are not there are ignored with a warning."""
        self.warnings += (
            f"{path}: the ontology has no class {name!r}; it is ignored"
            for name in names
            if name not in self._ids and name not in _ANYTHING
        )
        return tuple(dict.fromkeys(self._ids[name] for name in names if name in self._ids))


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The texts of a label or comment, each of which is a string or an object with its `value`."""
    texts = (text.get("value") if isinstance(text, dict) else text for text in listed(entry.get(key)))
    return tuple(dict.fromkeys(text.strip() for text in texts if text and not text.isspace()))
