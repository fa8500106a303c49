"""A text with its white space folded, in which line breaks do not matter."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

_WORD = re.compile(r"\S+")


class Unwrapped:
    """`text` has a single space for all white space between two words; `outer` converts its positions."""

    def __init__(self, original: str) -> None:
        self.text = " ".join(original.split())
        spans = [word.span() for word in _WORD.finditer(original)]
        self._outer = [start for start, _ in spans] or [0]
        self._inner = [*accumulate((end - start + 1 for start, end in spans), initial=0)]

    def outer(self, start: int, end: int) -> tuple[int, int]:
        """Where in the original a part of `text` stands that begins and ends with a word."""
        return self._outer_of(start), self._outer_of(end - 1) + 1

    def inner(self, at: int) -> int:
        """Where in `text` the original goes on from a position."""
        word = max(bisect_right(self._outer, at) - 1, 0)
        return min(self._inner[word] + max(at - self._outer[word], 0), self._inner[word + 1] - 1)

    def _outer_of(self, at: int) -> int:
        word = bisect_right(self._inner, at) - 1
        return self._outer[word] + at - self._inner[word]
