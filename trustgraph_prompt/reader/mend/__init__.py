"""Broken JSON to the value that was meant: `mend` gives the likeliest reading, `readings` the others, too.

`prose` tells what is no value, `notation` unwraps what is written in another one. `descent` reads the rest:
`strings` and `words` say where a value ends, `brackets` which of them a closing one is for. What can be read
in several ways is put down in `doubts`, and read in the others on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.reader.mend.brackets import NOTHING
from trustgraph_prompt.reader.mend.descent import Descent
from trustgraph_prompt.reader.mend.doubts import Doubts, Edit, Unmendable, other_ways
from trustgraph_prompt.reader.mend.notation import Notation, Rewritten, notation_at
from trustgraph_prompt.reader.mend.prose import is_meant

__all__ = ["Edit", "Mended", "Unmendable", "mend", "readings"]

_NO_NAMES: frozenset[str] = frozenset()
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
    if not is_meant(text, start):
        return
    doubts = Doubts({})
    first = _read(text, start, names, doubts, max_depth)
    if first is None:
        return
    yield first
    for taken in other_ways(doubts.met)[: limit - 1]:
        other = _read(text, start, names, Doubts(taken), max_depth)
        if other is not None:
            yield other


def _read(text: str, start: int, names: frozenset[str], doubts: Doubts, max_depth: int) -> Mended | None:
    if notation := notation_at(text, start):
        return _read_notation(text, start, notation, names, doubts, max_depth)
    return _descend(text, start, names, doubts, max_depth)


def _read_notation(
    text: str, start: int, notation: Notation, names: frozenset[str], doubts: Doubts, max_depth: int
) -> Mended | None:
    """The value at `start` in another notation; no more of the text than it needs is rewritten."""
    size = _SEGMENT
    while True:
        doubts.met.clear()
        plain = Rewritten(text[start : start + size], notation)
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


def _descend(text: str, start: int, names: frozenset[str], doubts: Doubts, max_depth: int) -> Mended | None:
    descent = Descent(text, names, doubts, max_depth)
    value = descent.read(start)
    if value is NOTHING:
        return None
    return Mended(value, descent.end, tuple(descent.edits), descent.cut)
