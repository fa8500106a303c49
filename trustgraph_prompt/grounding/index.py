"""Index of the words of a text: finds them as they are, divided differently, inflected or misspelt."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, takewhile

from trustgraph_prompt.grounding.declension import Family, families_of, family_of_alphabet
from trustgraph_prompt.grounding.inflection import base_forms, hebrew_forms, verb_forms
from trustgraph_prompt.grounding.languages import languages_of
from trustgraph_prompt.grounding.numbers import EXPONENT, NUMBER
from trustgraph_prompt.grounding.words import LINE_END, STOP_WORDS, UNSPACED, Words

MOST_PLACES = 2_000
"""Occurrences of one word that are examined for a value."""

_MOST_COMPARED = 4_000_000  # characters, over all occurrences of a value
_CHARACTERS_PER_EDIT = 8  # of a misspelt word
_LONGEST_RESPELT = 64
_SHORTEST_NUMBER = 4  # two digits and the delimiters of a number

_MOST_BEGINNING = 500  # words with the same beginning that are compared
_IN_NUMBERS = ".,'’"
_JOINERS = frozenset("\u00ad\u200c\u200d\u2060")
_NON_JOINER = "\u200c"  # separates endings in the Arabic script
_VARIANTS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # select the form of a character
_EXPONENT = re.compile(EXPONENT)
_HYPHENS = "-\u2010"
_LINE_END = re.compile(LINE_END)
_MARGIN = 40  # characters before a word that are searched for the end of the previous line
_ALIKE = str.maketrans("eykwz", "aicvs")  # letters that are often confused


def occurrences(text: str, sought: str, start: int = 0) -> Iterator[int]:
    """Where a text has `sought`, which is not empty, from `start` on; of a long one fewer are compared."""
    start = text.find(sought, start)
    for _ in range(min(MOST_PLACES, _MOST_COMPARED // len(sought) + 1)):
        if start < 0:
            return
        yield start
        start = text.find(sought, start + 1)


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] is not part of a longer word or number."""
    if start > 0:
        outer = text[start - 1]
        if outer != " " and _is_within_word(text, start):
            return False
        if outer.isspace() and text[start - 2].isspace() | (outer == "\n") and _is_divided(text, start):
            return False
    if end == len(text) or text[end] == " ":
        return True
    inner, outer = text[end - 1], text[end]
    if _is_within_word(text, end):
        is_number_before_unit = not text[start].isalpha() and inner.isdigit() and outer.isalpha()
        return is_number_before_unit and not _EXPONENT.match(text, end)
    return not (outer in _HYPHENS and inner.isalpha() and _LINE_END.match(text, end))


def _is_within_word(text: str, at: int) -> bool:
    """Whether the characters before and after `at` belong to one word or number."""
    before, after = text[at - 1], text[at]
    if after in _IN_NUMBERS:
        return before.isdigit() and text[at + 1 : at + 2].isdigit()
    if before in _IN_NUMBERS:
        return after.isdigit() and text[at - 2 : at - 1].isdigit()
    bearer = at - 1
    while bearer > 0 and not text[bearer].isalnum() and _joins(text[bearer]):
        bearer -= 1
    before = text[bearer]
    if not before.isalnum():
        return False
    if not after.isalnum():
        if not _joins(after):
            return False
        if after not in _JOINERS and not _VARIANTS.match(after):
            return True
        if after == _NON_JOINER and "\u0620" <= before <= "\u06ff":
            return False
        after = text[at + 1 : at + 2]
    return after.isalnum() and not (UNSPACED.match(before) or UNSPACED.match(after))


def _joins(character: str) -> bool:
    """Whether it belongs to the letter before it, or joins the letters on both sides."""
    return character > "\x7f" and (character in _JOINERS or unicodedata.category(character)[0] == "M")


def _is_divided(text: str, start: int) -> bool:
    """Whether the word at `start` continues a word that is hyphenated at the end of the previous line."""
    margin = text[max(0, start - _MARGIN) : start]
    before = margin.rstrip()
    if before[-1:] not in _HYPHENS or not before[-2:-1].isalpha():
        return False
    line_end = _LINE_END.match(text, start - len(margin) + len(before) - 1)
    return line_end is not None and line_end.end() == start


