"""One pass over the text of an answer, whole or in chunks of any size, that finds the JSON in it.

Linear: no character is looked at more than a fixed number of times. What is decided never depends on where a
chunk ended. A value is followed strictly as long as it obeys the grammar; one that the text ends in is cut.
Once it is broken, only its extent is measured: no inner part of it is taken for a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from trustgraph_prompt.reader import grammar
from trustgraph_prompt.reader.damage import Damage
from trustgraph_prompt.reader.value import LONGEST_WRAPPER, OpenValue, Progress, Raw

MAX_PIECES = 20_000

_LANDMARK = rf"`{{3,}}|~{{3,}}|</?{grammar.THINKING}"
_OBJECTS = re.compile(rf"\{{|{_LANDMARK}", re.IGNORECASE)
_VALUES = re.compile(rf'\{{|\[(?=\s*+(?:[]\[{{"\d\-tfn]|\Z))|{_LANDMARK}', re.IGNORECASE)
_LANDMARK_BEGUN = re.compile(r"(?:`+|~+|</?\w*)\Z")
_END_OF_THINKING = re.compile(f"</{grammar.THINKING}", re.IGNORECASE)

# What may stand before a value on its line: quoting, a bullet or number, and what surrounds elements.
_LINE_BEGINS = re.compile(r"\n\ufeff?([ \t]*)[> \t]*(?:[-*+•]|\d{1,6}[.):])?[ \t[,]*\Z")
_LOOK_BACK = 40

_FIRST_OF = {"{": re.compile(r'["}]'), "[": re.compile(r'[]\[{"\d\-tfn]')}
_CLOSES = {"{": "}", "[": "]"}
_QUOTES = "'“”‘’`"


class Kind(Enum):
    """What the scanner came upon."""

    VALUE = auto()  # a complete object, or array where they are asked for
    BROKEN = auto()  # what was meant to be one, and is not JSON
    DRAFT = auto()  # everything before this was thinking
    WRAPPER = auto()  # the values that follow are elements of `{"items": […]}`
    WRAPPED = auto()  # a wrapper with other members too, whole: perhaps it is an object itself
    NOTHING = auto()  # a wrapper without elements: the answer says that there is nothing


class Piece(NamedTuple):
    """One find: its text, and whether it stands in a code fence."""

    kind: Kind
    raw: str = ""
    fenced: bool = False


class Scanner:
    """Finds the objects in the text of an answer; with `arrays`, the outermost arrays too.

    `is_wrapper(key)` says whether an object whose first member is `key` with an array of objects merely
    wraps them; `key` is a JSON string.

    After `close`: `cut` is whether the text ends within a value or in thinking, `fenced` whether in a code
    fence, `between` what stood around the values (each is `{}` there, or `{\\n}` if it took several lines),
    `full` whether there was more than `MAX_PIECES` and the rest was left unread.
    """

    def __init__(self, *, arrays: bool = False, is_wrapper: Callable[[str], bool] = lambda _: False) -> None:
        self.cut = False
        self.fenced = False
        self.full = False
        self._roots = _VALUES if arrays else _OBJECTS
        self._wraps = is_wrapper
        self._between: list[str] = []
        self._mode: Callable[[int], int | None] = self._search
        self._value: OpenValue
        self._damage: Damage
        self._column = 0
        self._window = ""
        self._before = "\n"  # the last characters before the window
        self._final = False
        self._found: list[Piece] = []
        self._count = 0

    @property
    def between(self) -> str:
        return "".join(self._between)

    def feed(self, text: str) -> list[Piece]:
        """What `text` completes."""
        if self.full:
            return []
        self._window += text
        self._found = []
        position: int | None = 0
        while position is not None and not self.full:
            position = self._mode(position)
        return self._found

    def close(self) -> list[Piece]:
        """What only the end of the text completes."""
        self._final = True
        return self.feed("")

    def _wait(self, position: int) -> None:
        """Keep the window from `position` on until more text comes."""
        used = self._window[max(0, position - _LOOK_BACK) : position]
        self._before = (self._before + used)[-_LOOK_BACK:]
        self._window = self._window[position:]

    def _give(self, kind: Kind, raw: str = "") -> None:
        self._found.append(Piece(kind, raw, self.fenced))
        self._count += 1
        self.full = self._count >= MAX_PIECES

    def _give_value(self, raw: str) -> None:
        self._between.append("{\n}" if "\n" in raw else "{}")
        self._give(Kind.VALUE, raw)

    def _search(self, position: int) -> int | None:
        """Between values: look for the next one, past fences and thinking."""
        window, passed = self._window, position
        while match := self._roots.search(window, position):
            start, position = match.span()
            mark = window[start]
            if mark in "{[":
                if whole := self._whole(mark, start):
                    self._between.append(window[passed:start])
                    self._give_value(whole)
                    passed = position = start + len(whole)
                    if self.full:
                        return None
                elif not self._final and window.find(_CLOSES[mark], position) < 0:
                    self._leave(passed, start)  # before more text comes nothing ends here
                    return None
                elif self._begin(mark, start):
                    self._between.append(window[passed:start])
                    return position
            elif mark == "<":
                self._between.append(window[passed:position])
                if window[start + 1] != "/":
                    self._mode = self._think
                    return position
                self._give(Kind.DRAFT)
                passed = position
            elif position < len(window) or self._final:
                self.fenced = not self.fenced
            else:
                self._leave(passed, start)  # the fence may go on
                return None
        tail = max(position, len(window) - grammar.LONGEST_TAG)
        begun = None if self._final else _LANDMARK_BEGUN.search(window, tail)
        self._leave(passed, begun.start() if begun else len(window))
        return None

    def _leave(self, passed: int, position: int) -> None:
        """Nothing more before more text comes: what stands between values ends at `position`."""
        self._between.append(self._window[passed:position])
        self._wait(position)

    def _whole(self, mark: str, start: int) -> str | None:
        """The value that begins at `start`, if all of it is there and nothing asks for a closer look."""
        match = (grammar.OBJECT if mark == "{" else grammar.ARRAY).match(self._window, start)
        if match is None:
            return None
        if mark == "{" and match[2] and grammar.OBJECTS_BEGIN.match(self._window, match.start(2)):
            return None if self._is_wrapper(match[1]) else match[0]
        return match[0]

    def _is_wrapper(self, key: str) -> bool:
        return len(key) <= LONGEST_WRAPPER and self._wraps(key)

    def _begin(self, mark: str, start: int) -> bool:
        """Whether what begins at `start` was meant to be a value."""
        first = grammar.FIRST_CHARACTER.match(self._window, start + 1)[1]  # type: ignore[index]
        head = (self._before + self._window[max(0, start - _LOOK_BACK) : start])[-_LOOK_BACK:]
        line = _LINE_BEGINS.search(head)
        self._column = len(line[1]) if line else 0
        if not first or _FIRST_OF[mark].match(first):
            self._value = OpenValue(mark, start, self._is_wrapper)
            self._mode = self._follow
            return True
        if mark == "{" and (line or first in _QUOTES):
            self._damage = Damage([mark], Raw(start), self._column, awaits_value=False)
            self._mode = self._measure
            return True
        return False

    def _think(self, position: int) -> int | None:
        """In thinking: nothing counts until it ends."""
        if match := _END_OF_THINKING.search(self._window, position):
            self._mode = self._search
            return match.end()
        self.cut = self._final
        self._wait(max(position, len(self._window) - grammar.LONGEST_TAG))
        return None

    def _follow(self, position: int) -> int | None:
        """In a value that obeys the grammar so far."""
        value, window = self._value, self._window
        progress, position = value.advance(window, position)
        match progress:
            case Progress.WAITS:
                self.cut = self._final
                value.keep(window, position)
                self._wait(position)
                return None
            case Progress.WRAPS:
                self._between.append("wrapper")  # anything that is no layout of lines
                self._give(Kind.WRAPPER)
            case Progress.ELEMENT:
                assert value.element is not None
                self._give(Kind.VALUE, value.element.until(window, position))
                value.element = None
            case Progress.ENDS:
                self._mode = self._search
                self._end(value, position)
            case Progress.BREAKS:
                self._break(value)
        return position

    def _end(self, value: OpenValue, position: int) -> None:
        if not value.wraps:
            self._give_value(value.raw.until(self._window, position))
        elif value.members > 1:
            self._give(Kind.WRAPPED, value.raw.until(self._window, position))
        elif not value.elements:
            self._give(Kind.NOTHING)

    def _break(self, value: OpenValue) -> None:
        """Measure what is broken; of a wrapper, that is no more than the element."""
        if value.in_wrapper:
            self._between.append("[{}")  # still open
        if value.wraps and value.element is None:
            self._mode = self._search
            return
        stack, raw = (value.stack[2:], value.element) if value.element else (value.stack, value.raw)
        if value.wraps:
            self._between.append("[")
        self._damage = Damage(
            stack, raw, self._column, awaits_value=value.awaits_value, in_string=value.in_string
        )
        self._mode = self._measure

    def _measure(self, position: int) -> int | None:
        """In a broken value."""
        over, position = self._damage.advance(self._window, position, self._final)
        if over:
            self._between.append("{}")
            self._give(Kind.BROKEN, self._damage.raw.until(self._window, position).strip())
            self._mode = self._search
            return position
        self._damage.raw.keep(self._window, position)
        self._wait(position)
        return None
