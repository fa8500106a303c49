"""Chooses the part of a large ontology that a text needs, by the words of the text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest, nsmallest
from itertools import chain, product
from math import fsum, log
from typing import Final

from trustgraph_prompt.graph.ontology import Element, Ontology
from trustgraph_prompt.graph.ontology_answer import Vocabulary
from trustgraph_prompt.graph.term_names import local_name
from trustgraph_prompt.grounding.index import is_content_word
from trustgraph_prompt.grounding.inflection import base_forms
from trustgraph_prompt.grounding.words import words

MOST_CHOSEN: Final = 160
"""Classes and properties that are chosen for a text."""

_SENTENCE_ENDS = re.compile(r"(?<=\w{3}[.!?;])\W?\s|\n\s*\n")
_COMMENT_WEIGHT = 0.25  # of a comment, beside a name
_PROPERTY_WEIGHT = 0.5  # of a property, for the classes that it joins
_FURTHER_WEIGHT = 0.7  # of each further class that a word of the text brings
_MOST_FOUND = 500  # names and comments for a sentence
_MOST_BROUGHT = 1000  # names and comments for a word
_LONGEST_COMMENT = 60  # words of a comment that count


class OntologyIndex:
    """The words of an ontology. Build it once, to choose for many texts."""

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        names = [*_names(ontology)]
        self._with: dict[str, list[_Name]] = defaultdict(list)
        for name in names:
            for word in name.words:
                self._with[word].append(name)
        self._rarity = {word: log(1 + len(names) / len(having)) for word, having in self._with.items()}
        self._total = {name: fsum(self._rarity[word] for word in name.words) for name in names}
        # Of a word that very many have, those bring the most of which it is the largest part.
        self._brought = {
            word: nsmallest(_MOST_BROUGHT, having, key=self._total.__getitem__)
            for word, having in self._with.items()
            if len(having) > _MOST_BROUGHT
        }
        self._by_base: dict[str, list[str]] = defaultdict(list)
        for word in self._with:
            for base in base_forms(word):
                self._by_base[base].append(word)

    def __eq__(self, other: object) -> bool:
        """Whether it is an index of an equal ontology: a flow with that one is not swapped."""
        return isinstance(other, OntologyIndex) and self.ontology == other.ontology

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The names of the terms."""
        return Vocabulary(self.ontology)

    def choose(self, text: str, limit: int = MOST_CHOSEN) -> Ontology:
        """The part of the ontology that a text needs, of at most `limit` classes and names of properties.

        It is the whole ontology if that is small enough. Otherwise a class counts by the words that its
        label, id or comment, or that of a property of it, shares with a sentence: the more and the rarer, the
        better. Of several classes for one word each counts less than the one before. Each comes with its
        superclasses. The properties whose domain and range are among them get up to half of the limit. The
        part is empty if the text shares no word with the ontology.
        """
        if len(self.ontology) <= limit:
            return self.ontology
        classes, properties = self._scores(text)
        ranked = iter(sorted(classes, key=lambda id: (-classes[id], id)))
        chosen = self._filled(set(), ranked, limit - limit // 2)
        fitting = self._fitting(chosen, properties)[: limit // 2]
        return self.ontology.part(self._filled(chosen, ranked, limit - len(fitting)), fitting)

    def _scores(self, text: str) -> tuple[dict[str, float], dict[str, float]]:
        """The scores of the classes and of the properties of which the text has words."""
        classes: dict[str, float] = defaultdict(float)
        properties: dict[str, float] = defaultdict(float)
        for sentence in _SENTENCE_ENDS.split(text):
            bases = set(chain.from_iterable(map(base_forms, _content(sentence))))
            there = sorted({word for base in bases for word in self._by_base.get(base, ())})
            names = chain.from_iterable(self._brought.get(word) or self._with[word] for word in there)
            found: dict[_Name, float] = dict.fromkeys(names, 0.0)
            for name in found:  # `there` is sorted: the same sums in every process
                found[name] = sum(self._rarity[word] for word in there if word in name.words)
            scores = {name: self._score(name, rarity) for name, rarity in found.items()}
            brought: dict[str, set[str]] = defaultdict(set)
            for name in nlargest(_MOST_FOUND, scores, key=scores.__getitem__):
                properties[name.property] = max(properties[name.property], scores[name])
                for id, word in product(name.classes, name.words.intersection(there)):
                    if id not in brought[word]:
                        score = scores[name] * _FURTHER_WEIGHT ** len(brought[word])
                        classes[id] = max(classes[id], score)
                        brought[word].add(id)
        return classes, properties

    def _score(self, name: _Name, found: float) -> float:
        """The score of a name if the rarity of all its words that were found is `found`."""
        share = found / self._total[name]
        kind = _PROPERTY_WEIGHT if name.property else 1.0
        return kind * found * (_COMMENT_WEIGHT * share if name.is_comment else share * share)

    def _filled(self, classes: set[str], ranked: Iterator[str], limit: int) -> set[str]:
        """The classes, and as many of those ranked with their superclasses as the limit allows."""
        while len(classes) < limit and (id := next(ranked, None)):
            more = classes | {id} | self.ontology.superclasses[id]
            if len(more) <= limit:
                classes = more
        return classes

    def _fitting(self, classes: set[str], scores: Mapping[str, float]) -> list[str]:
        """The properties that fit these classes: those that the text names, then those of any class last."""

        def fits(ends: tuple[str, ...]) -> bool:
            return not ends or not classes.isdisjoint(ends)

        relations, attributes = self.ontology.object_properties, self.ontology.datatype_properties
        fitting = {id: each for id, each in relations.items() if fits(each.domain) and fits(each.range)}
        fitting |= {id: each for id, each in attributes.items() if fits(each.domain)}
        order = sorted(fitting, key=lambda id: (-scores.get(id, 0), not fitting[id].domain))
        return order if classes else []


@dataclass(frozen=True, eq=False, slots=True)
class _Name:
    """The words of a label, id or comment of a class, or of a property of these classes."""

    words: frozenset[str]
    is_comment: bool
    classes: tuple[str, ...]
    property: str = ""


def _names(ontology: Ontology) -> Iterator[_Name]:
    for id, each in ontology.classes.items():
        yield from _names_of(each, (id,))
    for id, each in ontology.object_properties.items():
        yield from _names_of(each, (*each.domain, *each.range), id)
    for id, each in ontology.datatype_properties.items():
        yield from _names_of(each, each.domain, id)


def _names_of(element: Element, classes: tuple[str, ...], property: str = "") -> Iterator[_Name]:
    for text in (local_name(element.id), *element.labels):
        if content := _content(text):
            yield _Name(content, False, classes, property)
    if content := _content(element.comment, _LONGEST_COMMENT):
        yield _Name(content, True, classes, property)


def _content(text: str, most: int | None = None) -> frozenset[str]:
    return frozenset(filter(is_content_word, words(text).folded[:most]))
