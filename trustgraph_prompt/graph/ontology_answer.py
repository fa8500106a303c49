"""Reads an answer in the terms of an ontology: which relation is meant, and of which classes its ends are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice, repeat
from typing import Any, Final, Literal, NamedTuple

from trustgraph_prompt.contract import Contract, Grounding
from trustgraph_prompt.errors import Issue, Reason, excerpt, suggestion
from trustgraph_prompt.graph import datatypes
from trustgraph_prompt.graph.ontology import MOST_COMPARED, Element, Ontology, issue_at, listed, one_of
from trustgraph_prompt.graph.ontology_classes import DerivedClasses, Triple, in_order
from trustgraph_prompt.graph.term_names import How, TermNames, local_name
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.outcome import Outcome, Rejected, Remark

_KEYS: Final = ("subject", "relation", "object")
_ATTRIBUTE_KEYS: Final = ("entity", "attribute", "value")
_TYPES: Final = ("subject_type", "object_type", "entity_type", "subject-type", "object-type", "entity-type")
_MADE: Final = frozenset((*_KEYS, *_ATTRIBUTE_KEYS, *_TYPES, "type"))  # of facts, or replaced
_LONGEST: Final = 80  # characters of a name in a message


def asks_for_facts(contract: Contract) -> bool:
    """Whether the objects are facts without classes, which are then derived."""
    return (
        contract.format == "jsonl"
        and all(map(contract.declares, _KEYS))
        and not any(map(contract.declares, _TYPES))
    )


class Vocabulary:
    """The names of an ontology. Build it once, to read many answers."""

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        self.classes = TermNames(ontology.classes, forms=False)
        self.properties = {**ontology.datatype_properties, **ontology.object_properties}
        self.names = TermNames(self.properties, self._domain)
        inverses = {
            _plain(str(inverse)): id
            for id, each in ontology.object_properties.items()
            for inverse in listed(each.entry.get("owl:inverseOf"))
        }
        self.inverses = {name: id for name, id in inverses.items() if self.names.find(name) is None}
        """The relations by the names of their inverses that are no terms themselves."""

    def _domain(self, property: Element) -> str:
        return " or ".join(self.classes.shown[id] for id in property.domain)

    def as_fact(self, value: Any) -> Any:
        """An object that was read, or a fact, as a model writes it: without classes, its relation by name."""
        ends = (keys for keys in (_KEYS, _ATTRIBUTE_KEYS) if isinstance(value, dict) and {*keys} <= {*value})
        if not (keys := next(ends, None)):
            return value
        subject, relation, object = (_text_of(value[key]) for key in keys)
        meant = self.names.find(relation)
        others = {key: each for key, each in value.items() if key not in _MADE}
        name = self.names.shown[meant.id] if meant else relation
        return {"subject": subject, "relation": name, "object": object, **others}

    def is_relation(self, property: Element) -> bool:
        """Whether a property joins two entities: a relation without a range gives a value."""
        return property.id in self.ontology.object_properties and property.has_range


class Fact(NamedTuple):
    """An object as it was written, what it says, how its relation was found, whether its ends are swapped."""

    value: Mapping[str, Any]
    triple: Triple
    how: How | Literal["inverse"]
    is_swapped: bool = False

    @property
    def entities(self) -> Sequence[tuple[str, str]]:
        """The keys and names of its entities."""
        triple = self.triple
        if triple.is_relation:
            return (("subject", triple.subject), ("object", triple.object))
        return (("entity", triple.subject),)

    def made(self, classes: DerivedClasses) -> dict[str, Any]:
        """The object in TrustGraph's form, without the classes that are unknown."""
        subject, property, object, is_relation = self.triple
        ends: dict[str, str]
        if is_relation:
            type, ends = "relationship", {"subject": subject, "relation": property.id, "object": object}
        else:
            type, ends = "attribute", {"entity": subject, "attribute": property.id, "value": object}
        made: dict[str, Any] = {"type": type}
        entities = dict(self.entities)
        for key, text in ends.items():
            made[key] = text
            if key in entities and (class_ := classes.of(text).id):
                made[f"{key}_type"] = class_
        return made | {key: each for key, each in self.value.items() if key not in _MADE}

    def moved(self, found: Mapping[str, Grounding | None]) -> dict[str, Grounding | None]:
        """Where its values were found, under the keys that they have now."""
        ends = ["/subject", "/object"] if self.triple.is_relation else ["/entity", "/value"]
        if self.is_swapped is not (self.how == "inverse"):
            ends.reverse()
        moved = dict(zip(("/subject", "/object"), ends, strict=True))
        return {moved.get(path, path): each for path, each in found.items()}

    def remarks(self, classes: DerivedClasses, index: int) -> Iterator[Remark]:
        """What was not read as it was written, and what is not known of it."""
        id, is_relation = self.triple.property.id, self.triple.is_relation
        written = repr(excerpt(_text_of(self.value.get("relation")), _LONGEST))
        if self.how != "label":
            path = "/relation" if is_relation else "/attribute"
            yield Remark(index, "relation", path, f"{written} was read as {id!r} (by its {self.how})")
        if self.is_swapped or self.how == "inverse":
            why = "other objects exclude the order" if self.is_swapped else f"it is the inverse of {id!r}"
            yield Remark(index, "ends", "", f"subject and object of {written} were swapped: {why}")
        for key, name in self.entities:
            if not (derived := classes.of(name)).id:
                message = f"the class of {excerpt(name, _LONGEST)!r} is unknown: {derived.why}"
                yield Remark(index, "class", f"/{key}_type", message)
        if not self.triple.fits_datatype():
            yield Remark(index, "value", "/value", self.wrong_value)

    @property
    def wrong_value(self) -> str:
        """Why its value is wrong, if it does not fit the datatype."""
        property, value = self.triple.property, excerpt(self.triple.object, _LONGEST)
        return f"{value!r} is not {datatypes.named(property.range)}, as {property.id!r} expects"

    def contradictions(self, classes: DerivedClasses) -> Iterator[Issue]:
        """Its entities of which no class is all that is expected."""
        for key, name in self.entities:
            if (derived := classes.of(name)).conflicts:
                path = "object" if key == "object" else "subject"
                yield issue_at(path, f"{excerpt(name, _LONGEST)!r} has no class: {derived.why}")


