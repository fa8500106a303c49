"""Where a value stands in a text, and how: the same words, other forms of them, nearly so, or in part."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice

from rapidfuzz.distance import OSA

from trustgraph_prompt.grounding.inflection import base_forms
from trustgraph_prompt.grounding.stop_words import STOP_WORDS
from trustgraph_prompt.grounding.words import NUMBER, UNSPACED, Word, words

MAX_SPANS = 100
"""Places of one value that are told."""

_MOST_WORDS = 60  # of a value that is looked for in other forms
_MOST_PLACES = 2_000  # of one word that are gone through for a value
_MOST_KEPT = 10_000  # verdicts
_REACH = 40  # characters in which the words of a value may stand in another order
_CHARACTERS_PER_EDIT = 8  # of a word that is written a little differently
_SHORTEST_NUMBER = 4  # two digits between the marks of a number
_TELLING_NUMBER = 6  # four: of what stands there in part, they may be all

_IN_NUMBERS = ".,'’"
_ACRONYM = re.compile(r"[^\W\d_]{2,8}")


class Kind(StrEnum):
    """How a value stands in its text, the best way first."""

    EXACT = "exact"
    FOLDED = "folded"  # but for case, spaces, hyphens, quotes, accents, the way a number is written
    INFLECTED = "inflected"  # in other forms of its words
    REORDERED = "reordered"  # the same words close to each other, in another order
    FUZZY = "fuzzy"  # spelt a little differently
    PART = "part"  # not all of its words, or as initials


@dataclass(frozen=True, slots=True)
class Match:
    """Where a value was found.

    `score` is 1 for a value that stands there as it is, and less the more it differs; of one that stands
    there in part, the share of its words. `spans` are the first `MAX_SPANS` places, each from its first code
    point to behind its last.
    """

    kind: Kind
    score: float
    spans: tuple[tuple[int, int], ...]


class Passage:
    """A text in which values are looked for; what is found does not depend on what was asked before."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._known: dict[str, Match | None] = {}

    def find(self, value: str) -> Match | None:
        """The best way in which `value` stands in the text; None where not one of its words does."""
        if value not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[value] = self._exact(value) or _Search(self._index, value).best()
        return self._known[value]

    def _exact(self, value: str) -> Match | None:
        sought = value.strip()
        if not sought or sought not in self.text:
            return None
        places = islice(_occurrences(sought, self.text), _MOST_PLACES)
        whole = ((start, start + len(sought)) for start in places)
        spans = tuple(islice((span for span in whole if _stands_alone(self.text, *span)), MAX_SPANS))
        return Match(Kind.EXACT, 1.0, spans) if spans else None

    @cached_property
    def _index(self) -> _Index:
        return _Index(self.text)


