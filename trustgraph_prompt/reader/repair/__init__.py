"""Broken JSON to the value that was meant: `repair` gives the likeliest reading, `readings` the others, too.

`prose` tells what is no value, `notation` unwraps what is written in another one. `parser` reads the rest:
`strings` and `words` say where a value ends, `brackets` which of them a closing one is for. What can be read
in several ways is put down in `ambiguities`, and read in the others on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.reader.repair.brackets import NOTHING
from trustgraph_prompt.reader.repair.edits import Ambiguities, Edit, RepairBudget, Unrepairable, other_ways
from trustgraph_prompt.reader.repair.notation import Notation, Rewritten, notation_at
from trustgraph_prompt.reader.repair.parser import Parser
from trustgraph_prompt.reader.repair.prose_brackets import is_meant
from trustgraph_prompt.reader.repair.value_starts import ValueStart, ValueStarts

__all__ = [
    "Edit",
    "RepairBudget",
    "RepairedValue",
    "Unrepairable",
    "ValueStart",
    "ValueStarts",
    "mend",
    "readings",
]

_NO_NAMES: frozenset[str] = frozenset()
_CHARACTERS_A_STEP = 100  # that are read in runs
_REWRITTEN_A_STEP = 20
_SEGMENT = 4096  # characters of another notation that are read at first, to find where the value ends


@dataclass(frozen=True, slots=True)
class RepairedValue:
    """A value, where it ends, what was done to read it, and whether the text ended within it.

    `dropped` is whether what the text ended with was left out, `half` whether it is text that may go on.
    Without edits and not cut, it was plain JSON.
    """

    value: Any
    end: int
    edits: tuple[Edit, ...] = ()
    cut: bool = False
    dropped: bool = False
    half: bool = False


def repair(
    text: str, start: int = 0, *, names: frozenset[str] = _NO_NAMES, max_depth: int = 200
) -> RepairedValue | None:
    """The likeliest reading of the value whose `{` or `[` is at `start`; None where no value was meant.

    `names` are the properties that a schema declares: they decide what is a key where quotes are missing.
    Raises `Unrepairable`.
    """
    return next(readings(text, start, names=names, max_depth=max_depth), None)


def readings(
    text: str,
    start: int = 0,
    *,
    lost: str = "",
    names: frozenset[str] = _NO_NAMES,
    max_depth: int = 200,
    limit: int = 16,
    effort: RepairBudget | None = None,
) -> Iterator[RepairedValue]:
    """At most `limit` readings of the value at `start`, the likeliest first.

    The others read the doubtful places in another way: all of a kind at once, then each alone. `lost` is the
    bracket that is missing at `start`. `effort` bounds them all, and may be shared with other values. Raises
    `Unrepairable` where there is no reading, and where effort is spent.
    """
    effort = effort or RepairBudget()
    effort.spend(start)
    if not lost and not is_meant(text, start):
        return
    reader = _Reader(text, start, lost, names, max_depth, effort)
    ambiguities = Ambiguities({})
    first = reader.read(ambiguities)
    if first is None:
        return
    yield first
    for taken in other_ways(ambiguities.met)[: limit - 1]:
        effort.spend(start, (first.end - start) // _CHARACTERS_A_STEP)
        other = reader.read(Ambiguities(taken))
        if other is not None:
            yield other


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one value of a text as often as there are ways to."""

    text: str
    start: int
    lost: str
    names: frozenset[str]
    max_depth: int
    effort: RepairBudget

    def read(self, ambiguities: Ambiguities) -> RepairedValue | None:
        if notation := notation_at(self.text, self.start):
            return self._read_notation(notation, ambiguities)
        return self._descend(self.text, self.start, ambiguities)

    def _read_notation(self, notation: Notation, ambiguities: Ambiguities) -> RepairedValue | None:
        """The value in another notation; no more of the text than it needs is rewritten."""
        text, start, size = self.text, self.start, _SEGMENT
        while True:
            ambiguities.met.clear()
            self.effort.spend(start, min(size, len(text) - start) // _REWRITTEN_A_STEP)
            plain = Rewritten(text[start : start + size], notation)
            try:
                mended = self._descend(plain.text, 0, ambiguities)
            except Unrepairable as refused:
                raise Unrepairable(str(refused), start + plain.source(refused.offset)) from None
            if mended is None:
                return None
            if not mended.cut or start + size >= len(text):
                edits = [Edit(start + plain.source(offset), what) for offset, what in mended.edits]
                edits.insert(0, Edit(start, "JSON in another notation"))
                return replace(mended, end=start + plain.source(mended.end), edits=tuple(edits))
            size *= 4

    def _descend(self, text: str, start: int, ambiguities: Ambiguities) -> RepairedValue | None:
        parser = Parser(text, self.names, ambiguities, self.effort, self.max_depth)
        value = parser.read(start, self.lost)
        if value is NOTHING:
            return None
        return RepairedValue(value, parser.end, tuple(parser.edits), parser.cut, parser.dropped, parser.half)
