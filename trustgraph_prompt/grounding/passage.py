"""Finds a value in a text: exactly, inflected, reordered, misspelt, or in part."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from heapq import merge
from itertools import islice, pairwise, product
from typing import Final, NamedTuple

from trustgraph_prompt.grounding.dates import Date, dates_in, readings
from trustgraph_prompt.grounding.index import MOST_PLACES, Index, is_content_word, occurrences, stands_alone
from trustgraph_prompt.grounding.numbers import NEGATIVE, NEGATIVE_WORDS, NUMBER, begins_number
from trustgraph_prompt.grounding.words import STOP_WORDS, UNSPACED, Words, words

_SENTENCE_ENDS = re.compile(r"\w{3}[.!?;]\W?\s")  # three letters, so not after an initial

MAX_SPANS = 100
"""Occurrences of a value that are reported."""

_MOST_WORDS = 60  # of a value that is searched for in other forms
_REACH = 40  # characters within which reordered words must occur
_TELLING_NUMBER = 6  # four digits and the delimiters: such a number alone is a match in part
_NEAR = 5  # words between a number and the words for its sign
_SPACE = re.compile(r"\s")
_ACRONYM = re.compile(r"[^\W\d_]{2,8}")


class MatchKind(StrEnum):
    """How a value occurs in the text, best first."""

    EXACT = "exact"
    FOLDED = "folded"  # apart from case, spaces, hyphens, quotes, accents and the format of numbers and dates
    INFLECTED = "inflected"  # with other forms of its words
    REORDERED = "reordered"  # the same words, close together, in another order
    FUZZY = "fuzzy"  # with slightly different spelling
    PART = "part"  # some of its words, or its initials

    @property
    def is_weak(self) -> bool:
        """Whether the text need not name the same: a person should look. All other kinds have every word."""
        return self is MatchKind.PART


RANK: Final = {kind: rank for rank, kind in enumerate(MatchKind)}
"""The kinds by how good they are: 0 is the best."""


class Match(NamedTuple):
    """How and where a value was found.

    `score` is 1 for an exact match and decreases with the differences; for a match in part it is the share of
    the words that were found. `spans` are the first `MAX_SPANS` occurrences, as start and end in code points.
    """

    kind: MatchKind
    score: float
    spans: tuple[tuple[int, int], ...]


class Passage:
    """A text to search for values. Results do not depend on earlier searches."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, value: str) -> Match | None:
        """Find the best match for `value`; None if no content word of it occurs in the text."""
        return self._exact(value) or self._as_date(value) or self._in_other_letters(value)

    def copies(self, copied: str, start: int = 0) -> Iterator[Match]:
        """The places from `start` on that have these words in a row, `exact` or `folded`.

        One that has the same marks right before and after the words has them in its span.
        """
        text, (folded, spans, _) = self.text, words(copied)
        if not folded:
            return
        first, last = spans[0][0], spans[-1][1]
        before, after = len(_SPACE.split(copied[:first])[-1]), len(_SPACE.split(copied[last:])[0])
        sought = copied[first - before : last + after].split()
        for run in self.index.runs(folded, start):
            begin, end = self.index.span(*run)
            marked = slice(max(begin - before, start), end + after)
            if text[marked].split() == sought:
                begin, end = marked.start, marked.stop
            is_exact = text[begin:end] == copied.strip()
            yield Match(MatchKind.EXACT if is_exact else MatchKind.FOLDED, 1.0, ((begin, end),))

    def _exact(self, value: str) -> Match | None:
        text, sought = self.text, value.strip()
        if not sought:
            return None
        length, is_word = len(sought), sought[0].isalpha()
        alone = (
            (start, start + length)
            for start in occurrences(text, sought)
            if stands_alone(text, start, start + length) and (is_word or begins_number(text, start))
        )
        spans = tuple(islice(alone, MAX_SPANS))
        return Match(MatchKind.EXACT, 1.0, spans) if spans else None

    def _as_date(self, value: str) -> Match | None:
        """The same date in another form; in part if a year has only two digits in one of them."""
        meanings = readings(value)
        if not meanings:
            return None
        found = [
            (len(said.year) != len(meant.year), span)
            for meant in meanings
            for said, span in self._dates.get(meant.key, ())
            if meant.is_in(said)
        ]
        if not found:
            return None
        is_short = min(found)[0]
        spans = sorted({span for short, span in found if short == is_short})
        apart = [span for before, span in pairwise([(0, 0), *spans]) if span[0] >= before[1]]
        kind, score = (MatchKind.PART, 0.5) if is_short else (MatchKind.FOLDED, 1.0)
        return Match(kind, score, tuple(apart[:MAX_SPANS]))

    def _in_other_letters(self, value: str) -> Match | None:
        said = words(value)
        found = _Search(self.index, value, said).best()
        if found and found.kind is MatchKind.FOLDED:
            return found
        if not (said.readings or (self._words.readings and any(w[0] == NUMBER for w in said.folded))):
            return found
        indexes = (self.index, self._reread) if self._words.readings else (self.index,)
        sayings = (said, said.reread()) if said.readings else (said,)
        _, *read = product(indexes, sayings)
        others = (_Search(index, value, each).best() for index, each in read)
        return min(filter(None, (found, *others)), key=lambda each: RANK[each.kind], default=None)

    @cached_property
    def _dates(self) -> Mapping[tuple[int, str], list[tuple[Date, tuple[int, int]]]]:
        by_month: dict[tuple[int, str], list[tuple[Date, tuple[int, int]]]] = {}
        for said, span in dates_in(self.text):
            of_month = by_month.setdefault(said.key, [])
            if len(of_month) < MOST_PLACES:
                of_month.append((said, span))
        return by_month

    @cached_property
    def _words(self) -> Words:
        return words(self.text)

    @cached_property
    def index(self) -> Index:
        """The words of the text."""
        return Index(self.text, self._words)

    @cached_property
    def _reread(self) -> Index:
        """With the other reading of the numbers that have two."""
        return Index(self.text, self._words.reread())


