"""Chooses the part of a large ontology that a text needs, by the words of the text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, nlargest
from itertools import accumulate, chain
from math import fsum, log
from typing import NamedTuple

from trustgraph_prompt.graph.ontology import Ontology, OntologyClass, Property
from trustgraph_prompt.grounding.index import is_content_word
from trustgraph_prompt.grounding.inflection import base_forms
from trustgraph_prompt.grounding.words import words

_SENTENCE_ENDS = re.compile(r"(?<=\w{3}[.!?;])\W?\s|\n\s*\n")
_LOCAL_NAME = re.compile(r"[^/#:]*\Z")
_WORD_BEGINS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")
_COMMENT_WEIGHT = 0.25  # of a comment, beside a name
_PROPERTY_WEIGHT = 0.5  # of a property, for the classes that it joins
_USED_WEIGHT = 0.5  # of a word of the text for each class that was chosen for it
_LONGEST_COMMENT = 60  # words of a comment that count
_MOST_FOUND = 500  # names and comments for a sentence


class OntologyIndex:
    """The words of an ontology. Build it once, to choose for many texts."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._classes = _Names(ontology.classes)
        self._properties = _Names({**ontology.datatype_properties, **ontology.object_properties})

    def choose(self, text: str, limit: int) -> Ontology:
        """The part of the ontology that a text needs, of at most `limit` classes and properties.

        It is the whole ontology if that is small enough. Else those classes come first whose label, id or
        comment, or that of a property of theirs, shares the most and the rarest words with a sentence; a word
        counts less for each further class. Each comes with its superclasses. Then come the properties whose
        domain and range are among them, up to half of the limit. It is empty if the text shares no word with
        the ontology.
        """
        if len(self._ontology) <= limit:
            return self._ontology
        sentences = [_bases(sentence) for sentence in _SENTENCE_ENDS.split(text)]
        of_properties = [*self._properties.found(sentences)]
        of_classes = self._classes.found(sentences)
        ranked = _best_first(chain(of_classes, self._of_their_classes(of_properties)))
        classes = self._filled(set(), ranked, limit - limit // 2)
        properties = self._fitting(classes, of_properties, limit // 2) if classes else []
        room = limit - sum(map(self._kinds, properties))
        return self._ontology.part(self._filled(classes, ranked, room), properties)

    def _of_their_classes(self, found: Iterable[_Found]) -> Iterator[_Found]:
        for each in found:
            for class_ in self._ontology.classes_of(each.element):
                yield each._replace(element=class_, weight=_PROPERTY_WEIGHT * each.weight)

    def _filled(self, classes: set[str], ranked: Iterator[str], limit: int) -> set[str]:
        while len(classes) < limit and (id := next(ranked, None)):
            more = classes | {id} | self._ontology.superclasses[id]
            if len(more) <= limit:
                classes = more
        return classes

    def _kinds(self, property: str) -> int:
        """How many properties have this id: an object property, a datatype property, or both."""
        return (property in self._ontology.object_properties) + (
            property in self._ontology.datatype_properties
        )

    def _fitting(self, classes: set[str], found: Iterable[_Found], limit: int) -> list[str]:
        """The properties that fit these classes, first those that the text names, last those of any class."""

        def fits(ends: tuple[str, ...]) -> bool:
            return not ends or not classes.isdisjoint(ends)

        relations, attributes = self._ontology.object_properties, self._ontology.datatype_properties
        fitting = [id for id, each in relations.items() if fits(each.domain) and fits(each.range)]
        fitting += [id for id, each in attributes.items() if fits(each.domain)]
        scores: dict[str, float] = defaultdict(float)
        for each in found:
            scores[each.element] = max(scores[each.element], each.score())
        fitting = sorted(
            dict.fromkeys(fitting), key=lambda id: (-scores[id], not self._ontology.classes_of(id))
        )
        return [
            id
            for id, count in zip(fitting, accumulate(map(self._kinds, fitting)), strict=True)
            if count <= limit
        ]


class _Found(NamedTuple):
    """A name or comment of an element of which a sentence has some words, each with its rarity."""

    element: str
    weight: float
    words: Mapping[tuple[int, str], float]

    def score(self, used: Mapping[tuple[int, str], int] | None = None) -> float:
        if not used:
            return self.weight * fsum(self.words.values())
        return self.weight * fsum(
            rarity * _USED_WEIGHT ** used.get(word, 0) for word, rarity in self.words.items()
        )


def _best_first(found: Iterable[_Found]) -> Iterator[str]:
    """The ids of elements, each once, best first: a word counts less once an element was chosen for it."""
    used: Counter[tuple[int, str]] = Counter()
    heap = [(-each.score(), each.element, at, each) for at, each in enumerate(found)]
    heapify(heap)
    seen = set()
    while heap:
        _, id, at, best = heappop(heap)
        if id in seen:
            continue
        score = -best.score(used)
        if heap and score > heap[0][0]:  # it has lost too much since it was put there
            heappush(heap, (score, id, at, best))
            continue
        seen.add(id)
        used.update(best.words.keys())
        yield id


class _Name(NamedTuple):
    """The words of a label, id or comment of an element; `rarity` is the sum of theirs."""

    element: str
    is_comment: bool
    words: set[str]
    rarity: float

    def weight(self, found: float) -> float:
        """How much a word counts if the rarity of all words that were found is `found`."""
        share = found / self.rarity
        return _COMMENT_WEIGHT * share if self.is_comment else share * share


class _Names:
    """The words in the labels, ids and comments of classes, or of properties."""

    def __init__(self, elements: Mapping[str, OntologyClass] | Mapping[str, Property]) -> None:
        texts = [
            (id, is_comment, content)
            for id, element in elements.items()
            for is_comment, content in _texts(element)
            if content
        ]
        self._with: dict[str, list[int]] = defaultdict(list)
        for at, (_, _, content) in enumerate(texts):
            for word in content:
                self._with[word].append(at)
        self._rarity = {word: log(1 + len(texts) / len(names)) for word, names in self._with.items()}
        self._names = [
            _Name(id, is_comment, content, fsum(self._rarity[word] for word in content))
            for id, is_comment, content in texts
        ]
        self._by_base: dict[str, list[str]] = defaultdict(list)
        for word in self._with:
            for base in base_forms(word):
                self._by_base[base].append(word)

    def found(self, sentences: Iterable[set[str]]) -> Iterator[_Found]:
        """The names of which a sentence has some words, for each sentence the best ones."""
        for place, bases in enumerate(sentences):
            there = {word for base in bases for word in self._by_base.get(base, ())}
            rarity: dict[int, float] = defaultdict(float)
            for word in sorted(there):  # the same sums in every process
                for at in self._with[word]:
                    rarity[at] += self._rarity[word]
            scores = ((found * self._names[at].weight(found), at) for at, found in rarity.items())
            for _, at in nlargest(_MOST_FOUND, scores):
                name = self._names[at]
                words_there = {(place, word): self._rarity[word] for word in name.words & there}
                yield _Found(name.element, name.weight(rarity[at]), words_there)


def _texts(element: OntologyClass | Property) -> Iterator[tuple[bool, set[str]]]:
    """Whether it is a comment, and its words, for each name of an element and its comment."""
    local = _LOCAL_NAME.search(element.id)
    for name in (_WORD_BEGINS.sub(" ", local[0] if local else ""), *element.labels):
        yield False, _content(name)
    yield True, _content(element.comment, _LONGEST_COMMENT)


def _bases(text: str) -> set[str]:
    return set(chain.from_iterable(map(base_forms, _content(text))))


def _content(text: str, most: int | None = None) -> set[str]:
    return {word for word in words(text).folded[:most] if is_content_word(word)}
