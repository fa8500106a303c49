"""Makes TrustGraph's objects of the facts of an answer, with the ids of an ontology and derived classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.graph import datatypes
from trustgraph_prompt.graph.ontology import Element, Ontology, issue_at
from trustgraph_prompt.graph.ontology_classes import DerivedClasses, Triple
from trustgraph_prompt.graph.term_names import How
from trustgraph_prompt.graph.vocabulary import TYPE
from trustgraph_prompt.json_text.encoding import canonical, encode
from trustgraph_prompt.outcome import Outcome, Rejected, Remark

KEYS: Final = ("subject", "relation", "object")
"""The keys of a fact."""

TYPES: Final = ("subject_type", "object_type", "entity_type", "subject-type", "object-type", "entity-type")
"""The keys of objects that name the classes themselves."""

LONGEST: Final = 80
"""Characters of a name in a message."""

MADE: Final = frozenset({*KEYS, *TYPES, "type", "entity", "attribute", "value"})
"""The keys of objects that are made of facts, or replaced."""

_ENDS: Final = (KEYS, ("entity", "attribute", "value"))
_RELATIONSHIP: Final = ("subject", "subject_type", "relation", "object", "object_type")
_ATTRIBUTE: Final = ("entity", "entity_type", "attribute", "value")


IS_A: Final = Element("is a", TYPE, ("is a",), "", (), (), (), {})
"""The only relation of an ontology that has none: to a class, which it then expects as its domain."""


class Fact(NamedTuple):
    """An object as it was written, what it says, how its relation was found, whether its ends are swapped."""

    value: Mapping[str, Any]
    triple: Triple
    how: How | Literal["inverse"]
    is_swapped: bool = False

    def swapped(self) -> Fact:
        """The fact with its ends swapped."""
        return self._replace(triple=self.triple.reversed(), is_swapped=True)

    @property
    def entities(self) -> Sequence[tuple[str, str]]:
        """The keys and names of its entities."""
        triple = self.triple
        if triple.is_relation:
            return (("subject", triple.subject), ("object", triple.object))
        return (("entity", triple.subject),)


def outcome_of(outcome: Outcome, facts: Sequence[Fact], ontology: Ontology, *, strict: bool) -> Outcome:
    """The outcome of facts, one for each of its objects; equal objects become one.

    With `strict`, those are rejected of which no class is all that is expected.
    """
    classes = DerivedClasses(ontology, (fact.triple for fact in facts))
    objects: dict[bytes, Mapping[str, Any]] = {}
    grounding: list[Mapping[str, Grounding | None]] = []
    remarks: list[Remark] = []
    rejected = {each.index: each for each in outcome.rejected}
    index = 0  # of the object in the answer, where rejected ones count
    for place, fact in enumerate(facts):
        while index in rejected:
            index += 1
        if strict and (issues := tuple(_contradictions(fact, classes))):
            raw = encode(fact.value).decode(errors="replace")
            rejected[index] = Rejected(index, raw, issues, 0)
            continue
        index += 1
        made = _object(fact, classes)
        if (key := canonical(made)) not in objects:
            remarks += _remarks(fact, classes, len(objects))
            objects[key] = made
            grounding.append(_moved(outcome.grounding[place], fact) if outcome.grounding else {})
    return replace(
        outcome,
        value=[*objects.values()],
        grounding=None if outcome.grounding is None else tuple(grounding),
        remarks=tuple(remarks),
        rejected=tuple(rejected[index] for index in sorted(rejected)),
        reason=outcome.reason if objects or not outcome.ok else Reason.INVARIANT_VIOLATION,
    )


def _object(fact: Fact, classes: DerivedClasses) -> dict[str, Any]:
    """The object in TrustGraph's form, without the classes that are unknown."""
    (subject, property, object, is_relation), value = fact.triple, fact.value
    subject_class = classes.of(subject).id
    if property.id == IS_A.id:
        made = {"type": "entity", "entity": subject, "entity_type": subject_class}
    elif is_relation:
        given = (subject, subject_class, property.id, object, classes.of(object).id)
        made = {"type": "relationship", **dict(zip(_RELATIONSHIP, given, strict=True))}
    else:
        made = {
            "type": "attribute",
            **dict(zip(_ATTRIBUTE, (subject, subject_class, property.id, object), strict=True)),
        }
    known = {key: each for key, each in made.items() if each or key not in TYPES}
    return known | {key: each for key, each in value.items() if key not in MADE}


def _remarks(fact: Fact, classes: DerivedClasses, index: int) -> Iterator[Remark]:
    """What was not read as it was written, and what is not known of it."""
    id, is_relation = fact.triple.property.id, fact.triple.is_relation
    written = excerpt(text_of(fact.value.get("relation")), LONGEST)
    if fact.how != "label":
        path = "/relation" if is_relation else "/attribute" if fact.triple.property.id != IS_A.id else ""
        yield Remark(index, "relation", path, f"{written!r} was read as {id!r} (by its {fact.how})")
    if fact.is_swapped or fact.how == "inverse":
        why = "other objects exclude the order" if fact.is_swapped else f"it is the inverse of {id!r}"
        yield Remark(index, "ends", "", f"subject and object of {written!r} were swapped: {why}")
    for key, name in fact.entities:
        if not (derived := classes.of(name)).id:
            message = f"the class of {excerpt(name, LONGEST)!r} is unknown: {derived.why}"
            yield Remark(index, "class", f"/{key}_type", message)
    if wrong := wrong_value(fact.triple):
        yield Remark(index, "value", "/value", wrong)


def _contradictions(fact: Fact, classes: DerivedClasses) -> Iterator[Issue]:
    for key, name in fact.entities:
        if (derived := classes.of(name)).conflicts:
            path = "object" if key == "object" else "subject"
            yield issue_at(path, f"{excerpt(name, LONGEST)!r} has no class: {derived.why}")


def wrong_value(triple: Triple) -> str:
    """Why a value is not of its datatype; "" if it is, or if it is an entity."""
    if triple.is_relation or datatypes.is_of(triple.object, triple.property.range):
        return ""
    expected = datatypes.named(triple.property.range)
    return f"{excerpt(triple.object, LONGEST)!r} is not {expected}, as {triple.property.id!r} expects"


def fact_keys(value: Any) -> Sequence[str] | None:
    """The keys of subject, relation and object; None of what is neither a fact nor made of one."""
    return next((keys for keys in _ENDS if isinstance(value, dict) and value.keys() >= set(keys)), None)


def text_of(value: Any) -> str:
    """A value as text: a number or a boolean as JSON writes it."""
    return value if isinstance(value, str) else "" if value is None else encode(value).decode()


def _moved(found: Mapping[str, Grounding | None], fact: Fact) -> dict[str, Grounding | None]:
    """Where values were found, under the keys that they have now."""
    ends = ["/subject", "/object"] if fact.triple.is_relation else ["/entity", "/value"]
    if fact.is_swapped is not (fact.how == "inverse"):
        ends.reverse()
    moved = dict(zip(("/subject", "/object"), ends, strict=True))
    return {moved.get(path, path): each for path, each in found.items()}