class _Search:
    """The search for a value that has no exact match."""

    def __init__(self, index: Index, value: str, said: Words) -> None:
        self._index = index
        self._value = value
        self._words, needed = words_of_value(value, said)
        self._needed = list(dict.fromkeys(needed))
        self._content = list(filter(is_content_word, self._needed))

    def best(self) -> Match | None:
        if not self._words:
            return None
        found = self._matches(MatchKind.FOLDED, 1.0, self._index.runs(self._words))
        if not found and len(self._words) <= _MOST_WORDS:
            forms = {word: self._index.forms(word) for word in self._words}
            found = self._matches(MatchKind.INFLECTED, 0.95, self._in_order(forms)) or self._matches(
                MatchKind.REORDERED, 0.9, self._reordered(forms)
            )
            if not found:
                similar = {word: forms[word] | self._index.similar(word) for word in forms}
                found = self._matches(MatchKind.FUZZY, 0.85, self._in_order(similar)) or self._in_part(
                    similar
                )
        return found or self._as_initials() or self._of_unspaced() or self._below_zero()

    def _matches(self, kind: MatchKind, score: float, runs: Iterable[tuple[int, int]]) -> Match | None:
        spans = tuple(self._index.span(*run) for run in islice(runs, MAX_SPANS))
        return Match(kind, score, spans) if spans else None

    def _in_order(self, alike: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
        """Runs of adjacent words, each similar to the word of the value in its position."""
        sought = [alike[word] for word in self._words]
        if not all(sought):
            return
        rarest = min(range(len(sought)), key=lambda place: sum(len(self._index.at[w]) for w in sought[place]))
        for place in self._places(sought[rarest]):
            first, last = place - rarest, place - rarest + len(sought) - 1
            if first < 0 or last >= len(self._index.words):
                continue
            there = self._index.words[first : last + 1]
            are_alike = all(word in options for word, options in zip(there, sought, strict=True))
            if are_alike and self._index.stands_alone(first, last):
                yield first, last

    def _reordered(self, alike: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
        """The shortest runs with all words but stop words, and at most one other content word."""
        needed = self._needed
        if len(needed) < 2 or any(map(UNSPACED.match, needed)) or all(word[0] == NUMBER for word in needed):
            return
        reach = max(_REACH, len(self._value) * 5 // 4)
        meant = {each: word for word in needed for each in alike[word]}
        held: deque[tuple[int, str]] = deque()
        counts: Counter[str] = Counter()
        for place in self._places(meant):
            word = meant[self._index.words[place]]
            held.append((place, word))
            counts[word] += 1
            while counts[held[0][1]] > 1:
                counts[held.popleft()[1]] -= 1
            if len(counts) == len(needed):
                first = held[0][0]
                start, end = self._index.span(first, place)
                others = self._index.content_words(first, place) - sum(is_content_word(w) for _, w in held)
                is_near = end - start <= reach and others <= 1
                if is_near and not _SENTENCE_ENDS.search(self._index.text, start, end):
                    yield first, place

    def _in_part(self, alike: Mapping[str, frozenset[str]]) -> Match | None:
        alike = {word: alike[word] | self._index.verbs(word) for word in self._content}
        stand = [word for word in self._content if alike[word]]
        telling = (word[0] != NUMBER or len(word) >= _TELLING_NUMBER for word in stand)
        if not stand or (not any(telling) and stand != self._content):
            return None
        places = self._places({each for word in stand for each in alike[word]})
        share = len(stand) / len(self._content)
        alone = ((place, place) for place in places if self._index.stands_alone(place, place))
        return self._matches(MatchKind.PART, share, alone)

    def _as_initials(self) -> Match | None:
        """WHO for the World Health Organization, and the other way round."""
        letters, indices = self._index.initials
        acronym = "".join(self._words)
        if self._value.isupper() and _ACRONYM.fullmatch(acronym):
            hits = (hit.start() for hit in re.finditer(re.escape(acronym), letters))
            runs = ((indices[at], indices[at + len(acronym) - 1]) for at in hits)
            return self._matches(MatchKind.PART, 0.5, runs)
        for each in (self._content, self._words):
            acronym = "".join(word[0] for word in each)
            if _ACRONYM.fullmatch(acronym):
                places = self._index.at.get(acronym, ())
                spans = ((place, *self._index.span(place, place)) for place in places)
                upper = (place for place, start, end in spans if self._index.text[start:end].isupper())
                if found := self._matches(MatchKind.PART, 0.5, ((place, place) for place in upper)):
                    return found
        return None

    def _of_unspaced(self) -> Match | None:
        """The longest part, at least half, of a value in a script without spaces between words."""
        letters = "".join(filter(UNSPACED.match, self._words))[:_MOST_WORDS]
        longest, end = "", 0
        for start in range(len(letters)):
            while end < len(letters) and self._index.has(letters[start : end + 1]):
                end += 1
            longest = max(longest, letters[start:end], key=len)
            end = max(end, start + 1)
        if len(longest) < max(2, (len(letters) + 1) // 2):
            return None
        return self._matches(MatchKind.PART, len(longest) / len(letters), self._index.runs(list(longest)))

    def _below_zero(self) -> Match | None:
        """A negative number whose sign stands there in words: 40 degrees below zero, a loss of 3 million."""
        if NEGATIVE not in "".join(self._words):
            return None
        runs = self._index.runs([word.replace(NEGATIVE, NUMBER) for word in self._words])
        there = self._index.words
        near = (
            (first, last)
            for first, last in runs
            if not NEGATIVE_WORDS.isdisjoint(there[max(0, first - _NEAR) : last + 1 + _NEAR])
        )
        return self._matches(MatchKind.PART, 0.5, near)

    def _places(self, sought: Iterable[str]) -> list[int]:
        """The positions of any of these words, in ascending order."""
        return list(islice(merge(*(self._index.at[word] for word in sought)), MOST_PLACES))


def words_of_value(value: str, said: Words) -> tuple[list[str], list[str]]:
    """The words of a value without stop words at both ends, and without any stop words.

    A stop word in capitals among small letters is a name: vitamin A, World War I, the IT department.
    """
    folded, spans, _ = said

    def is_name(place: int) -> bool:
        start, end = spans[place]
        return value[start:end].isupper() and (place > 0 if end - start == 1 else not value.isupper())

    telling = [place for place, word in enumerate(folded) if word not in STOP_WORDS or is_name(place)]
    if not telling:
        return folded, []
    return folded[telling[0] : telling[-1] + 1], [folded[place] for place in telling]
