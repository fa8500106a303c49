"""The classes of what an answer names, derived from the relations and attributes that it says of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import product, starmap
from typing import Final, NamedTuple

from trustgraph_prompt.graph.datatypes import is_of
from trustgraph_prompt.graph.ontology import Element, Ontology, one_of

MOST_EXPECTED: Final = 50
"""Different expectations of a name, or classes of one, that are compared; with more, its class is unknown."""

_SPACES = re.compile(r"[\s_]+")
_DROPPED = re.compile(r"[^\w\-.]")
_HYPHENS = re.compile(r"-+")

Expected = tuple[str, ...]
"""The ids of classes of which one is expected: the domain or the range of a property."""


def name_key(name: str) -> str:
    """What the names of one entity have in common: case and punctuation make no difference."""
    words = _DROPPED.sub("", _SPACES.sub("-", name.lower()))
    return _HYPHENS.sub("-", words.strip("-"))


class Triple(NamedTuple):
    """What an object of an answer says: a relation of two entities, or an attribute with its value."""

    subject: str
    property: Element
    object: str
    is_relation: bool

    def fits_datatype(self) -> bool:
        """Whether a value is of the datatype of its attribute, as every entity is."""
        return self.is_relation or is_of(self.object, self.property.range)

    def ends(self) -> Iterator[tuple[str, Expected]]:
        """Each entity by its key, with the classes that the property expects of it."""
        yield name_key(self.subject), self.property.domain
        if self.is_relation:
            yield name_key(self.object), self.property.range

    def reversed(self) -> Triple:
        """The same relation with its ends swapped."""
        return self._replace(subject=self.object, object=self.subject)


class Derived(NamedTuple):
    """The class of a name. If it is unknown, `why`.

    `conflicts`: no class is all that is expected of it. `contradicts`: the ontology says that none can be.
    """

    id: str = ""
    why: str = ""
    conflicts: bool = False
    contradicts: bool = False


UNKNOWN: Final = Derived(why="nothing in the answer says what it is")


class DerivedClasses:
    """The most specific class of each name that all triples about it allow.

    Of a union, it is one of the classes only if another triple decides which. A triple with a wrong value,
    which may be wrong in its subject, too, says something only of a name of which no other one does.
    """

    def __init__(self, ontology: Ontology, triples: Iterable[Triple]) -> None:
        self._ontology = ontology
        self._expected: dict[str, Counter[Expected]] = defaultdict(Counter)
        for triple in sorted(triples, key=lambda each: not each.fits_datatype()):
            for key, expected in triple.ends():
                if expected and (triple.fits_datatype() or key not in self._expected):
                    self._expected[key][expected] += 1
        self._known: dict[tuple[str, Expected], Derived] = {}

    def of(self, name: str, without: Expected = ()) -> Derived:
        """The class of a name, `without` one triple that expects these classes of it."""
        key = name_key(name)
        expected = self._expected.get(key, Counter())
        if expected[without] != 1:  # then it makes no difference
            without = ()
        if (key, without) not in self._known:
            self._known[key, without] = self._derive([each for each in expected if each != without])
        return self._known[key, without]

    def swapped(self, triple: Triple) -> bool:
        """Whether the ends of a relation are swapped: what the other triples say of them excludes the order.

        Then the class of each end that is known must be possible at the other place.
        """
        first, second = triple.property.domain, triple.property.range
        if not (triple.is_relation and 0 < len(first) <= MOST_EXPECTED and 0 < len(second) <= MOST_EXPECTED):
            return False
        subject, object = self.of(triple.subject, first), self.of(triple.object, second)
        if subject.conflicts or object.conflicts or name_key(triple.subject) == name_key(triple.object):
            return False
        fit, ontology = [(subject.id, second), (object.id, first)], self._ontology
        if not all(_common(ontology, (id,), expected) for id, expected in fit if id):
            return False
        as_written = [(subject.id, first), (object.id, second)]
        return any(
            all(ontology.are_apart(id, each) for each in expected) for id, expected in as_written if id
        )

    def _derive(self, expected: list[Expected]) -> Derived:
        if not expected:
            return UNKNOWN
        if len(expected) > MOST_EXPECTED:
            return Derived(why=f"more than {MOST_EXPECTED} different classes are expected of it")
        allowed = expected[0]
        for place, more in enumerate(expected[1:], 1):
            both = _common(self._ontology, allowed, more)
            if not both:
                why = f"{one_of(allowed)} and {one_of(more)} are expected of it"
                disjoint = any(self._are_disjoint(each, more) for each in expected[:place])
                return Derived("", why, conflicts=True, contradicts=disjoint)
            allowed = both
        general = _most_general(self._ontology, allowed) if len(allowed) <= MOST_EXPECTED else allowed
        return Derived(general[0]) if len(general) == 1 else Derived(why=f"it may be {one_of(general)}")

    def _are_disjoint(self, one: Expected, other: Expected) -> bool:
        if not self._ontology.disjoint or max(len(one), len(other)) > MOST_EXPECTED:
            return False
        return all(starmap(self._ontology.are_disjoint, product(one, other)))


def in_order(ontology: Ontology, triples: list[Triple]) -> list[bool]:
    """For each triple, whether its ends are swapped. Triples that may be swapped are no evidence of that."""
    classes = DerivedClasses(ontology, triples)
    doubtful = [classes.swapped(triple) for triple in triples]
    if not any(doubtful):
        return doubtful
    sure = (each for each, doubt in zip(triples, doubtful, strict=True) if not doubt)
    others = DerivedClasses(ontology, sure)
    return [doubt and others.swapped(each) for each, doubt in zip(triples, doubtful, strict=True)]


def _common(ontology: Ontology, one: Expected, other: Expected) -> Expected:
    """The classes of both that are allowed by both."""
    below = [id for id in one if ontology.is_a(id, other)] + [id for id in other if ontology.is_a(id, one)]
    return tuple(dict.fromkeys(below))


def _most_general(ontology: Ontology, classes: Expected) -> Expected:
    """The classes that are no subclass of another one; of equivalent ones, the first."""
    above = ontology.superclasses
    kept: list[str] = []
    for id in classes:
        is_below = any(other in above[id] and id not in above[other] for other in classes)
        if not is_below and above[id].isdisjoint(kept):
            kept.append(id)
    return tuple(kept)
