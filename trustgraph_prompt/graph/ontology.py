"""An ontology: the terms that a model may use, and the check that an answer uses them rightly."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, starmap
from typing import Any, Final, NamedTuple

from trustgraph_prompt.errors import ConfigError, Issue, Reason, excerpt, suggestion
from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.json_text.pointer import pointer

MAX_SUPERCLASSES: Final = 200
"""Superclasses of a class, direct or not."""

MOST_COMPARED: Final = 500
"""Ids among which a similar one is sought."""

_MOST_LANGUAGES = 60  # in a message
_MOST_LISTED = 5  # ids in a message
_LONGEST_NAME = 80  # characters of a name in a message

# The keys of an object by its `type`, in the order of the fields of `Said`.
_KEYS = {
    "entity": ("entity", "entity_type"),
    "relationship": ("subject", "subject_type", "relation", "object", "object_type"),
    "attribute": ("entity", "entity_type", "attribute", "value"),
}
# What a template sees: its key, the key of TrustGraph's JSON, and the value if that is missing.
_CLASS_TERM = {
    "type": ("type", "owl:Class"),
    "equivalent_classes": ("owl:equivalentClass", []),
    "disjoint_with": ("owl:disjointWith", []),
    "identifier": ("dcterms:identifier", None),
}
_PROPERTY_TERM = {
    "type": ("type", ""),
    "inverse_of": ("owl:inverseOf", None),
    "functional": ("owl:functionalProperty", False),
    "inverse_functional": ("owl:inverseFunctionalProperty", False),
    "min_cardinality": ("owl:minCardinality", None),
    "max_cardinality": ("owl:maxCardinality", None),
    "cardinality": ("owl:cardinality", None),
}


ENTRY_KEYS: Final = frozenset(
    {
        *("uri", "rdfs:label", "rdfs:comment", "rdfs:subClassOf", "rdfs:domain", "rdfs:range"),
        *(key for key, _ in (*_CLASS_TERM.values(), *_PROPERTY_TERM.values())),
    }
)
"""The keys of an element in TrustGraph's JSON."""

_OF_BOTH = ("uri", "labels", "comment")
_KEYS_OF_TERMS: Final = {
    "classes": (*_OF_BOTH, "subclass_of", *_CLASS_TERM),
    **dict.fromkeys(
        ("object_properties", "datatype_properties"), (*_OF_BOTH, "domain", "range", *_PROPERTY_TERM)
    ),
}
TERMS: Final = frozenset(_KEYS_OF_TERMS)
"""The terms in which a prompt is given an ontology."""

TERMS_SHOWN: Final = TERMS - {"classes"}
"""Those that every prompt in the terms of an ontology shows."""


class Element(NamedTuple):
    """A class, a relation of two entities (object property) or an attribute (datatype property).

    `parents` are the ids of the direct superclasses of a class. If a property has several classes as its
    domain or range, any one of them will do; if it has none, anything. The range of an attribute holds the
    names of datatypes. `entry` is the element in TrustGraph's JSON.
    """

    id: str
    iri: Iri
    labels: tuple[str, ...]
    comment: str
    parents: tuple[str, ...]
    domain: tuple[str, ...]
    range: tuple[str, ...]
    entry: Mapping[str, Any]

    @property
    def has_range(self) -> bool:
        """Whether the ontology says what it leads to, be it anything; `range` has only known classes."""
        return bool(self.entry.get("rdfs:range"))

    @property
    def languages(self) -> Mapping[str, str]:
        """The language of each label that has one: `de` of `de-AT`."""
        tagged = [each for each in listed(self.entry.get("rdfs:label")) if isinstance(each, dict)]
        codes = [(str(each.get("value")).strip(), language_code(each.get("lang"))) for each in tagged]
        return {label: code for label, code in codes if code}

    def in_language(self, code: str) -> Element:
        """The element with its labels in a language first."""
        of = self.languages
        return self._replace(labels=tuple(sorted(self.labels, key=lambda label: of.get(label) != code)))


