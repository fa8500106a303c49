"""Where a value stands in a text, and how: the same words, other forms of them, nearly so, or in part."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from trustgraph_prompt.grounding.inflection import base_forms
from trustgraph_prompt.grounding.stop_words import STOP_WORDS
from trustgraph_prompt.grounding.words import LINE_END, NUMBER, UNSPACED, words

MAX_SPANS = 100
"""Places of one value that are told."""

_MOST_WORDS = 60  # of a value that is looked for in other forms
_MOST_PLACES = 2_000  # of one word that are gone through for a value
_MOST_COMPARED = 4_000_000  # characters, over all places of a value
_MOST_KEPT, _LONGEST_KEPT = 10_000, 1_000  # verdicts; characters of a value
_REACH = 40  # characters in which the words of a value may stand in another order
_CHARACTERS_PER_EDIT = 8  # of a word that is written a little differently
_LONGEST_RESPELT = 64
_SHORTEST_NUMBER = 4  # two digits between the marks of a number
_TELLING_NUMBER = 6  # four: of what stands there in part, they may be all

_IN_NUMBERS = ".,'’"
_JOINERS = "\u00ad\u200c\u200d\u2060"
_HYPHENS = "-\u2010"
_LINE_END = re.compile(LINE_END)
_MARGIN = 40  # characters before a word in which the line before is looked for
_ACRONYM = re.compile(r"[^\W\d_]{2,8}")
_ALIKE = str.maketrans("eykwz", "aicvs")  # letters that are written for each other


class Kind(StrEnum):
    """How a value stands in its text, the best way first."""

    EXACT = "exact"
    FOLDED = "folded"  # but for case, spaces, hyphens, quotes, accents, the way a number is written
    INFLECTED = "inflected"  # in other forms of its words
    REORDERED = "reordered"  # the same words close to each other, in another order
    FUZZY = "fuzzy"  # spelt a little differently
    PART = "part"  # not all of its words, or as initials


class Match(NamedTuple):
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
        if value in self._known:
            return self._known[value]
        found = self._exact(value) or _Search(self._index, value).best()
        if len(value) <= _LONGEST_KEPT:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[value] = found
        return found

    def _exact(self, value: str) -> Match | None:
        text, sought = self.text, value.strip()
        start = text.find(sought) if sought else -1
        if start < 0:
            return None
        length, tries = len(sought), _tries(sought)
        spans: list[tuple[int, int]] = []
        while start >= 0 and tries and len(spans) < MAX_SPANS:
            if _stands_alone(text, start, start + length):
                spans.append((start, start + length))
            start = text.find(sought, start + 1)
            tries -= 1
        return Match(Kind.EXACT, 1.0, tuple(spans)) if spans else None

    @cached_property
    def _index(self) -> _Index:
        return _Index(self.text)


def _tries(sought: str) -> int:
    """How many places of a text are compared with this: fewer, the longer it is."""
    return min(_MOST_PLACES, _MOST_COMPARED // (len(sought) or 1) + 1)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no word, and no number, of which this is a part begins before it or goes on behind it."""
    if start > 0:
        outer = text[start - 1]
        if outer != " " and _goes_on(text[start], outer, text[start - 2 : start - 1]):
            return False
        if outer.isspace() and text[start - 2].isspace() | (outer == "\n") and _is_divided(text, start):
            return False
    if end == len(text) or text[end] == " ":
        return True
    inner, outer = text[end - 1], text[end]
    if _goes_on(inner, outer, text[end + 1 : end + 2]):
        is_number_with_unit = text[start].isdigit() and inner.isdigit() and outer.isalpha()
        return is_number_with_unit and not unicodedata.combining(outer)
    return not (outer in _HYPHENS and inner.isalpha() and _LINE_END.match(text, end))


def _goes_on(inner: str, outer: str, beyond: str) -> bool:
    """Whether the character outside of a stretch belongs to what the stretch ends with."""
    if not inner.isalnum():
        return False
    if outer.isalnum():
        return not (UNSPACED.match(inner) or UNSPACED.match(outer))
    if outer in _IN_NUMBERS:
        return inner.isdigit() and beyond.isdigit()
    if outer in _JOINERS:
        return beyond.isalnum()
    return unicodedata.combining(outer) != 0


