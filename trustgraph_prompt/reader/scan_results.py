"""What a scanner finds: runs of values, and marks for everything else, within the limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from trustgraph_prompt.reader.decode import NotJson

if TYPE_CHECKING:
    from trustgraph_prompt.reader.repair import RepairedValue

_MOST_LANDMARKS = 15_000  # brackets and marks of thinking in prose
MAX_REFUSED = 1_000  # broken or rejected values, which take longest


class MarkKind(Enum):
    """What the scanner found besides values."""

    BROKEN = auto()  # a value that is not JSON
    DRAFT = auto()  # everything before this was thinking, and is discarded
    ASIDE = auto()  # what follows is thinking, if an ASIDE_ENDS follows
    ASIDE_ENDS = auto()
    CUT = auto()  # the text ends within this object, which is JSON so far
    REPAIRED = auto()  # not JSON, and repaired; `value` is the `RepairedValue`
    WRAPPER = auto()  # the values that follow are elements of `{"items": […]}`
    WRAPPER_OR_OBJECT = auto()  # a complete wrapper with other members, which may be an object itself
    NOTHING = auto()  # a wrapper without elements: there are no objects to report


@dataclass(slots=True)
class Values:
    """A run of complete objects (or arrays, if these are looked for) with only prose between them.

    `raws` are their texts, `starts` where these begin in the answer; `fenced` is whether they are in a code
    fence.
    """

    values: list[Any]
    raws: list[str]
    starts: list[int]
    fenced: bool

    def part(self, start: int, end: int) -> Values:
        """Those from one index to another."""
        return Values(self.values[start:end], self.raws[start:end], self.starts[start:end], self.fenced)

    def parts(self, size: int) -> Iterator[Values]:
        """All of them, `size` at a time."""
        return (self.part(start, start + size) for start in range(0, len(self.values), size))

    def __iadd__(self, more: Values) -> Self:
        self.values += more.values
        self.raws += more.raws
        self.starts += more.starts
        return self


class Mark(NamedTuple):
    """What is not a value: the text of a broken value or of a complete wrapper, and where it begins.

    `value` is that of a wrapper, or the `NotJson` of a text that is grammatical and still not a value.
    `fenced` is whether a broken value is in a code fence.
    """

    kind: MarkKind
    raw: str = ""
    start: int = 0
    value: Any = None
    fenced: bool = False


ScanResult = Values | Mark


class ScanResults:
    """Collects what a scanner finds.

    `full` is whether there were more than `most` values, `MAX_REFUSED` broken ones, or too many landmarks
    of prose. `ends_draft` is whether thinking has ended that had no start tag, and no value followed yet.
    """

    def __init__(self, most: int) -> None:
        self.full = False
        self.ends_draft = False
        self._most = most
        self._values = 0
        self._refused = 0
        self._landmarks = 0
        self._found: list[ScanResult] = []
        self._run: Values | None = None

    @property
    def room(self) -> int:
        """How many more values there may be."""
        return self._most - self._values

    def take(self) -> list[ScanResult]:
        """What was found since the last call."""
        found, self._found, self._run = self._found, [], None
        return found

    def end_run(self) -> None:
        """Begin a new run with the next value."""
        self._run = None

    def mark(
        self, kind: MarkKind, raw: str = "", start: int = 0, value: Any = None, *, fenced: bool = False
    ) -> None:
        """Add a mark."""
        self._found.append(Mark(kind, raw, start, value, fenced))
        self._run = None

    def mark_aside(self) -> None:
        """Mark that what follows may be thinking, unless the last mark says so."""
        if not (self._found and isinstance(last := self._found[-1], Mark) and last.kind is MarkKind.ASIDE):
            self.mark(MarkKind.ASIDE)

    def value(self, raw: str, start: int, value: Any, fenced: bool) -> None:
        """Add a value, or the `NotJson` of a grammatical text that is not one."""
        if type(value) is NotJson:
            self.broken(raw, start, value, fenced=fenced)
            return
        if self.ends_draft:
            self.leave_draft()
        self._values += 1
        if self._values > self._most:
            self.full = True
            return
        run = self._run
        if run is None:
            self._run = Values([value], [raw], [start], fenced)
            self._found.append(self._run)
        else:
            run.values.append(value)
            run.raws.append(raw)
            run.starts.append(start)

    def run(self, run: Values) -> None:
        """Add a run of values."""
        self.leave_draft()
        room = self.room
        self._values += len(run.values)
        if self._values > self._most:
            self.full = True
            run = run.part(0, room)
        if self._run is None:
            self._run = run
            self._found.append(run)
        else:
            self._run += run

    def broken(self, raw: str, start: int, error: NotJson | None = None, *, fenced: bool) -> None:
        """Add a broken value; `error` is what is wrong with it, if known."""
        if self._has_room():
            self.waste()
        if not self.full:
            self.mark(MarkKind.BROKEN, raw, start, error, fenced=fenced)

    def repaired(self, raw: str, start: int, reading: RepairedValue) -> None:
        """Add what a broken value was repaired to."""
        if self._has_room():
            self.mark(MarkKind.REPAIRED, raw, start, reading)

    def wrapper(self, raw: str, start: int, value: Any) -> None:
        """Add a complete wrapper with other members, which may be an object itself."""
        if self._has_room() and type(value) is not NotJson:
            self.mark(MarkKind.WRAPPER_OR_OBJECT, raw, start, value)

    def waste(self) -> None:
        """Count a broken value, or something as slow to read."""
        self._refused += 1
        self.full = self.full or self._refused > MAX_REFUSED

    def pass_values(self, count: int) -> None:
        """Count values that were read elsewhere."""
        self._values += count

    def pass_landmarks(self, count: int) -> None:
        """Count brackets of the prose, or marks of thinking."""
        self._landmarks += count
        self.full = self.full or self._landmarks > _MOST_LANDMARKS

    def leave_draft(self) -> None:
        """Mark that what came before the end of thinking was a draft, now that a value begins."""
        if self.ends_draft:
            self.ends_draft = False
            self.mark(MarkKind.DRAFT)

    def _has_room(self) -> bool:
        self._values += 1
        self.full = self.full or self._values > self._most
        return not self.full