def language_code(tag: Any) -> str:
    """The language that a tag begins with, in small letters: `de` of `de-AT`; "" if there is none."""
    return str(tag or "").lower().replace("_", "-").partition("-")[0]


def listed(given: Any) -> list[Any]:
    """The values of a key of TrustGraph's JSON that may have one, several or none."""
    return given if isinstance(given, list) else [given] if given else []


Elements = Mapping[str, Element]


class Said(NamedTuple):
    """What an object of an answer says.

    An entity has no `property`. A relationship has an `object` and its class, an attribute only an `object`.
    A class that is not known is "".
    """

    subject: str
    subject_class: str
    property: str = ""
    object: str = ""
    object_class: str = ""


@dataclass(frozen=True)
class Ontology:
    """Classes and properties by their ids, or a part of them.

    `warnings` say what was found odd when it was read; it can be used all the same.
    """

    id: str
    classes: Elements
    object_properties: Elements
    datatype_properties: Elements
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many classes and properties there are."""
        return sum(map(len, self._sections))

    @property
    def _sections(self) -> tuple[Elements, Elements, Elements]:
        return self.classes, self.object_properties, self.datatype_properties

    @cached_property
    def superclasses(self) -> Mapping[str, frozenset[str]]:
        """All superclasses of each class, direct or not: of more than `MAX_SUPERCLASSES`, some."""
        return _Superclasses(self.classes)

    @cached_property
    def disjoint(self) -> Mapping[str, set[str]]:
        """The classes with which a class is declared to be disjoint, in both directions."""
        ids = {**{str(each.iri): id for id, each in self.classes.items()}, **{id: id for id in self.classes}}
        found: dict[str, set[str]] = defaultdict(set)
        for id, each in self.classes.items():
            for other in filter(None, map(ids.get, map(str, listed(each.entry.get("owl:disjointWith"))))):
                found[id].add(other)
                found[other].add(id)
        return found

    @cached_property
    def fingerprint(self) -> str:
        """A hash (sha256, hex) of all that questions say of the ontology and that answers are checked by."""
        elements = chain.from_iterable(section.values() for section in self._sections)
        decides = [(each.id, each.labels, each.has_range) for each in elements]
        return hashlib.sha256(canonical([decides, self.terms])).hexdigest()

    @cached_property
    def terms(self) -> dict[str, dict[str, dict[str, object]]]:
        """The terms of the prompt, with the keys of TrustGraph's own extractor."""
        relations, attributes = self.object_properties, self.datatype_properties
        return {
            "classes": {id: _class_term(each) for id, each in self.classes.items()},
            "object_properties": {id: _property_term(each) for id, each in relations.items()},
            "datatype_properties": {id: _property_term(each) for id, each in attributes.items()},
        }

    def is_a(self, class_: str, expected: Collection[str]) -> bool:
        """Whether a class is one of the expected ones, or a subclass of one; without any, every class is."""
        return not expected or class_ in expected or not self.superclasses[class_].isdisjoint(expected)

    def are_disjoint(self, one: str, other: str) -> bool:
        """Whether the ontology says that nothing is of both classes."""
        above, above_other = (self.superclasses[id] | {id} for id in (one, other))
        return any(not above_other.isdisjoint(self.disjoint.get(id, ())) for id in above)

    def are_apart(self, one: str, other: str) -> bool:
        """Whether two classes are disjoint, or have nothing in common that the ontology names."""
        above, above_other = (self.superclasses[id] | {id} for id in (one, other))
        return above.isdisjoint(above_other) or self.are_disjoint(one, other)

    def part(self, classes: Iterable[str], properties: Collection[str]) -> Ontology:
        """The part with these classes and properties, in the order of the ontology.

        The superclasses of classes belong to it. So do the domain and range of a property, unless one of
        several classes would do.
        """
        relations = {id: each for id, each in self.object_properties.items() if id in properties}
        attributes = {id: each for id, each in self.datatype_properties.items() if id in properties}
        ends = [end for each in relations.values() for end in (each.domain, each.range)]
        ends += [each.domain for each in attributes.values()]
        wanted = {*classes, *(end[0] for end in ends if len(end) == 1)}
        wanted.update(*[self.superclasses[id] for id in wanted])
        kept = {id: each for id, each in self.classes.items() if id in wanted}
        return Ontology(self.id, kept, relations, attributes)

    def in_language(self, tag: str, where: str = "") -> Ontology:
        """The same ontology, which a model sees with the labels of a language. Raises `ConfigError`."""
        code = language_code(tag)
        elements = chain.from_iterable(section.values() for section in self._sections)
        known = sorted({each for element in elements for each in element.languages.values()})
        if code not in known:
            expected = f"one of {', '.join(known[:_MOST_LANGUAGES])}" if known else "a label that has one"
            message = "the ontology has no label in this language"
            raise ConfigError(message, where=where, found=tag, expected=expected)
        classes, relations, attributes = (
            {id: each.in_language(code) for id, each in section.items()} for section in self._sections
        )
        return Ontology(self.id, classes, relations, attributes, self.warnings)

    def check(self, value: Any) -> tuple[Issue, ...]:
        """What is wrong with an object of an answer in the terms of the ontology.

        An object is an entity, a relationship or an attribute, as its `type` says.
        """
        if given := _given(value):
            return tuple(self._issues(given, self.datatype_properties))
        return (issue_at("type", f"found no object of these types, expected {one_of(_KEYS)}"),)

    def read(self, value: Any, *, derived: bool = False) -> Said | None:
        """What an object of an answer says; None if `check` finds an issue.

        If the classes were `derived`, some may be missing, and a relation without a range is an attribute.
        """
        given = known = _given(value)
        attributes = self.datatype_properties
        if derived:
            known = {key: found for key, found in given.items() if found is not None or key[-5:] != "_type"}
            attributes = self._may_have_values
        if not known or next(self._issues(known, attributes), None):
            return None
        # A number or a boolean becomes the text that TrustGraph's extractor makes of it.
        return Said(*("" if found is None else str(found) for found in given.values()))

    @cached_property
    def _may_have_values(self) -> Elements:
        """The attributes, and the relations without a range."""
        others = {id: each for id, each in self.object_properties.items() if not each.has_range}
        return {**others, **self.datatype_properties}

    def _issues(self, given: Mapping[str, Any], attributes: Elements) -> Iterator[Issue]:
        faults = [*filter(None, starmap(_fault, given.items()))]
        return iter(faults) if faults else self._misuse(given, attributes)

    def _misuse(self, given: Mapping[str, str], attributes: Elements) -> Iterator[Issue]:
        classes = {key: id for key, id in given.items() if key.endswith("_type")}
        unknown = {key: id for key, id in classes.items() if id not in self.classes}
        for key, id in unknown.items():
            yield issue_at(key, _unknown("class", id, self.classes))
        relations = self.object_properties
        for key, known, others in (("relation", relations, attributes), ("attribute", attributes, relations)):
            name = given.get(key, "")
            if name in known:
                yield from () if unknown else self._misfits(known[name], classes)
            elif name in others:
                yield issue_at(key, f"{name!r} is {'an attribute' if key == 'relation' else 'a relation'}")
            elif name:
                yield issue_at(key, _unknown(key, name, known))

    def _misfits(self, property: Element, classes: Mapping[str, str]) -> Iterator[Issue]:
        """The classes that are outside the domain or the range of a property."""
        ends = (property.domain, property.range)
        for key, id in classes.items():
            expected = ends[key == "object_type"]
            if not self.is_a(id, expected):
                swapped = [*classes.values()][::-1]
                would_fit = len(swapped) == 2 and all(map(self.is_a, swapped, ends))
                hint = "; it would fit if subject and object were swapped" if would_fit else ""
                what = f"{property.id!r} does not fit the class of the {key.removesuffix('_type')}"
                yield issue_at(key, f"{what}: found {id!r}, expected {one_of(expected)} or a subclass{hint}")


