"""An ontology: the terms that a model may use, and the check that an answer uses them rightly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from trustgraph_prompt.errors import Issue, Reason, excerpt, suggestion
from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.json_text.pointer import pointer

_MOST_COMPARED = 500  # ids among which a similar one is sought
_MOST_LISTED = 8  # ids in a message
_LONGEST_NAME = 80  # characters of a name in a message

_KEYS = {
    "entity": ("entity", "entity_type"),
    "relationship": ("subject", "subject_type", "relation", "object", "object_type"),
    "attribute": ("entity", "entity_type", "attribute", "value"),
}


class OntologyClass(NamedTuple):
    """A class; `parents` are the ids of its direct superclasses in the ontology.

    `term` is what a template sees of it, with the keys of TrustGraph's own extractor (`subclass_of`, …).
    """

    id: str
    iri: Iri
    labels: tuple[str, ...]
    comment: str
    parents: tuple[str, ...]
    term: Mapping[str, object]


class Property(NamedTuple):
    """A property; with several classes as its domain or range, any one of them will do, with none anything.

    `range` holds ids of classes for an object property, and names of datatypes for a datatype property.
    `term` is what a template sees of it (`domain`, `range`, `comment`, …).
    """

    id: str
    iri: Iri
    labels: tuple[str, ...]
    comment: str
    domain: tuple[str, ...]
    range: tuple[str, ...]
    term: Mapping[str, object]


class Said(NamedTuple):
    """What an object of an answer says.

    An entity has no `property`. A relationship has an `object` and its class, an attribute only an `object`.
    """

    subject: str
    subject_class: str
    property: str = ""
    object: str = ""
    object_class: str = ""


@dataclass(frozen=True, eq=False)
class Ontology:
    """Classes and properties by their ids, or a part of them.

    `superclasses` are all superclasses of each class, direct or not. `warnings` say what was found odd when
    the ontology was read; it can be used all the same.
    """

    id: str
    classes: Mapping[str, OntologyClass]
    object_properties: Mapping[str, Property]
    datatype_properties: Mapping[str, Property]
    superclasses: Mapping[str, frozenset[str]]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many classes and properties there are."""
        return len(self.classes) + len(self.object_properties) + len(self.datatype_properties)

    @property
    def terms(self) -> dict[str, dict[str, Mapping[str, object]]]:
        """The terms `classes`, `object_properties` and `datatype_properties` of the prompt."""
        sections: dict[str, Mapping[str, OntologyClass] | Mapping[str, Property]] = {
            "classes": self.classes,
            "object_properties": self.object_properties,
            "datatype_properties": self.datatype_properties,
        }
        return {
            name: {id: element.term for id, element in section.items()} for name, section in sections.items()
        }

    def is_a(self, class_: str, expected: Collection[str]) -> bool:
        """Whether a class is one of the expected ones, or a subclass of one; without any, every class is."""
        return not expected or class_ in expected or not self.superclasses[class_].isdisjoint(expected)

    def part(self, classes: Iterable[str], properties: Iterable[str]) -> Ontology:
        """The part with these classes and properties, in the order of the ontology.

        The superclasses of classes belong to it. So do the domain and range of a property, unless one of
        several classes would do.
        """
        kept = set(properties)
        wanted = set(classes)
        for id in kept:
            wanted.update(*(ends for ends in self._ends(id) if len(ends) == 1))
        wanted.update(*[self.superclasses[id] for id in wanted])
        return Ontology(
            self.id,
            {id: each for id, each in self.classes.items() if id in wanted},
            {id: each for id, each in self.object_properties.items() if id in kept},
            {id: each for id, each in self.datatype_properties.items() if id in kept},
            {id: each for id, each in self.superclasses.items() if id in wanted},
        )

    def classes_of(self, property: str) -> tuple[str, ...]:
        """The classes that are the domain or the range of a property."""
        return tuple(class_ for ends in self._ends(property) for class_ in ends)

    def _ends(self, property: str) -> Iterator[tuple[str, ...]]:
        if relation := self.object_properties.get(property):
            yield from (relation.domain, relation.range)
        if attribute := self.datatype_properties.get(property):
            yield attribute.domain

    def check(self, value: Mapping[str, Any]) -> list[Issue]:
        """What is wrong with an object of an answer, in the terms of the ontology; [] if it may be used.

        The object is an entity, a relationship or an attribute, as its `type` says; others are not checked.
        """
        keys = _KEYS.get(_type(value))
        return [] if keys is None else [*self._issues(value, keys)]

    def read(self, value: Mapping[str, Any]) -> Said | None:
        """What an object of an answer says; None if `check` finds an issue, or if it is of another type."""
        keys = _KEYS.get(_type(value))
        if keys is None or next(self._issues(value, keys), None):
            return None
        said = [_get(value, key) for key in keys]
        if keys[-1] == "value":
            said[-1] = str(said[-1])  # a number or true, as TrustGraph's extractor writes it
        return Said(*said)

    def _issues(self, value: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[Issue]:
        faults = [*filter(None, (_fault(value, key) for key in keys))]
        if faults:
            yield from faults
            return
        for key in keys:
            if key.endswith("_type") and (id := _get(value, key)) not in self.classes:
                faults.append(_issue(key, _unknown("class", id, self.classes)))
        if "relation" in keys:
            faults += self._of_relation(value, faults)
        elif "attribute" in keys:
            faults += self._of_attribute(value, faults)
        yield from faults

    def _of_relation(self, value: Mapping[str, Any], unknown: Collection[Issue]) -> Iterator[Issue]:
        id, subject, object = (_get(value, key) for key in ("relation", "subject_type", "object_type"))
        relation = self.object_properties.get(id)
        if relation is None:
            is_other = id in self.datatype_properties
            what = f"{id!r} is an attribute, which takes a value, and not a relation of two entities"
            yield _issue("relation", what if is_other else _unknown("relation", id, self.object_properties))
        elif not unknown:
            swapped = self.is_a(object, relation.domain) and self.is_a(subject, relation.range)
            hint = "; it would if subject and object were swapped" if swapped else ""
            for key, found, expected in (
                ("subject_type", subject, relation.domain),
                ("object_type", object, relation.range),
            ):
                if not self.is_a(found, expected):
                    yield _issue(key, f"{_misfit(id, key.removesuffix('_type'), found, expected)}{hint}")

    def _of_attribute(self, value: Mapping[str, Any], unknown: Collection[Issue]) -> Iterator[Issue]:
        id, found = _get(value, "attribute"), _get(value, "entity_type")
        attribute = self.datatype_properties.get(id)
        if attribute is None:
            is_other = id in self.object_properties
            what = f"{id!r} is a relation of two entities, and not an attribute, which takes a value"
            yield _issue(
                "attribute", what if is_other else _unknown("attribute", id, self.datatype_properties)
            )
        elif not unknown and not self.is_a(found, attribute.domain):
            yield _issue("entity_type", _misfit(id, "entity", found, attribute.domain))


def _type(value: Mapping[str, Any]) -> str:
    found = value.get("type")
    return found if isinstance(found, str) else ""


def _get(value: Mapping[str, Any], key: str) -> Any:
    """The value of a key, which some prompts write with a hyphen."""
    return value[key] if key in value else value.get(key.replace("_", "-"))


def _fault(value: Mapping[str, Any], key: str) -> Issue | None:
    """What is wrong with one key, whatever the ontology."""
    found = _get(value, key)
    if found is None:
        return _issue(key, f"the key {key!r} is missing", Reason.SCHEMA_MISSING_FIELD)
    if key == "value":
        return None
    if not isinstance(found, str):
        what = f"found {excerpt(repr(found), _LONGEST_NAME)}, expected a string"
        return _issue(key, what, Reason.SCHEMA_TYPE_ERROR)
    if key in ("entity", "subject", "object") and not any(map(str.isalnum, found)):
        what = f"found {excerpt(repr(found), _LONGEST_NAME)}, expected a name with a letter or a digit"
        return _issue(key, what, Reason.SCHEMA_VALUE_ERROR)
    return None


def _misfit(property: str, role: str, found: str, expected: tuple[str, ...]) -> str:
    subclass = " or a subclass" if len(expected) == 1 else " or a subclass of one"
    return (
        f"{property!r} does not fit the class of the {role}: "
        f"found {found!r}, expected {_listed(expected)}{subclass}"
    )


def _unknown(what: str, id: str, known: Collection[str]) -> str:
    written = excerpt(id, _LONGEST_NAME)
    similar = suggestion(written, islice(known, _MOST_COMPARED))
    return f"unknown {what} {written!r}{similar or f', expected {_listed(known)}'}"


def _listed(ids: Collection[str]) -> str:
    if not ids:
        return "none, as the ontology has none"
    more = f" or one of {len(ids) - _MOST_LISTED} more" if len(ids) > _MOST_LISTED else ""
    return " or ".join(map(repr, islice(ids, _MOST_LISTED))) + more


def _issue(key: str, message: str, reason: Reason = Reason.INVARIANT_VIOLATION) -> Issue:
    return Issue(reason, message, pointer((key,)))
