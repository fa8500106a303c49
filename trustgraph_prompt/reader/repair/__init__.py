"""Reads broken JSON: `readings` yields the values that may have been meant, the likeliest first.

`value_starts` finds values, `notation` undoes escaping and other notations, `parser` reads the rest:
`strings` and `bare_values` say where a scalar ends, `brackets` which of them a closing one is for. Places
that can be read in several ways are recorded (`edits`), so that `readings` can read them in the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.outcome import Edit
from trustgraph_prompt.reader.repair.ambiguities import (
    Ambiguities,
    RepairBudget,
    Unrepairable,
    other_ways,
)
from trustgraph_prompt.reader.repair.brackets import NOTHING
from trustgraph_prompt.reader.repair.notation import Notation, Rewritten, notation_at
from trustgraph_prompt.reader.repair.parser import Parser
from trustgraph_prompt.reader.repair.value_starts import ValueStart, ValueStarts, may_begin_value

__all__ = [
    "RepairBudget",
    "RepairedValue",
    "Unrepairable",
    "ValueStart",
    "ValueStarts",
    "readings",
]

_NO_NAMES: frozenset[str] = frozenset()
_STEPS_A_VALUE = 5  # however short
_CHARACTERS_A_STEP = 100  # of text that is read in runs
_REWRITTEN_A_STEP = 20
_SEGMENT = 4096  # characters of another notation that are rewritten first, to find where the value ends


@dataclass(frozen=True, slots=True)
class RepairedValue:
    """A value, where it ends, the edits that made it JSON, and whether the text ends within it (`truncated`).

    `dropped` is whether the part that the text ends within was left out, `half` whether that is a string that
    may continue. A value without edits that is not truncated was valid JSON.
    """

    value: Any
    end: int
    edits: tuple[Edit, ...] = ()
    truncated: bool = False
    dropped: bool = False
    half: bool = False


def readings(
    text: str,
    start: int = 0,
    *,
    missing: str = "",
    names: frozenset[str] = _NO_NAMES,
    max_depth: int = 200,
    limit: int = 16,
    budget: RepairBudget | None = None,
) -> Iterator[RepairedValue]:
    """Yield at most `limit` readings of the value whose `{` or `[` is at `start`, the likeliest first.

    The others read the ambiguous places differently: all of a kind at once, then each alone. There is none
    where no value was meant. `missing` is the bracket that is missing at `start`. `names` are the properties
    that the schema declares: they decide what is a key where quotes are missing. `budget` limits all
    readings, and may be shared with other values. Raises `Unrepairable`, also when the budget is spent.
    """
    budget = budget or RepairBudget()
    budget.spend(start, _STEPS_A_VALUE)
    if not missing and not may_begin_value(text, start):
        return
    reader = _Reader(text, start, missing, names, max_depth, budget)
    ambiguities = Ambiguities({})
    first = reader.read(ambiguities)
    if first is None:
        return
    yield first
    for taken in other_ways(ambiguities.met)[: limit - 1]:
        budget.spend(start, (first.end - start) // _CHARACTERS_A_STEP)
        other = reader.read(Ambiguities(taken))
        if other is not None:
            yield other


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one value of a text, in any of the ways that are possible."""

    text: str
    start: int
    missing: str
    names: frozenset[str]
    max_depth: int
    budget: RepairBudget

    def read(self, ambiguities: Ambiguities) -> RepairedValue | None:
        if notation := notation_at(self.text, self.start):
            return self._read_notation(notation, ambiguities)
        return self._parse(self.text, self.start, ambiguities)

    def _read_notation(self, notation: Notation, ambiguities: Ambiguities) -> RepairedValue | None:
        """Read a value in another notation; rewrites no more of the text than needed."""
        text, start, size = self.text, self.start, _SEGMENT
        while True:
            ambiguities.met.clear()
            self.budget.spend(start, min(size, len(text) - start) // _REWRITTEN_A_STEP)
            rewritten = Rewritten(text[start : start + size], notation)
            try:
                repaired = self._parse(rewritten.text, 0, ambiguities)
            except Unrepairable as refused:
                raise Unrepairable(str(refused), start + rewritten.source(refused.offset)) from None
            if repaired is None:
                return None
            if not repaired.truncated or start + size >= len(text):
                edits = [Edit(start + rewritten.source(offset), what) for offset, what in repaired.edits]
                edits.insert(0, Edit(start, "JSON in another notation"))
                return replace(repaired, end=start + rewritten.source(repaired.end), edits=tuple(edits))
            size *= 4

    def _parse(self, text: str, start: int, ambiguities: Ambiguities) -> RepairedValue | None:
        parser = Parser(text, self.names, ambiguities, self.budget, self.max_depth)
        value = parser.read(start, self.missing)
        if value is NOTHING:
            return None
        return RepairedValue(
            value, parser.end, tuple(parser.edits), parser.truncated, parser.dropped, parser.half
        )