class _Superclasses(dict[str, frozenset[str]]):
    """Found when they are asked for: those of all classes of a large ontology take hundreds of megabytes."""

    def __init__(self, classes: Elements) -> None:
        super().__init__()
        self._classes = classes

    def __missing__(self, id: str) -> frozenset[str]:
        self[id] = found = frozenset(superclasses(id, self._classes))
        return found


def superclasses(id: str, classes: Elements) -> set[str]:
    """All superclasses of a class, direct or not: of more than `MAX_SUPERCLASSES`, some."""
    above: set[str] = set()
    rest = [id]
    while rest and len(above) <= MAX_SUPERCLASSES:
        new = set(classes[rest.pop()].parents) - above
        above |= new
        rest += new
    return above


def unknown_keys(terms: Mapping[str, object]) -> Iterator[str]:
    """Say which keys in the terms of an ontology are unknown, one message for each term."""
    for name, known in _KEYS_OF_TERMS.items():
        term = terms.get(name)
        elements = term.values() if isinstance(term, dict) else ()
        found = dict.fromkeys(key for each in elements if isinstance(each, dict) for key in each)
        unknown = (excerpt(key, _LONGEST_NAME) for key in found if key not in known)
        if listed := ", ".join(islice(unknown, _MOST_LISTED)):
            yield f"unknown keys in the term {name}: {listed}; the known ones are {', '.join(known)}"


