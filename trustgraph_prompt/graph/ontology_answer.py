"""Reads an answer in the terms of an ontology: which relation is meant, and of which classes its ends are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason, excerpt, suggestion
from trustgraph_prompt.graph.ontology import MOST_COMPARED, Element, Ontology, issue_at, listed, one_of
from trustgraph_prompt.graph.ontology_classes import Triple, in_order
from trustgraph_prompt.graph.ontology_objects import (
    IS_A,
    KEYS,
    LONGEST,
    MADE,
    TYPES,
    Fact,
    fact_keys,
    outcome_of,
    text_of,
    wrong_value,
)
from trustgraph_prompt.graph.term_names import TermNames, local_name
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.outcome import Outcome


def asks_for_facts(contract: Contract) -> bool:
    """Whether the objects are facts without classes, which are then derived."""
    return (
        contract.format == "jsonl"
        and all(map(contract.declares, KEYS))
        and not any(map(contract.declares, TYPES))
    )


class Vocabulary:
    """The names of an ontology. Build it once, to read many answers."""

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        self.classes = TermNames(ontology.classes)
        properties = {**ontology.datatype_properties, **ontology.object_properties}
        self.properties = properties or {IS_A.id: IS_A}
        self.names = TermNames(self.properties, self._domain)

    def _domain(self, property: Element) -> str:
        return " or ".join(self.classes.shown[id] for id in property.domain)

    @cached_property
    def inverses(self) -> Mapping[str, str]:
        """The relations by the names of their inverses that are no terms themselves."""
        names = {
            _plain(str(inverse)): id
            for id, each in self.ontology.object_properties.items()
            for inverse in listed(each.entry.get("owl:inverseOf"))
        }
        return {name: id for name, id in names.items() if self.names.find(name) is None}

    def as_fact(self, value: Any) -> Any:
        """An object that was read, or a fact, as a model writes it: without classes, its relation by name."""
        found = fact_keys(value)
        if found is None:
            return value
        subject, relation, object = (text_of(value[key]) for key in found)
        meant = self.names.find(relation)
        others = {key: each for key, each in value.items() if key not in MADE}
        name = self.names.shown[meant.id] if meant else relation
        return {"subject": subject, "relation": name, "object": object, **others}

    def is_relation(self, property: Element) -> bool:
        """Whether a property joins two entities: a relation without a range gives a value."""
        return property.id in self.ontology.object_properties and property.has_range


@dataclass(frozen=True)
class AnswerReading:
    """Reads the answer about one text. With `strict`, what does not fit is refused, else it is remarked."""

    vocabulary: Vocabulary
    text: str = field(repr=False)
    strict: bool = False

    def check(self, value: Any) -> tuple[Issue, ...]:
        """What is wrong with one object, whatever the others say."""
        return tuple(self._issues(value))

    def read(self, outcome: Outcome) -> Outcome:
        """The outcome with its objects in the terms of the ontology, each once, as TrustGraph has them.

        `remarks` say what was not read as written. With `strict`, objects with an end of which no
        class is all that is expected are rejected.
        """
        if not outcome.value:
            return outcome
        ontology = self.vocabulary.ontology
        facts = [fact for value in outcome.value if (fact := self._fact(value))]
        swapped = in_order(ontology, [fact.triple for fact in facts])
        facts = [fact.swapped() if swap else fact for fact, swap in zip(facts, swapped, strict=True)]
        return outcome_of(outcome, facts, ontology, strict=self.strict)

    def _issues(self, value: Any) -> Iterator[Issue]:
        for key in ("subject", "object"):
            if not any(map(str.isalnum, text_of(value.get(key)))):
                found = excerpt(repr(value.get(key)), LONGEST)
                what = f"found {found}, expected a string with a letter or a digit"
                yield issue_at(key, what, Reason.SCHEMA_VALUE_ERROR)
        if (fact := self._fact(value)) is None:
            yield issue_at("relation", self._unknown(text_of(value.get("relation"))))
            return
        triple = fact.triple
        if triple.property.id == IS_A.id and not triple.property.domain:
            known = one_of(self.vocabulary.classes.shown.values())
            yield issue_at("object", f"unknown class {excerpt(triple.object, LONGEST)!r}, expected {known}")
        expected = triple.property.range if triple.is_relation else ()
        ends = ((triple.subject, triple.property.domain), (triple.object, expected))
        for name, classes in ends[: 1 if triple.property.id == IS_A.id else 2]:
            if self._is_class_name(name, classes):
                key = "subject" if name == text_of(value.get("subject")) else "object"
                yield issue_at(key, f"{excerpt(name, LONGEST)!r} is the name of a class, not of a thing")
        if self.strict and (wrong := wrong_value(triple)):
            yield issue_at("object", wrong)

    def _fact(self, value: Mapping[str, Any]) -> Fact | None:
        """What an object says; None if its relation is unknown."""
        subject, relation, object = (text_of(value.get(key)) for key in KEYS)
        vocabulary = self.vocabulary
        if found := vocabulary.names.find(relation):
            property = vocabulary.properties[found.id]
            if property is IS_A:
                property = IS_A._replace(domain=tuple(self._class(object)))
            return Fact(value, Triple(subject, property, object, vocabulary.is_relation(property)), found.how)
        if id := vocabulary.inverses.get(_plain(relation)):
            property = vocabulary.properties[id]
            return Fact(value, Triple(object, property, subject, vocabulary.is_relation(property)), "inverse")
        return None

    def _class(self, name: str) -> Iterator[str]:
        if found := self.vocabulary.classes.find(name):
            yield found.id

    def _unknown(self, relation: str) -> str:
        names, written = self.vocabulary.names, excerpt(relation, LONGEST)
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


def _plain(name: str) -> str:
    return local_name(name).lower()
