"""What broken text says, where the contract allows repair: of all readings the first that it accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader.mend import Edit, Mended, Unmendable, readings

_ROOT = re.compile(r"[{[]")
_MOST_ROOTS = 1_000
_ENDS_A_TOKEN = "\"'”’`}],"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, how far its text reaches, what was done to read it, and whether the text ended within it."""

    value: Any
    end: int
    edits: tuple[Edit, ...]
    cut: bool


def repair_object(raw: str, contract: Contract, *, ends_text: bool) -> Reading | None:
    """The object that broken text was meant to be, as the contract accepts it.

    One that lacks its last brackets is taken where it does not stand at the end of the text, which may be
    cut.
    """
    for mended in _readings(raw, 0, contract):
        if mended.cut and (ends_text or raw[-1] not in _ENDS_A_TOKEN):
            continue
        if isinstance(mended.value, dict) and contract.accepts(value := contract.conform(mended.value)):
            return Reading(value, mended.end, mended.edits, cut=False)
    return None


def repair_values(text: str, start: int, contract: Contract) -> Iterator[tuple[int, list[Reading]]]:
    """Where values begin in a text that holds broken ones, with their readings, the likeliest first.

    Of a cut value there are readings without what stands under the cut, too.
    """
    for _ in range(_MOST_ROOTS):
        root = _ROOT.search(text, start)
        if root is None:
            return
        found = list(_readings(text, root.start(), contract))
        if found:
            yield root.start(), [reading for mended in found for reading in _with_less(mended)]
        start = max(root.end(), found[0].end if found else 0)


def _readings(text: str, start: int, contract: Contract) -> Iterator[Mended]:
    try:
        yield from readings(text, start, names=contract.names(), max_depth=contract.limits.depth)
    except Unmendable:
        return


def _with_less(mended: Mended) -> Iterator[Reading]:
    """The reading; of a cut one also those without its last member, without what holds that, and so on."""
    yield Reading(mended.value, mended.end, mended.edits, mended.cut)
    if not mended.cut:
        return
    way: list[Any] = []
    value = mended.value
    while value and isinstance(value, (dict, list)):
        way.append(next(reversed(value)) if isinstance(value, dict) else len(value) - 1)
        value = value[way[-1]]
    while way:
        yield Reading(_without(mended.value, way), mended.end, mended.edits, cut=True)
        way.pop()


def _without(value: Any, way: list[Any]) -> Any:
    """A copy of `value` without the member that `way` leads to."""
    copy = value.copy()
    if len(way) > 1:
        copy[way[0]] = _without(copy[way[0]], way[1:])
    else:
        del copy[way[0]]
    return copy
