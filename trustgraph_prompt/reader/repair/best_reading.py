"""Repairs broken text as a contract allows: selects the first reading that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader.changed_strings import LatexCommands, parse_strings
from trustgraph_prompt.reader.repair import (
    RepairBudget,
    RepairedValue,
    Unrepairable,
    ValueStart,
    ValueStarts,
    readings,
)

Fit = TypeVar("Fit")

_CHARACTERS_A_STEP = 100  # of a value that is validated
_MORE = "\0"  # stands for any continuation of a truncated text
_MOST_READINGS = 32  # of a value, shortened ones included


@dataclass(frozen=True, slots=True)
class BestReading(Generic[Fit]):
    """Where a value begins, whether in a code fence, and the reading that fits; else the likeliest one."""

    start: int
    fenced: bool
    reading: RepairedValue
    fit: Fit | None


class Repair:
    """Repairs the broken values of one answer, as far as one budget of steps allows."""

    def __init__(self, contract: Contract, commands: LatexCommands) -> None:
        self._contract = contract
        self._commands = commands
        self._budget = RepairBudget()

    def object(self, raw: str, ends_text: bool) -> RepairedValue | None:
        """The first reading of a broken object that the contract accepts; None if there is none.

        An object without its last brackets counts only if more text follows, so that it cannot be truncated,
        and if nothing had to be left out at its end.
        """
        try:
            for repaired in self._readings(raw, ValueStart(0, "", fenced=False)):
                if repaired.truncated and (ends_text or repaired.dropped or not repaired.value):
                    continue
                self._judge(0, repaired.end)
                if isinstance(repaired.value, dict):
                    value, accepted = self._contract.take(repaired.value)
                    edits = repaired.edits
                    if not accepted and (found := parse_strings(repaired.value, raw, self._contract)):
                        value, accepted = self._contract.take(found.value)
                        edits = tuple(sorted((*edits, *found.edits(raw, 0))))
                    if accepted:
                        return replace(repaired, value=value, edits=edits)
        except Unrepairable:
            pass
        return None

    def values(self, text: str, start: int, fits: Callable[[Any], Fit | None]) -> Iterator[BestReading[Fit]]:
        """The values in `text` from `start` on, broken ones too, none within another.

        A truncated value is also read without its last member, without what contains that, and so on.
        """
        starts = ValueStarts(text, start)
        whole = starts.first()
        root = whole or starts.next(start)
        while root is not None and not self._budget.spent:
            meant, end = self._value(text, root, fits)
            if meant is not None and (root is not whole or _is_whole(text, root, meant.reading)):
                yield meant
            elif root is whole:
                end = start
            root = starts.next(end)

    def _value(
        self, text: str, root: ValueStart, fits: Callable[[Any], Fit | None]
    ) -> tuple[BestReading[Fit] | None, int]:
        """The value that begins at `root`, if there is one, and where the text is to be read from next."""
        likeliest: RepairedValue | None = None
        end = root.start + 1
        try:
            shortened = (reading for repaired in self._readings(text, root) for reading in _shorten(repaired))
            for reading, longer in islice(shortened, _MOST_READINGS):
                self._judge(root.start, reading.end)
                fit = fits(reading.value)
                if fit is not None and longer is not None and fits(longer) is None:
                    continue  # it is accepted only because the text happens to end there
                if fit is not None:
                    return BestReading(root.start, root.fenced, reading, fit), max(end, reading.end)
                likeliest = likeliest or reading
        except Unrepairable as refused:
            end = max(end, refused.offset)
        if likeliest is None:
            return None, end
        return BestReading(root.start, root.fenced, likeliest, None), max(end, likeliest.end)

    def _readings(self, text: str, root: ValueStart) -> Iterator[RepairedValue]:
        for repaired in readings(
            text,
            root.start,
            missing=root.missing,
            names=self._contract.names(),
            max_depth=self._contract.limits.depth,
            budget=self._budget,
        ):
            raw = text[root.start : repaired.end]
            if found := self._commands.restored(repaired.value, raw, root.start):
                edits = tuple(sorted((*repaired.edits, *found.edits)))
                yield replace(repaired, value=found.value, edits=edits)
            else:
                yield repaired

    def _judge(self, start: int, end: int) -> None:
        """Spend the steps for validating a value. Raises `Unrepairable` when the budget is spent."""
        self._budget.spend(end, 1 + (end - start) // _CHARACTERS_A_STEP)


def _is_whole(text: str, root: ValueStart, reading: RepairedValue) -> bool:
    """Whether the whole text can be a value whose first bracket is missing, as `root` assumes."""
    if root.missing == "[" and len(reading.value) < 2:
        return False
    return root.missing == "{" or not text[reading.end :].strip(" \t\r\n;`)")


def _shorten(repaired: RepairedValue) -> Iterator[tuple[RepairedValue, Any]]:
    """The reading; if truncated, also those without the last member, without what contains it, and so on.

    Each with its value as it would be if its last string went on; None if the text does not end within one.
    """
    path: list[Any] = []
    value = repaired.value
    while repaired.truncated and value and isinstance(value, (dict, list)):
        path.append(next(reversed(value)) if isinstance(value, dict) else len(value) - 1)
        value = value[path[-1]]
    goes_on = repaired.truncated and repaired.half and isinstance(value, str)
    yield repaired, _changed(repaired.value, path, lambda last: last + _MORE) if goes_on else None
    while path:
        yield replace(repaired, value=_without(repaired.value, path)), None
        path.pop()


def _changed(value: Any, path: list[Any], change: Callable[[Any], Any]) -> Any:
    """A copy of `value` with what `path` leads to changed."""
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = _changed(copy[path[0]], path[1:], change)
    return copy


def _without(value: Any, path: list[Any]) -> Any:
    """A copy of `value` without the member that `path` leads to."""
    copy = value.copy()
    if len(path) > 1:
        copy[path[0]] = _without(copy[path[0]], path[1:])
    else:
        del copy[path[0]]
    return copy