def _class_term(element: Element) -> dict[str, object]:
    return _term(element, _CLASS_TERM) | {"subclass_of": " and ".join(element.parents) or None}


def _property_term(element: Element) -> dict[str, object]:
    ends = {"domain": " or ".join(element.domain) or None, "range": " or ".join(element.range) or None}
    return _term(element, _PROPERTY_TERM) | ends


def _term(element: Element, keys: Mapping[str, tuple[str, object]]) -> dict[str, object]:
    entry, labels = element.entry, element.entry.get("rdfs:label") or []
    return {
        "uri": entry.get("uri", ""),
        "labels": labels if isinstance(labels, list) else [labels],
        "comment": element.comment or None,
        **{name: entry.get(key, default) for name, (key, default) in keys.items()},
    }


def _given(value: Any) -> dict[str, Any]:
    """The values of the keys that belong to the `type` of an object; some prompts write them with hyphens."""
    kind = value.get("type") if isinstance(value, dict) else None
    keys = _KEYS.get(kind, ()) if isinstance(kind, str) else ()
    return {key: value.get(key, value.get(key.replace("_", "-"))) for key in keys}


def _fault(key: str, found: Any) -> Issue | None:
    """What is wrong with the value of a key, whatever the ontology."""
    if found is None:
        return issue_at(key, f"the key {key!r} is missing", Reason.SCHEMA_MISSING_FIELD)
    if key == "value" or (isinstance(found, str) and any(map(str.isalnum, found))):
        return None
    what = f"found {excerpt(repr(found), _LONGEST_NAME)}, expected a string with a letter or a digit"
    return issue_at(key, what, Reason.SCHEMA_VALUE_ERROR)


def _unknown(what: str, id: str, known: Collection[str]) -> str:
    written = excerpt(id, _LONGEST_NAME)
    similar = suggestion(written, islice(known, MOST_COMPARED))
    return f"unknown {what} {written!r}{similar or f', expected {one_of(known)}'}"


def one_of(ids: Collection[str]) -> str:
    """Some names for a message, with the number of further ones."""
    more = f" or one of {len(ids) - _MOST_LISTED} more" if len(ids) > _MOST_LISTED else ""
    return " or ".join(map(repr, islice(ids, _MOST_LISTED))) + more or "none, as the ontology has none"


def issue_at(key: str, message: str, reason: Reason = Reason.INVARIANT_VIOLATION) -> Issue:
    """What is wrong with the value of a key of an object."""
    return Issue(reason, message, pointer((key,)))