class Index:
    """The words of a text and their positions. A run is a pair of the first and the last word."""

    def __init__(self, text: str, split: Words) -> None:
        self.text = text
        self.words, self._spans, _ = split
        self._squeezed = "".join(self.words)
        self._begins = [*accumulate(map(len, self.words), initial=0)]

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self._spans[first][0], self._spans[last][1]

    def stands_alone(self, first: int, last: int) -> bool:
        return stands_alone(self.text, *self.span(first, last))

    def has(self, squeezed: str) -> bool:
        """Whether the text without spaces has these letters, as whole words or not."""
        return squeezed in self._squeezed

    def runs(self, sought: Sequence[str], start: int = 0) -> Iterator[tuple[int, int]]:
        """The runs of these words from `start` on, also if these are divided differently (data base)."""
        squeezed = "".join(sought)
        begin = self._begins[bisect_left(self._spans, (start, 0))]
        for offset in occurrences(self._squeezed, squeezed, begin):
            first = bisect_left(self._begins, offset)
            behind = bisect_left(self._begins, offset + len(squeezed), first)
            aligned = self._begins[first] == offset and self._begins[behind] == offset + len(squeezed)
            if aligned and self._is_redivided(first, behind, sought) and self.stands_alone(first, behind - 1):
                yield first, behind - 1

    def _is_redivided(self, first: int, behind: int, sought: Sequence[str]) -> bool:
        """Whether words are only divided differently: data base, U.S.A.; but not therapist, the rapist."""
        there = self.words[first:behind]
        if there == sought or all(len(word) == 1 for word in max(there, sought, key=len)):
            return True
        return not any(word in STOP_WORDS and (len(word) > 1 or word == "a") for word in {*there} ^ {*sought})

    def forms(self, word: str) -> frozenset[str]:
        """The words of the text that have a base form in common with `word`, or are its inflected forms."""
        found = frozenset(each for base in base_forms(word) for each in self._by_base.get(base, ()))
        if word[0] < "\u0250":
            return found.union(self._declined(word, self._latin)) if self._latin else found
        if "\u05d0" <= word[0] <= "\u05ea":
            return found.union(each for each in hebrew_forms(word) if each in self.at)
        return found.union(self._declined(word, family_of_alphabet(word[0])))

    def _declined(self, word: str, families: Sequence[Family]) -> Iterator[str]:
        """The words that are forms of a name in base form.

        If the text may be of several families, only capitalised words with an ending of two letters.
        """
        for family in families:
            for stem, endings in family.stems(word):
                for each in self._beginning(stem):
                    if endings.fullmatch(each, len(stem)) and (
                        len(families) == 1 or (len(each) >= len(stem) + 2 and self.is_capital(each))
                    ):
                        yield each

    def similar(self, word: str) -> frozenset[str]:
        """The words of the text that are nearly spelt like `word`: with one edit for every eight letters."""
        from rapidfuzz import process  # takes as long to import as the rest of this package
        from rapidfuzz.distance import OSA

        found: set[str] = set()
        for base in base_forms(word):
            edits = len(base) // _CHARACTERS_PER_EDIT
            near = self._by_ends.get((base[0], base[-1])) if edits and len(base) <= _LONGEST_RESPELT else None
            if near:
                hits = process.extract(base, near, scorer=OSA.distance, score_cutoff=edits, limit=None)
                for each in (hit[0] for hit in hits if _is_misspelling(base, hit[0])):
                    found.update(self._by_base[each])
        return frozenset(found)

    def verbs(self, word: str) -> frozenset[str]:
        """The words of the text that are forms of the same English verb: burn, burning, burned."""
        return frozenset(each for each in verb_forms(word) if each in self.at)

    def words_within(self, start: int, end: int) -> list[str]:
        """The words that begin between these positions of the text."""
        return self.words[bisect_left(self._spans, (start,)) : bisect_left(self._spans, (end,))]

    def content_words(self, first: int, last: int) -> int:
        """How many words of a run are content words."""
        return self._content_before[last + 1] - self._content_before[first]

    def is_capital(self, word: str) -> bool:
        """Whether a word of the text is capitalised where it occurs first."""
        return self.text[self._spans[self.at[word][0]][0]].isupper()

    @cached_property
    def languages(self) -> frozenset[str]:
        """The languages that the text may be in, by its stop words; see `languages_of`."""
        return languages_of({word: len(places) for word, places in self.at.items()})

    @cached_property
    def _latin(self) -> Sequence[Family]:
        return families_of(self.at, self.text)

    def _beginning(self, letters: str) -> Iterator[str]:
        """The words of the text that begin with these letters."""
        at = bisect_left(self._in_order, letters)
        some = self._in_order[at : at + _MOST_BEGINNING]
        return takewhile(lambda word: word.startswith(letters), some)

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self.at)

    @cached_property
    def at(self) -> Mapping[str, list[int]]:
        """The positions of each word."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self.words):
            found[word].append(place)
        return found

    @cached_property
    def _content_before(self) -> list[int]:
        return [*accumulate(map(is_content_word, self.words), initial=0)]

    @cached_property
    def _by_base(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for word in self.at:
            for base in base_forms(word):
                found[base].append(word)
        return found

    @cached_property
    def _by_ends(self) -> dict[tuple[str, str], list[str]]:
        """Long words by their first and last letter, which are rarely misspelt."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for base in self._by_base:
            near = found[base[0], base[-1]]
            is_spelt = base[0] != NUMBER and _CHARACTERS_PER_EDIT <= len(base) <= _LONGEST_RESPELT
            if is_spelt and len(near) < MOST_PLACES:
                near.append(base)
        return found

    @cached_property
    def initials(self) -> tuple[str, list[int]]:
        """First letters of capitalised words, a blank for each other content word; and their positions."""
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


def is_content_word(word: str) -> bool:
    """Whether a word carries meaning: no stop word, no short number, no single character."""
    if word[0] == NUMBER:
        return len(word) >= _SHORTEST_NUMBER
    shortest = 3 if word < "\u0590" else 2
    return len(word) >= shortest and word not in STOP_WORDS and not UNSPACED.match(word)


def _is_misspelling(word: str, other: str) -> bool:
    """Whether letters are added, dropped, swapped or confused, but none replaced (absorption, adsorption)."""
    one, two = Counter(word.translate(_ALIKE)), Counter(other.translate(_ALIKE))
    return one <= two or two <= one
