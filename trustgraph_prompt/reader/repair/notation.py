"""Undoes other notations of JSON: escaped as in a string, once or more; quotes doubled as in CSV; HTML."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from html import unescape

_NOTATION = re.compile(
    r"(?:[\[{]|\s|\\[nrt]){1,40}?(?:(\\{1,31})[\"']|(\"\")[^\s\",:}\]][^\"\n]*+\"\"(?!\")|&(?:quot|#34|#x22|apos|#39);)"
)
_ESCAPE = re.compile(r"\\([\"\\/'nrt])")
_DOUBLED = re.compile(r'""')
_ENTITY = re.compile(r"&#?\w{1,8};")
_MARKS = {"n": "\n", "r": "\r", "t": "\t"}

Notation = re.Match[str]


def notation_at(text: str, start: int) -> Notation | None:
    """The notation of the value whose bracket is at `start`; None if it is plain, broken or not."""
    return _NOTATION.match(text, start)


class Rewritten:
    """The `text` that a source in another notation stands for, and the origin of each character."""

    def __init__(self, source: str, notation: Notation) -> None:
        self.text = source
        self._steps: list[tuple[list[int], list[int]]] = []
        backslashes, doubled = notation[1], notation[2]
        if backslashes:
            for _ in range(len(backslashes).bit_length()):
                self._rewrite(_ESCAPE, lambda escape: _MARKS.get(escape[1], escape[1]))
        elif doubled:
            self._rewrite(_DOUBLED, lambda _: '"')
        else:
            self._rewrite(_ENTITY, lambda entity: unescape(entity[0]))

    def source(self, offset: int) -> int:
        """The position in the source of the character at `offset` of the text."""
        for rewritten, source in reversed(self._steps):
            step = bisect_right(rewritten, offset) - 1
            offset = source[step] + offset - rewritten[step]
        return offset

    def _rewrite(self, pattern: re.Pattern[str], meaning: Callable[[re.Match[str]], str]) -> None:
        parts: list[str] = []
        rewritten, source = [0], [0]
        done = length = 0
        for match in pattern.finditer(self.text):
            parts += self.text[done : match.start()], meaning(match)
            length += len(parts[-2]) + len(parts[-1])
            done = match.end()
            rewritten.append(length)
            source.append(done)
        self.text = "".join(parts) + self.text[done:]
        self._steps.append((rewritten, source))
