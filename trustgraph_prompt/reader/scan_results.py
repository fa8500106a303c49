"""What a scanner finds: runs of values, and marks of all else; no more than the limits allow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from trustgraph_prompt.reader.decode import NotJson

if TYPE_CHECKING:
    from trustgraph_prompt.reader.repair.accepted import Reading

_MOST_BRACKETS = 20_000  # in prose
MAX_REFUSED = 1_000  # values: what is broken or refused takes longest


class MarkKind(Enum):
    """What the scanner came upon besides values."""

    BROKEN = auto()  # what was meant to be a value, and is not JSON
    DRAFT = auto()  # everything before this was thinking
    ASIDE = auto()  # what follows is thinking, if it comes to an end
    ASIDE_ENDS = auto()
    MENDED = auto()  # what is not JSON, and could be repaired; `value` is what the repair found
    WRAPPER = auto()  # the values that follow are elements of `{"items": […]}`
    WRAPPER_OR_OBJECT = auto()  # a wrapper with other members too, whole: perhaps it is an object itself
    NOTHING = auto()  # a wrapper without elements: the answer says that there is nothing


@dataclass(slots=True)
class Values:
    """A run of complete objects, or arrays where they are asked for, with nothing else between them.

    Their values, the texts that say them, where each text begins; and whether they stand in a code fence.
    """

    values: list[Any]
    raws: list[str]
    starts: list[int]
    fenced: bool


class Mark(NamedTuple):
    """What is no value: the text of what is broken, or of the whole wrapper, and where it begins.

    `value` is that of a wrapper; of what obeys the grammar and is no value still, it is the `NotJson`.
    `fenced` says of what is broken whether it stands in a code fence.
    """

    kind: MarkKind
    raw: str = ""
    start: int = 0
    value: Any = None
    fenced: bool = False


Find = Values | Mark


class ScanResults:
    """Collects what is found.

    `full` is whether there was more than `most` values, `MAX_REFUSED` broken ones, or brackets of prose.
    `ends_draft` is whether thinking without a beginning has ended and no value followed yet.
    """

    def __init__(self, most: int) -> None:
        self.full = False
        self.ends_draft = False
        self._most = most
        self._values = 0
        self._refused = 0
        self._brackets = 0
        self._found: list[Find] = []
        self._run: Values | None = None

    @property
    def room(self) -> int:
        """How many more values there may be."""
        return self._most - self._values

    def take(self) -> list[Find]:
        """What was found since this was last asked."""
        found, self._found, self._run = self._found, [], None
        return found

    def end_run(self) -> None:
        """The next value stands elsewhere than the last one."""
        self._run = None

    def mark(
        self, kind: MarkKind, raw: str = "", start: int = 0, value: Any = None, *, fenced: bool = False
    ) -> None:
        """Note what is no value."""
        self._found.append(Mark(kind, raw, start, value, fenced))
        self._run = None

    def mark_aside(self) -> None:
        """Note that what follows may be thinking; once is enough."""
        if not (self._found and isinstance(last := self._found[-1], Mark) and last.kind is MarkKind.ASIDE):
            self.mark(MarkKind.ASIDE)

    def value(self, raw: str, start: int, value: Any, fenced: bool) -> None:
        """A value; or what is none although it obeys the grammar."""
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
        """Several values."""
        self.leave_draft()
        room = self.room
        self._values += len(run.values)
        if self._values > self._most:
            self.full = True
            run = Values(run.values[:room], run.raws[:room], run.starts[:room], run.fenced)
        self._found.append(run)
        self._run = run

    def broken(self, raw: str, start: int, error: NotJson | None = None, *, fenced: bool) -> None:
        """What was meant to be a value; `error` where it is known already why it is none."""
        if self._has_room():
            self.waste()
        if not self.full:
            self.mark(MarkKind.BROKEN, raw, start, error, fenced=fenced)

    def mended(self, raw: str, start: int, reading: Reading) -> None:
        """What is no JSON, and what it was meant to be."""
        if self._has_room():
            self.mark(MarkKind.MENDED, raw, start, reading)

    def wrapper(self, raw: str, start: int, value: Any) -> None:
        """A whole wrapper with other members: perhaps it is an object itself."""
        if self._has_room() and type(value) is not NotJson:
            self.mark(MarkKind.WRAPPER_OR_OBJECT, raw, start, value)

    def waste(self) -> None:
        """Something that was worth nothing took long to read."""
        self._refused += 1
        self.full = self.full or self._refused > MAX_REFUSED

    def pass_bracket(self) -> None:
        """A bracket was a part of the prose."""
        self._brackets += 1
        self.full = self.full or self._brackets > _MOST_BRACKETS

    def leave_draft(self) -> None:
        """A value begins: what stood before an end of thinking was a draft."""
        if self.ends_draft:
            self.ends_draft = False
            self.mark(MarkKind.DRAFT)

    def _has_room(self) -> bool:
        self._values += 1
        self.full = self.full or self._values > self._most
        return not self.full
