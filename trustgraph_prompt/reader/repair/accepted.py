"""What broken text says, where the contract allows repair: of all readings the first that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader.json_in_strings import opened
from trustgraph_prompt.reader.repair import (
    Edit,
    RepairBudget,
    RepairedValue,
    Unrepairable,
    ValueStart,
    ValueStarts,
    readings,
)

Fit = TypeVar("Fit")

_CHARACTERS_A_STEP = 100  # of a value that is held against the contract
_MORE = "\0"  # what a text that is cut may go on with: anything
_MOST_READINGS = 32  # of a value, shortened ones among them


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, how far its text reaches, what was done to read it, and whether the text ended within it.

    `longer` is the value with more of the text that it ends in, where that is cut.
    """

    value: Any
    end: int
    edits: tuple[Edit, ...]
    cut: bool
    longer: Any = None


@dataclass(frozen=True, slots=True)
class AcceptedReading(Generic[Fit]):
    """Where a value begins, and whether in a code fence; the reading that fits, else the likeliest one."""

    start: int
    fenced: bool
    reading: Reading
    fit: Fit | None


class Repair:
    """Repairs what is broken in one answer; once that has taken too much effort, nothing more."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._effort = RepairBudget()

    def object(self, raw: str, ends_text: bool) -> Reading | None:
        """The object that broken text was meant to be, as the contract accepts it.

        One that lacks its last brackets is taken where it does not stand at the end of the text, which may
        be cut, and nothing was left out for what it ends in.
        """
        try:
            for mended in self._readings(raw, ValueStart(0, "", fenced=False)):
                if mended.cut and (ends_text or mended.dropped or not mended.value):
                    continue
                self._judge(0, mended.end)
                if isinstance(mended.value, dict):
                    value, accepted = self._contract.take(mended.value)
                    if accepted:
                        return Reading(value, mended.end, mended.edits, cut=False)
                    if found := opened(mended.value, raw, self._contract):
                        value, accepted = self._contract.take(found.value)
                        if accepted:
                            edits = tuple(sorted((*mended.edits, *found.edits(raw, 0))))
                            return Reading(value, mended.end, edits, cut=False)
        except Unrepairable:
            pass
        return None

    def values(
        self, text: str, start: int, fits: Callable[[Any], Fit | None]
    ) -> Iterator[AcceptedReading[Fit]]:
        """The values that stand in `text` from `start` on, broken ones too, none within another.

        Of a cut one there are readings without what stands under the cut, too.
        """
        roots = ValueStarts(text, start)
        whole = roots.first()
        root = whole or roots.next(start)
        while root is not None and not self._effort.spent:
            meant, end = self._value(text, root, fits)
            if meant is not None and (root is not whole or _is_whole(text, root, meant.reading)):
                yield meant
            elif root is whole:
                end = start
            root = roots.next(end)

    def _value(
        self, text: str, root: ValueStart, fits: Callable[[Any], Fit | None]
    ) -> tuple[AcceptedReading[Fit] | None, int]:
        """What is meant by a root, if anything, and from where on the text is still to be read."""
        likeliest: Reading | None = None
        end = root.start + 1
        try:
            shortened = (reading for mended in self._readings(text, root) for reading in _with_less(mended))
            for reading in islice(shortened, _MOST_READINGS):
                self._judge(root.start, reading.end)
                fit = fits(reading.value)
                if fit is not None and reading.longer is not None and fits(reading.longer) is None:
                    continue  # it would be accepted for where the text happens to end
                if fit is not None:
                    return AcceptedReading(root.start, root.fenced, reading, fit), max(end, reading.end)
                likeliest = likeliest or reading
        except Unrepairable as refused:
            end = max(end, refused.offset)
        if likeliest is None:
            return None, end
        return AcceptedReading(root.start, root.fenced, likeliest, None), max(end, likeliest.end)

    def _readings(self, text: str, root: ValueStart) -> Iterator[RepairedValue]:
        return readings(
            text,
            root.start,
            lost=root.lost,
            names=self._contract.names(),
            max_depth=self._contract.limits.depth,
            effort=self._effort,
        )

    def _judge(self, start: int, end: int) -> None:
        """Raises `Unrepairable` where there is no effort left to hold a value against the contract."""
        self._effort.spend(end, 1 + (end - start) // _CHARACTERS_A_STEP)


def _is_whole(text: str, root: ValueStart, reading: Reading) -> bool:
    """Whether a reading without its first bracket makes sense: what else is there for a list?"""
    if root.lost == "[" and len(reading.value) < 2:
        return False
    return root.lost == "{" or not text[reading.end :].strip(" \t\r\n;`)")


def _with_less(mended: RepairedValue) -> Iterator[Reading]:
    """The reading; of a cut one also those without its last member, without what holds that, and so on."""
    if not mended.cut:
        yield Reading(mended.value, mended.end, mended.edits, cut=False)
        return
    way: list[Any] = []
    value = mended.value
    while value and isinstance(value, (dict, list)):
        way.append(next(reversed(value)) if isinstance(value, dict) else len(value) - 1)
        value = value[way[-1]]
    goes_on = mended.half and isinstance(value, str)
    longer = _changed(mended.value, way, lambda last: last + _MORE) if goes_on else None
    yield Reading(mended.value, mended.end, mended.edits, cut=True, longer=longer)
    while way:
        yield Reading(_without(mended.value, way), mended.end, mended.edits, cut=True)
        way.pop()


def _changed(value: Any, way: list[Any], change: Callable[[Any], Any]) -> Any:
    """A copy of `value` with what `way` leads to changed."""
    if not way:
        return change(value)
    copy = value.copy()
    copy[way[0]] = _changed(copy[way[0]], way[1:], change)
    return copy


def _without(value: Any, way: list[Any]) -> Any:
    """A copy of `value` without the member that `way` leads to."""
    copy = value.copy()
    if len(way) > 1:
        copy[way[0]] = _without(copy[way[0]], way[1:])
    else:
        del copy[way[0]]
    return copy