def _occurrences(sought: str, text: str) -> Iterator[int]:
    start = text.find(sought)
    while start >= 0:
        yield start
        start = text.find(sought, start + 1)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no word, and no number, of which this is a part begins before it or goes on behind it."""
    if start > 0 and _goes_on(text[start], text[start - 1], text[max(start - 2, 0)]):
        return False
    if end == len(text) or not _goes_on(text[end - 1], text[end], text[end + 1 : end + 2]):
        return True
    is_number_with_unit = text[start].isdigit() and text[end - 1].isdigit() and text[end].isalpha()
    return is_number_with_unit and not unicodedata.combining(text[end])


def _goes_on(inner: str, outer: str, beyond: str) -> bool:
    """Whether the character outside of a stretch belongs to what the stretch ends with."""
    if inner.isdigit() and outer in _IN_NUMBERS:
        return beyond.isdigit()
    if not inner.isalnum() or UNSPACED.match(inner) or UNSPACED.match(outer):
        return False
    return outer.isalnum() or unicodedata.combining(outer) != 0


class _Index:
    """The words of a text, and where each stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = list(words(text))
        self.at: dict[str, list[int]] = defaultdict(list)
        begins = [0]
        for index, word in enumerate(self.words):
            self.at[word.folded].append(index)
            begins.append(begins[-1] + len(word.folded))
        self.squeezed = "".join(word.folded for word in self.words)
        self._begins = begins

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.words[first].start, self.words[last].end

    def runs(self, squeezed: str) -> Iterator[tuple[int, int]]:
        """The first and last word of each place where these letters stand as whole words."""
        for offset in islice(_occurrences(squeezed, self.squeezed), _MOST_PLACES):
            first = bisect_left(self._begins, offset)
            behind = bisect_left(self._begins, offset + len(squeezed))
            whole = self._begins[first] == offset and self._begins[behind] == offset + len(squeezed)
            if whole and _stands_alone(self.text, *self.span(first, behind - 1)):
                yield first, behind - 1

    def forms(self, word: str) -> frozenset[str]:
        """Its words that are other forms of this one, or the same."""
        return frozenset(each for base in base_forms(word) for each in self._by_base.get(base, ()))

    def similar(self, word: str) -> frozenset[str]:
        """Its words that are spelt like this one, but for one edit in every eight letters."""
        edits = len(word) // _CHARACTERS_PER_EDIT
        if not edits:
            return frozenset()
        near = self._by_letter.get(word[0], ())
        allowed = ((each, min(edits, len(each) // _CHARACTERS_PER_EDIT)) for each in near)
        return frozenset(
            each for each, most in allowed if most and OSA.distance(word, each, score_cutoff=most) <= most
        )

    @cached_property
    def _by_base(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for word in self.at:
            for base in base_forms(word):
                found[base].append(word)
        return found

    @cached_property
    def _by_letter(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for word in self.at:
            if len(word) >= _CHARACTERS_PER_EDIT and word[0] != NUMBER:
                found[word[0]].append(word)
        return found

    @cached_property
    def initials(self) -> tuple[str, list[int]]:
        """The first letters of its capitalised words, a blank for each other one that says something."""
        letters, indices = [], []
        for index, word in enumerate(self.words):
            if self.text[word.start].isupper():
                letters.append(word.folded[0])
            elif word.folded in STOP_WORDS:
                continue
            else:
                letters.append(" ")
            indices.append(index)
        return "".join(letters), indices


class _Search:
    """For one value that does not stand in the text as it is."""

    def __init__(self, index: _Index, value: str) -> None:
        self._index = index
        self._value = value
        self._words = _trimmed(list(words(value)))
        content = [word for word in self._words if _says_something(word)]
        self._content = list(dict.fromkeys(word.folded for word in content))

    def best(self) -> Match | None:
        if not self._words:
            return None
        if found := self._matches(Kind.FOLDED, 1.0, self._folded()):
            return found
        if len(self._words) <= _MOST_WORDS:
            forms = {word.folded: self._index.forms(word.folded) for word in self._words}
            similar = {word: forms[word] | self._index.similar(word) for word in forms}
            found = (
                self._matches(Kind.INFLECTED, 0.95, self._in_order(forms))
                or self._matches(Kind.REORDERED, 0.9, self._reordered(forms))
                or self._matches(Kind.FUZZY, 0.85, self._in_order(similar))
                or self._in_part(similar)
            )
        return found or self._as_initials() or self._of_unspaced()

    def _matches(self, kind: Kind, score: float, runs: Iterable[tuple[int, int]]) -> Match | None:
        spans = tuple(self._index.span(*run) for run in islice(runs, MAX_SPANS))
        return Match(kind, score, spans) if spans else None

    def _folded(self) -> Iterable[tuple[int, int]]:
        return self._index.runs("".join(word.folded for word in self._words))

    def _in_order(self, alike: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
        """Where the words stand side by side, each as one of those that are like it."""
        sought = [alike[word.folded] for word in self._words]
        if not all(sought):
            return
        rarest = min(range(len(sought)), key=lambda place: sum(len(self._index.at[w]) for w in sought[place]))
        for place in self._places(sought[rarest]):
            first, last = place - rarest, place - rarest + len(sought) - 1
            if first < 0 or last >= len(self._index.words):
                continue
            there = self._index.words[first : last + 1]
            alike_all = all(word.folded in options for word, options in zip(there, sought, strict=True))
            if alike_all and _stands_alone(self._index.text, *self._index.span(first, last)):
                yield first, last

    def _reordered(self, alike: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
        """The shortest stretches that hold all words which say something, and one other such word at most."""
        if len(self._content) < 2 or not all(word.is_spaced for word in self._words):
            return
        reach = max(_REACH, len(self._value) * 5 // 4)
        meant = {each: word for word in self._content for each in alike[word]}
        held: deque[tuple[int, str]] = deque()
        counts: Counter[str] = Counter()
        for place in self._places(meant):
            word = meant[self._index.words[place].folded]
            held.append((place, word))
            counts[word] += 1
            while counts[held[0][1]] > 1:
                counts[held.popleft()[1]] -= 1
            if len(counts) == len(self._content) and min(counts.values()) > 0:
                first = held[0][0]
                start, end = self._index.span(first, place)
                others = sum(map(_says_something, self._index.words[first : place + 1])) - len(held)
                if end - start <= reach and others <= 1:
                    yield first, place

    def _in_part(self, alike: Mapping[str, frozenset[str]]) -> Match | None:
        stand = [word for word in self._content if alike.get(word)]
        telling = (word[0] != NUMBER or len(word) >= _TELLING_NUMBER for word in stand)
        if not stand or (not any(telling) and stand != self._content):
            return None
        places = self._places({each for word in stand for each in alike[word]})
        share = len(stand) / len(self._content)
        return self._matches(Kind.PART, share, ((place, place) for place in places))

    def _as_initials(self) -> Match | None:
        """WHO for the World Health Organization, and the other way round."""
        letters, indices = self._index.initials
        acronym = "".join(word.folded for word in self._words)
        if self._value.isupper() and _ACRONYM.fullmatch(acronym):
            hits = (hit.start() for hit in re.finditer(re.escape(acronym), letters))
            runs = ((indices[at], indices[at + len(acronym) - 1]) for at in hits)
            return self._matches(Kind.PART, 0.5, runs)
        for said in (self._content, [word.folded for word in self._words]):
            acronym = "".join(word[0] for word in said)
            if _ACRONYM.fullmatch(acronym):
                places = self._index.at.get(acronym, ())
                upper = (place for place in places if self._is_upper(place))
                if found := self._matches(Kind.PART, 0.5, ((place, place) for place in upper)):
                    return found
        return None

    def _is_upper(self, place: int) -> bool:
        start, end = self._index.span(place, place)
        return self._index.text[start:end].isupper()

    def _of_unspaced(self) -> Match | None:
        """The longest part, at least half, of a value in a script without spaces."""
        letters = "".join(word.folded for word in self._words if not word.is_spaced)[:_MOST_WORDS]
        for length in range(len(letters) - 1, max(2, (len(letters) + 1) // 2) - 1, -1):
            for start in range(len(letters) - length + 1):
                runs = self._index.runs(letters[start : start + length])
                if found := self._matches(Kind.PART, length / len(letters), runs):
                    return found
        return None

    def _places(self, sought: Iterable[str]) -> list[int]:
        """Where any of these words stand, in the order of the text."""
        each = (self._index.at[word] for word in sought)
        return sorted(islice(chain.from_iterable(each), _MOST_PLACES))


def _trimmed(found: list[Word]) -> list[Word]:
    """Without articles and the like at both ends, unless there is nothing else."""
    said = [index for index, word in enumerate(found) if word.folded not in STOP_WORDS]
    return found[said[0] : said[-1] + 1] if said else found


def _says_something(word: Word) -> bool:
    """Whether a text that has this word in common with another speaks of the same."""
    folded = word.folded
    if folded[0] == NUMBER:
        return len(folded) >= _SHORTEST_NUMBER
    return word.is_spaced and len(folded) >= (3 if folded < "\u0590" else 2) and folded not in STOP_WORDS
