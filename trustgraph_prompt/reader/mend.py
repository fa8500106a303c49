"""Broken JSON to the value that was meant: `mend` gives the likeliest reading, `readings` the others, too."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any

from trustgraph_prompt.reader.mend_brackets import NOTHING
from trustgraph_prompt.reader.mend_descent import Descent
from trustgraph_prompt.reader.mend_grammar import QUOTES, SPACE, Doubt, Doubts, Edit, Unmendable

__all__ = ["Edit", "Mended", "Unmendable", "mend", "readings"]

_NO_NAMES: frozenset[str] = frozenset()

# What is no array: a reference, an interval, a link. `[words]` are one only where they stand alone in a line.
_REFERENCE = re.compile(r"\[\s*+\d{1,3}\s*+\](?:\(|[ \t]++[^\W\d])|\[[^][(){}\"'\n]*+\)|\[[^][{}\"'\n]*+\]\(")
_SAYS_MORE = re.compile(
    rf"\[(?:{SPACE}[\[,，])*+{SPACE}(?:[{QUOTES}\[{{(\d.\-+\]]|//|/\*|#\s|\Z|[tfn]\w*+{SPACE}(?:[,\]]|\Z)|(?:True|False|None)\b)"
)
_WORDS_ALONE = re.compile(r"\[[^][{}]*(?:,\s*+[{\[]|\][ \t]*+[,;.]?[ \t]*+(?:\r?\n|\Z|`)|\Z)")
_ALONE_BEFORE = re.compile(r"(?:\A|[\n:=(`])[ \t]*\Z")
_FORMAT = re.compile(r"\{\w*:(?:[<>^#,][^\s{}]{0,8}|(?=[^}]?[\d.])[ +]?\d*\.?\d*[bcdeEfFgGnosxX%])\}")

# JSON in another notation: escaped as within a string, once or more often; quotes doubled as in CSV; HTML.
_NOTATION = re.compile(
    r"(?:[\[{]|\s|\\[nrt]){1,40}?(?:(\\{1,31})[\"']|(\"\")[^\s\",:}\]][^\"\n]*+\"\"(?!\")|&(?:quot|#34|#x22|apos|#39);)"
)
_ESCAPE = re.compile(r"\\([\"\\/'nrt])")
_DOUBLED = re.compile(r'""')
_ENTITY = re.compile(r"&#?\w{1,8};")
_MARKS = {"n": "\n", "r": "\r", "t": "\t"}
_SEGMENT = 4096  # characters of another notation that are read at first, to find where the value ends


@dataclass(frozen=True, slots=True)
class Mended:
    """A value, where it ends, what was done to read it, and whether the text ended within it.

    Without edits and not cut, it was plain JSON.
    """

    value: Any
    end: int
    edits: tuple[Edit, ...] = ()
    cut: bool = False


def mend(
    text: str, start: int = 0, *, names: frozenset[str] = _NO_NAMES, max_depth: int = 200
) -> Mended | None:
    """The likeliest reading of the value whose `{` or `[` is at `start`; None where no value was meant.

    `names` are the properties that a schema declares: they decide what is a key where quotes are missing.
    Raises `Unmendable`.
    """
    return next(readings(text, start, names=names, max_depth=max_depth), None)


def readings(
    text: str, start: int = 0, *, names: frozenset[str] = _NO_NAMES, max_depth: int = 200, limit: int = 16
) -> Iterator[Mended]:
    """At most `limit` readings of the value at `start`, the likeliest first; each takes linear time.

    The others read the doubtful places in another way: all of a kind at once, then each alone.
    Raises `Unmendable`.
    """
    if not _is_meant(text, start):
        return
    doubts = Doubts({})
    first = _read(text, start, names, doubts, max_depth)
    if first is None:
        return
    yield first
    for taken in _other_ways(doubts.met)[: limit - 1]:
        other = _read(text, start, names, Doubts(taken), max_depth)
        if other is not None:
            yield other


def _other_ways(doubts: list[Doubt]) -> list[dict[tuple[str, int | None], int]]:
    kinds: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        kinds.setdefault(doubt.what, []).append(doubt)
    whole: list[dict[tuple[str, int | None], int]] = [
        {(what, None): way} for what, some in kinds.items() for way in range(1, some[0].ways)
    ]
    return whole + [
        {(doubt.what, doubt.offset): way}
        for doubt in doubts
        if len(kinds[doubt.what]) > 1
        for way in range(1, doubt.ways)
    ]


def _read(text: str, start: int, names: frozenset[str], doubts: Doubts, max_depth: int) -> Mended | None:
    if notation := _NOTATION.match(text, start):
        return _read_notation(text, start, notation, names, doubts, max_depth)
    return _descend(text, start, names, doubts, max_depth)


def _read_notation(
    text: str, start: int, notation: re.Match[str], names: frozenset[str], doubts: Doubts, max_depth: int
) -> Mended | None:
    """The value at `start` in another notation; no more of the text than it needs is rewritten."""
    size = _SEGMENT
    while True:
        doubts.met.clear()
        plain = _Rewritten(text[start : start + size], notation)
        try:
            mended = _descend(plain.text, 0, names, doubts, max_depth)
        except Unmendable as refused:
            raise Unmendable(str(refused), start + plain.source(refused.offset)) from None
        if mended is None:
            return None
        if not mended.cut or start + size >= len(text):
            edits = [Edit(start + plain.source(offset), what) for offset, what in mended.edits]
            edits.insert(0, Edit(start, "JSON in another notation"))
            return Mended(mended.value, start + plain.source(mended.end), tuple(edits), mended.cut)
        size *= 4


class _Rewritten:
    """A text out of another notation, and which place of the one each place of the other comes from."""

    def __init__(self, source: str, notation: re.Match[str]) -> None:
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


def _descend(text: str, start: int, names: frozenset[str], doubts: Doubts, max_depth: int) -> Mended | None:
    descent = Descent(text, names, doubts, max_depth)
    value = descent.read(start)
    if value is NOTHING:
        return None
    return Mended(value, descent.end, tuple(descent.edits), descent.cut)


def _is_meant(text: str, start: int) -> bool:
    """Whether the bracket at `start` may begin a value: it is no reference, no link, no word of the prose."""
    if text[start : start + 1] == "{":
        return not _FORMAT.match(text, start)
    if text[start : start + 1] != "[" or _REFERENCE.match(text, start):
        return False
    if _NOTATION.match(text, start) or _SAYS_MORE.match(text, start):
        return True
    before = text[max(0, start - 40) : start]
    return _ALONE_BEFORE.search(before) is not None and _WORDS_ALONE.match(text, start) is not None