def _is_divided(text: str, start: int) -> bool:
    """Whether the word that goes on here begins in the line before."""
    margin = text[max(0, start - _MARGIN) : start]
    before = margin.rstrip()
    if before[-1:] not in _HYPHENS or not before[-2:-1].isalpha():
        return False
    line_end = _LINE_END.match(text, start - len(margin) + len(before) - 1)
    return line_end is not None and line_end.end() == start


class _Index:
    """The words of a text, and where each stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words, self._spans = words(text)
        self._squeezed = "".join(self.words)
        self._begins = [*accumulate(map(len, self.words), initial=0)]

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self._spans[first][0], self._spans[last][1]

    def stands_alone(self, first: int, last: int) -> bool:
        return _stands_alone(self.text, *self.span(first, last))

    def has(self, squeezed: str) -> bool:
        """Whether these letters stand there, be it as whole words or not."""
        return squeezed in self._squeezed

    def runs(self, sought: Sequence[str]) -> Iterator[tuple[int, int]]:
        """The first and last word of each place where these words stand, be they divided differently."""
        squeezed = "".join(sought)
        offset = self._squeezed.find(squeezed)
        for _ in range(_tries(squeezed)):
            if offset < 0:
                return
            first = bisect_left(self._begins, offset)
            behind = bisect_left(self._begins, offset + len(squeezed), first)
            whole = self._begins[first] == offset and self._begins[behind] == offset + len(squeezed)
            if whole and self._says_the_same(first, behind, sought) and self.stands_alone(first, behind - 1):
                yield first, behind - 1
            offset = self._squeezed.find(squeezed, offset + 1)

    def _says_the_same(self, first: int, behind: int, sought: Sequence[str]) -> bool:
        """Whether words are only divided differently: a data base, U.S.A.; but no therapist is the rapist."""
        there = self.words[first:behind]
        if there == sought or all(len(word) == 1 for word in max(there, sought, key=len)):
            return True
        return not any(word in STOP_WORDS and (len(word) > 1 or word == "a") for word in {*there} ^ {*sought})

    def forms(self, word: str) -> frozenset[str]:
        """Its words that are other forms of this one, or the same."""
        return frozenset(each for base in base_forms(word) for each in self._by_base.get(base, ()))

    def similar(self, word: str) -> frozenset[str]:
        """Its words that are spelt nearly like this one: one letter in eight more, less, swapped or alike."""
        found: set[str] = set()
        for base in base_forms(word):
            edits = len(base) // _CHARACTERS_PER_EDIT
            near = self._by_ends.get((base[0], base[-1])) if edits and len(base) <= _LONGEST_RESPELT else None
            if near:
                hits = process.extract(base, near, scorer=OSA.distance, score_cutoff=edits, limit=None)
                for each in (hit[0] for hit in hits if _is_respelt(base, hit[0])):
                    found.update(self._by_base[each])
        return frozenset(found)

    def says_something(self, first: int, last: int) -> int:
        """How many of these words do."""
        return self._saying[last + 1] - self._saying[first]

    @cached_property
    def at(self) -> Mapping[str, list[int]]:
        """The places of each word."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self.words):
            found[word].append(place)
        return found

    @cached_property
    def _saying(self) -> list[int]:
        return [*accumulate(map(_says_something, self.words), initial=0)]

    @cached_property
    def _by_base(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for word in self.at:
            for base in base_forms(word):
                found[base].append(word)
        return found

    @cached_property
    def _by_ends(self) -> dict[tuple[str, str], list[str]]:
        """Long words by what they begin and end with: these letters are rarely mistaken."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for base in self._by_base:
            near = found[base[0], base[-1]]
            is_spelt = base[0] != NUMBER and _CHARACTERS_PER_EDIT <= len(base) <= _LONGEST_RESPELT
            if is_spelt and len(near) < _MOST_PLACES:
                near.append(base)
        return found

    @cached_property
    def initials(self) -> tuple[str, list[int]]:
        """The first letters of its capitalised words, a blank for each other one that says something."""
        letters, indices = [], []
        for index, word in enumerate(self.words):
            if self.text[self._spans[index][0]].isupper():
                letters.append(word[0])
            elif word in STOP_WORDS:
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
        self._words, needed = _words_of_value(value)
        self._needed = list(dict.fromkeys(needed))
        self._content = list(filter(_says_something, self._needed))

    def best(self) -> Match | None:
        if not self._words:
            return None
        found = self._matches(Kind.FOLDED, 1.0, self._index.runs(self._words))
        if not found and len(self._words) <= _MOST_WORDS:
            forms = {word: self._index.forms(word) for word in self._words}
            found = self._matches(Kind.INFLECTED, 0.95, self._in_order(forms)) or self._matches(
                Kind.REORDERED, 0.9, self._reordered(forms)
            )
            if not found:
                similar = {word: forms[word] | self._index.similar(word) for word in forms}
                found = self._matches(Kind.FUZZY, 0.85, self._in_order(similar)) or self._in_part(similar)
        return found or self._as_initials() or self._of_unspaced()

    def _matches(self, kind: Kind, score: float, runs: Iterable[tuple[int, int]]) -> Match | None:
        spans = tuple(self._index.span(*run) for run in islice(runs, MAX_SPANS))
        return Match(kind, score, spans) if spans else None

    def _in_order(self, alike: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
        """Where the words stand side by side, each as one of those that are like it."""
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
        """The shortest stretches that hold all words but stop words, and one other that says something."""
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
                others = self._index.says_something(first, place) - sum(_says_something(w) for _, w in held)
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
        acronym = "".join(self._words)
        if self._value.isupper() and _ACRONYM.fullmatch(acronym):
            hits = (hit.start() for hit in re.finditer(re.escape(acronym), letters))
            runs = ((indices[at], indices[at + len(acronym) - 1]) for at in hits)
            return self._matches(Kind.PART, 0.5, runs)
        for said in (self._content, self._words):
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
        letters = "".join(filter(UNSPACED.match, self._words))[:_MOST_WORDS]
        longest, end = "", 0
        for start in range(len(letters)):
            while end < len(letters) and self._index.has(letters[start : end + 1]):
                end += 1
            longest = max(longest, letters[start:end], key=len)
            end = max(end, start + 1)
        if len(longest) < max(2, (len(letters) + 1) // 2):
            return None
        return self._matches(Kind.PART, len(longest) / len(letters), self._index.runs(list(longest)))

    def _places(self, sought: Iterable[str]) -> list[int]:
        """Where any of these words stand, in the order of the text."""
        each = (self._index.at[word] for word in sought)
        return sorted(islice(chain.from_iterable(each), _MOST_PLACES))


def _words_of_value(value: str) -> tuple[list[str], list[str]]:
    """Its words without articles and the like at both ends, and those that are none at all.

    What is written in capitals within small letters is a name: vitamin A, World War I, the IT department.
    """
    folded, spans = words(value)
    in_capitals = value.isupper()
    telling = []
    for place, (word, (start, end)) in enumerate(zip(folded, spans, strict=True)):
        is_name = value[start:end].isupper() and (place > 0 if end - start == 1 else not in_capitals)
        if is_name or word not in STOP_WORDS:
            telling.append(place)
    if not telling:
        return folded, []
    return folded[telling[0] : telling[-1] + 1], [folded[place] for place in telling]


def _says_something(word: str) -> bool:
    """Whether a text that has this word in common with another speaks of the same."""
    if word[0] == NUMBER:
        return len(word) >= _SHORTEST_NUMBER
    shortest = 3 if word < "\u0590" else 2
    return len(word) >= shortest and word not in STOP_WORDS and not UNSPACED.match(word)


def _is_respelt(word: str, other: str) -> bool:
    """Whether no letter stands for quite another one: an absorption is no adsorption."""
    one, two = Counter(word.translate(_ALIKE)), Counter(other.translate(_ALIKE))
    return one <= two or two <= one
