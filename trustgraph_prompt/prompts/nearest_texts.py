"""Finds the texts that are nearest to another one by the rarest words that they share (BM25)."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import nlargest
from math import log
from typing import Final, Literal, NamedTuple

from trustgraph_prompt.grounding.words import STOP_WORDS, words

By = Literal["nearest", "first"]

MOST_LOOKED_AT: Final = 100
"""Texts that a choice looks at: a passage that contains that many of the nearest ones is shown none."""

_MOST_SCORED: Final = 8_000
"""Occurrences of words that are scored, beginning with the rarest word, so that a choice takes no longer with
more texts or with a longer passage. Common words hardly change which texts are the nearest."""

CHOOSING, READING = 300_000, 30
"""Steps of a choice, and for each character of its passage, as `compute_thread` counts them."""

_K1, _B = 1.2, 0.75  # of BM25: how soon more occurrences no longer count, and how much the length does


class Choice(NamedTuple):
    """The positions of the chosen texts, the best first, and how many were left out for them.

    Left out is a text that contains the passage or is contained in it: it may be the same one.
    """

    rows: list[int]
    left_out: int


class NearestTexts:
    """An index of texts, built once and never changed, so that threads may share it.

    Words are those of grounding, so texts without spaces have some, too. Case, punctuation and layout make no
    difference.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        folded = [words(text).folded for text in texts]
        self._joined = list(map(_joined, folded))
        average = sum(map(len, folded)) / max(len(folded), 1) or 1.0
        self._places: dict[str, tuple[array[int], array[float]]] = {}  # of each word: texts, its weight there
        for row, each in enumerate(folded):
            damping = _K1 * (1 - _B + _B * len(each) / average)
            for word, times in Counter(each).items():
                if word not in STOP_WORDS:
                    rows, weights = self._places.setdefault(word, (array("L"), array("f")))
                    rows.append(row)
                    weights.append(times / (times + damping))

    def choose(self, passage: str, count: int, by: By) -> Choice:
        """Choose at most `count` texts: the nearest that share a word with the passage, or the first ones."""
        folded = words(passage).folded
        own = _joined(folded)
        rows: list[int] = []
        left_out = 0
        for row in self._nearest(folded) if by == "nearest" else range(len(self._joined))[:MOST_LOOKED_AT]:
            if len(rows) == count:
                break
            if self._joined[row] in own or own in self._joined[row]:
                left_out += 1
            else:
                rows.append(row)
        return Choice(rows, left_out)

    def _nearest(self, folded: Sequence[str]) -> list[int]:
        known = sorted((len(self._places[word][0]), word) for word in set(folded) if word in self._places)
        scores: defaultdict[int, float] = defaultdict(float)
        left = _MOST_SCORED
        for count, word in known:
            if scores and count > left:
                break
            left -= count
            rarity = log(1 + (len(self._joined) - count + 0.5) / (count + 0.5))
            for row, weight in zip(*self._places[word], strict=True):
                scores[row] += rarity * weight
        return nlargest(MOST_LOOKED_AT, scores, key=lambda row: (scores[row], -row))


def _joined(folded: Sequence[str]) -> str:
    return f" {' '.join(folded)} "
