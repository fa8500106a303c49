"""What is doubtful in broken JSON, what was done to read it, and when that is given up."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

T = TypeVar("T")

Taken = dict[tuple[str, int | None], int]  # the way to read one doubt, or all of a kind


class Edit(NamedTuple):
    """What was done to read a place of the text as JSON."""

    offset: int
    what: str


class Ambiguity(NamedTuple):
    """A place of the text that can be read in several ways; the first is the likeliest."""

    what: str
    offset: int
    ways: int


class Ambiguities:
    """Settles each doubt as `taken` says, for its place or for all of its kind; else the likeliest way."""

    MOST = 64  # remembered

    def __init__(self, taken: Taken) -> None:
        self.met: list[Ambiguity] = []
        self._taken = taken

    def settle(self, what: str, offset: int, *ways: T) -> T:
        if len(self.met) < self.MOST:
            self.met.append(Ambiguity(what, offset, len(ways)))
        if not self._taken:
            return ways[0]
        way = self._taken.get((what, offset), self._taken.get((what, None), 0))
        return ways[min(way, len(ways) - 1)]


def other_ways(ambiguities: list[Ambiguity]) -> list[Taken]:
    """The other ways to read them: first all of a kind at once, then each alone."""
    kinds: dict[str, list[Ambiguity]] = {}
    for ambiguity in ambiguities:
        kinds.setdefault(ambiguity.what, []).append(ambiguity)
    whole: list[Taken] = [
        {(what, None): way} for what, some in kinds.items() for way in range(1, some[0].ways)
    ]
    return whole + [
        {(ambiguity.what, ambiguity.offset): way}
        for ambiguity in ambiguities
        if len(kinds[ambiguity.what]) > 1
        for way in range(1, ambiguity.ways)
    ]


class Unrepairable(ValueError):
    """The value is too long to repair, or nested too deep; `offset` is where it was given up."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class RepairBudget:
    """Bounds the steps in which broken values are read, those of a text together; each takes microseconds."""

    MOST = 20_000

    def __init__(self) -> None:
        self._left = self.MOST

    @property
    def spent(self) -> bool:
        """Whether nothing more is read."""
        return self._left <= 0

    def spend(self, offset: int, steps: int = 1) -> None:
        """Raises `Unrepairable` where there is nothing left to spend at `offset`."""
        self._left -= steps
        if self._left < 0:
            raise Unrepairable(f"more than {self.MOST:,} steps to repair", offset)
