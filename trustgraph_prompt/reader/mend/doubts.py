"""What is doubtful in broken JSON, what was done to read it, and when that is given up."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

T = TypeVar("T")

Taken = dict[tuple[str, int | None], int]  # the way to read one doubt, or all of a kind


class Edit(NamedTuple):
    """What was done to read a place of the text as JSON."""

    offset: int
    what: str


class Doubt(NamedTuple):
    """A place of the text that can be read in several ways; the first is the likeliest."""

    what: str
    offset: int
    ways: int


class Doubts:
    """Settles each doubt as `taken` says, for its place or for all of its kind; else the likeliest way."""

    MOST = 64  # remembered

    def __init__(self, taken: Taken) -> None:
        self.met: list[Doubt] = []
        self._taken = taken

    def settle(self, what: str, offset: int, *ways: T) -> T:
        if len(self.met) < self.MOST:
            self.met.append(Doubt(what, offset, len(ways)))
        if not self._taken:
            return ways[0]
        way = self._taken.get((what, offset), self._taken.get((what, None), 0))
        return ways[min(way, len(ways) - 1)]


def other_ways(doubts: list[Doubt]) -> list[Taken]:
    """The other ways to read them: first all of a kind at once, then each alone."""
    kinds: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        kinds.setdefault(doubt.what, []).append(doubt)
    whole: list[Taken] = [
        {(what, None): way} for what, some in kinds.items() for way in range(1, some[0].ways)
    ]
    return whole + [
        {(doubt.what, doubt.offset): way}
        for doubt in doubts
        if len(kinds[doubt.what]) > 1
        for way in range(1, doubt.ways)
    ]


class Unmendable(ValueError):
    """The value is broken in too many places, or nested too deep; `offset` is where it was given up."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class Effort:
    """Bounds the doubtful places of one value: each takes a look at what is around it."""

    MOST = 50_000

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, offset: int) -> None:
        self._spent += 1
        if self._spent > self.MOST:
            raise Unmendable(f"broken in more than {self.MOST} places", offset)
