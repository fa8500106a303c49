"""The ambiguities that a repair meets, and the budget that limits it."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

T = TypeVar("T")

Choices = dict[tuple[str, int | None], int]  # the way to read an ambiguity, or all of a kind (None)


class Ambiguity(NamedTuple):
    """A place of the text that can be read in several ways; the first is the likeliest."""

    what: str
    offset: int
    ways: int


class Ambiguities:
    """Chooses how to read ambiguous places: as `choices` says for the place or its kind, else likeliest."""

    MOST = 64  # that are recorded

    def __init__(self, choices: Choices) -> None:
        self.met: list[Ambiguity] = []
        self._choices = choices

    def choose(self, what: str, offset: int, *ways: T) -> T:
        if len(self.met) < self.MOST:
            self.met.append(Ambiguity(what, offset, len(ways)))
        if not self._choices:
            return ways[0]
        way = self._choices.get((what, offset), self._choices.get((what, None), 0))
        return ways[min(way, len(ways) - 1)]


def other_ways(ambiguities: list[Ambiguity]) -> list[Choices]:
    """The other ways to read them: first all of a kind at once, then each alone."""
    kinds: dict[str, list[Ambiguity]] = {}
    for ambiguity in ambiguities:
        kinds.setdefault(ambiguity.what, []).append(ambiguity)
    by_kind: list[Choices] = [
        {(what, None): way} for what, alike in kinds.items() for way in range(1, alike[0].ways)
    ]
    return by_kind + [
        {(ambiguity.what, ambiguity.offset): way}
        for ambiguity in ambiguities
        if len(kinds[ambiguity.what]) > 1
        for way in range(1, ambiguity.ways)
    ]


class Unrepairable(ValueError):
    """A value is too long to repair, or nested too deeply; `offset` is where repair stopped."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class RepairBudget:
    """Limits the steps, of some microseconds each, that the repair of all values of a text may take."""

    MOST = 20_000

    def __init__(self) -> None:
        self._left = self.MOST

    @property
    def spent(self) -> bool:
        """Whether no steps are left."""
        return self._left <= 0

    def spend(self, offset: int, steps: int = 1) -> None:
        """Raises `Unrepairable`, with `offset`, when no steps are left."""
        self._left -= steps
        if self._left < 0:
            raise Unrepairable(f"more than {self.MOST:,} steps to repair", offset)