@dataclass(frozen=True)
class AnswerReading:
    """Reads the answer about one text. With `strict`, what does not fit is refused, else it is remarked."""

    vocabulary: Vocabulary
    text: str = field(repr=False)
    strict: bool = False

    def check(self, value: Any) -> tuple[Issue, ...]:
        """What is wrong with one object, whatever the others say."""
        return tuple(self._issues(value if isinstance(value, dict) else {}))

    def read(self, outcome: Outcome) -> Outcome:
        """The outcome with its objects in the terms of the ontology, each once, as TrustGraph has them.

        `remarks` say what was not read as written. With `strict`, objects with an end of which no
        class is all that is expected are rejected.
        """
        if not outcome.value:
            return outcome
        read = self._facts(outcome)
        classes = DerivedClasses(self.vocabulary.ontology, (fact.triple for fact, _ in read))
        others = {each.index for each in outcome.rejected}
        places = (index for index in count() if index not in others)
        rejected = {each.index: each for each in outcome.rejected}
        objects: dict[bytes, Mapping[str, Any]] = {}
        grounding: list[Mapping[str, Grounding | None]] = []
        remarks: list[Remark] = []
        for place, (fact, found) in zip(places, read, strict=False):
            if self.strict and (issues := tuple(fact.contradictions(classes))):
                raw = encode(fact.value).decode(errors="replace")
                rejected[place] = Rejected(place, raw, issues, 0)
                continue
            made = fact.made(classes)
            if (key := outcome.contract.identity(made)) not in objects:
                remarks += fact.remarks(classes, len(objects))
                objects[key] = made
                grounding.append(fact.moved(found))
        return replace(
            outcome,
            value=[*objects.values()],
            grounding=None if outcome.grounding is None else tuple(grounding),
            remarks=tuple(remarks),
            rejected=tuple(rejected[index] for index in sorted(rejected)),
            reason=outcome.reason if objects or not outcome.ok else Reason.INVARIANT_VIOLATION,
        )

    def _facts(self, outcome: Outcome) -> list[tuple[Fact, Mapping[str, Grounding | None]]]:
        """What the objects say, with their ends in order, and where their values were found."""
        pairs = zip(outcome.value, outcome.grounding or repeat({}), strict=False)
        read = [(fact, found) for value, found in pairs if (fact := self._fact(value))]
        swapped = in_order(self.vocabulary.ontology, [fact.triple for fact, _ in read])
        return [
            (fact._replace(triple=fact.triple.reversed(), is_swapped=True) if swap else fact, found)
            for (fact, found), swap in zip(read, swapped, strict=True)
        ]

    def _issues(self, value: Mapping[str, Any]) -> Iterator[Issue]:
        for key in ("subject", "object"):
            if not any(map(str.isalnum, _text_of(value.get(key)))):
                found = excerpt(repr(value.get(key)), _LONGEST)
                what = f"found {found}, expected a string with a letter or a digit"
                yield issue_at(key, what, Reason.SCHEMA_VALUE_ERROR)
        if (fact := self._fact(value)) is None:
            yield issue_at("relation", self._unknown(_text_of(value.get("relation"))))
            return
        property = fact.triple.property
        ends = [("subject", property.domain), ("object", property.range if fact.triple.is_relation else ())]
        keys = ("object", "subject") if fact.how == "inverse" else ("subject", "object")
        for key, (end, expected) in zip(keys, ends, strict=True):
            name = getattr(fact.triple, end)
            if self._is_class_name(name, expected):
                yield issue_at(key, f"{excerpt(name, _LONGEST)!r} is the name of a class, not of a thing")
        if self.strict and not fact.triple.fits_datatype():
            yield issue_at("object", fact.wrong_value)

    def _fact(self, value: Mapping[str, Any]) -> Fact | None:
        """What an object says; None if its relation is unknown."""
        subject, relation, object = (_text_of(value.get(key)) for key in _KEYS)
        vocabulary = self.vocabulary
        how: How | Literal["inverse"] = "inverse"
        if found := vocabulary.names.find(relation):
            id, how = found
        elif id := vocabulary.inverses.get(_plain(relation), ""):
            subject, object = object, subject
        else:
            return None
        property = vocabulary.properties[id]
        return Fact(value, Triple(subject, property, object, vocabulary.is_relation(property)), how)

    def _unknown(self, relation: str) -> str:
        names, written = self.vocabulary.names, excerpt(relation, _LONGEST)
        if several := sorted(names.spelt(relation)):
            return f"{written!r} may be {one_of([names.shown[id] for id in several])}"
        shown = names.shown.values()
        similar = suggestion(written, islice(shown, MOST_COMPARED))
        return f"unknown relation {written!r}{similar or f', expected {one_of(shown)}'}"

    def _is_class_name(self, name: str, expected: Collection[str]) -> bool:
        """Whether a name is only the name of a class.

        A text may have a thing that is called so, if that is not the class that is expected of it.
        """
        ids = self.vocabulary.classes.spelt(name)
        if not ids:
            return False
        above = self.vocabulary.ontology.superclasses
        if not ids.isdisjoint(expected) or any(not ids.isdisjoint(above[each]) for each in expected):
            return True
        found = self._passage.find(name)
        return found is None or found.kind.is_weak

    @cached_property
    def _passage(self) -> Passage:
        return Passage(self.text)


def _text_of(value: Any) -> str:
    """A value as text: a number or a boolean as JSON writes it."""
    return value if isinstance(value, str) else "" if value is None else encode(value).decode()


def _plain(name: str) -> str:
    return local_name(name).lower()
