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
from trustgraph_prompt.reader.damage import Damage, next_value
from trustgraph_prompt.reader.value import LONGEST_WRAPPER, OpenValue, Progress, Raw

MAX_OBJECTS = 20_000

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
_ARRAY_OF_OBJECTS = re.compile(r"\[\s*+\{")
_LINE_ENDS = re.compile(r"[ \t\r]*\n")


class Kind(Enum):
    """What the scanner came upon."""

    VALUE = auto()  # a complete object, or array where they are asked for
    BROKEN = auto()  # what was meant to be one, and is not JSON
    DRAFT = auto()  # everything before this was thinking
    ASIDE = auto()  # what follows is thinking, if it comes to an end
    ASIDE_ENDS = auto()
    WRAPPER = auto()  # the values that follow are elements of `{"items": […]}`
    WRAPPER_OR_OBJECT = auto()  # a wrapper with other members too, whole: perhaps it is an object itself
    NOTHING = auto()  # a wrapper without elements: the answer says that there is nothing


_OBJECTS_FOUND = (Kind.VALUE, Kind.BROKEN, Kind.WRAPPER_OR_OBJECT)


class Find(NamedTuple):
    """One find: its text, and whether it stands in a code fence."""

    kind: Kind
    raw: str = ""
    fenced: bool = False


class Scanner:
    """Finds the objects in the text of an answer; with `arrays`, the outermost arrays too.

    `names_wrapper(key)` says whether an object whose first member is `key` with an array of objects merely
    wraps them; `key` is a JSON string.

    After `close`: `cut` is whether the text ends within a value or in thinking, `fenced` whether in a code
    fence, `between` what stood around the values (each is `{}` there, or `{\\n}` if it took several lines),
    `full` whether there was more than `MAX_OBJECTS` and the rest was left unread. `thought` is where in the
    text the last thinking ended, `behind` the part of `between` that follows, `ends_draft` whether that
    thinking had no beginning and no value follows.
    """

    def __init__(
        self, *, arrays: bool = False, names_wrapper: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.cut = False
        self.fenced = False
        self.full = False
        self.thought = 0
        self.ends_draft = False
        self._roots = _VALUES if arrays else _OBJECTS
        self._names_wrapper = names_wrapper
        self._between: list[str] = []
        self._behind = 0  # how many parts of it stand before the last end of thinking
        self._in_aside = False
        self._mode: Callable[[int], int | None] = self._search
        self._value: OpenValue
        self._damage: Damage
        self._column = 0
        self._in_prose = False
        self._no_array_before = 0
        self._window = ""
        self._passed = 0  # characters before the window
        self._before = "\n"  # the last characters before the window
        self._final = False
        self._found: list[Find] = []
        self._count = 0

    @property
    def between(self) -> str:
        return "".join(self._between)

    @property
    def behind(self) -> str:
        return "".join(self._between[self._behind :])

    def feed(self, text: str) -> list[Find]:
        """What `text` completes."""
        if self.full:
            return []
        self._window += text
        self._found = []
        position: int | None = 0
        while position is not None and not self.full:
            position = self._mode(position)
        return self._found

    def close(self) -> list[Find]:
        """What only the end of the text completes."""
        self._final = True
        return self.feed("")

    def _wait(self, position: int) -> None:
        """Keep the window from `position` on until more text comes."""
        used = self._window[max(0, position - _LOOK_BACK) : position]
        self._before = (self._before + used)[-_LOOK_BACK:]
        self._window = self._window[position:]
        self._passed += position

    def _go_back(self, text: str, length: int, position: int) -> int:
        """Where to go on, to read anew all but the first `length` characters of what ends at `position`."""
        back = len(text) - length
        if back <= position:
            return position - back
        self._before = text[max(0, length - _LOOK_BACK) : length]
        self._passed -= back - position
        self._window = text[length:] + self._window[position:]
        return 0

    def _give(self, kind: Kind, raw: str = "") -> None:
        self._count += kind in _OBJECTS_FOUND
        self.full = self._count > MAX_OBJECTS
        if not self.full:
            self._found.append(Find(kind, raw, self.fenced))

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
                    self._leave_draft()
                    self._give_value(whole)
                    passed = position = start + len(whole)
                    if self.full:
                        return None
                elif not self._final and window.find(_CLOSES[mark], position) < 0:
                    self._leave(passed, start)  # before more text comes nothing ends here
                    return None
                elif self._begin(mark, start):
                    self._between.append(window[passed:start])
                    self._leave_draft()
                    return position
            elif mark == "<":
                self._between.append(window[passed:position])
                passed = position
                if window[start + 1] == "/":
                    self._end_thinking(position)
                elif self._line_before(start):
                    self._mode = self._think
                    return position
                else:
                    self._in_aside = True
                    self._give(Kind.ASIDE)
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
            return None if self._wraps(match[1]) else match[0]
        return match[0]

    def _wraps(self, key: str) -> bool:
        return len(key) <= LONGEST_WRAPPER and self._names_wrapper(key)

    def _line_before(self, start: int) -> re.Match[str] | None:
        """What stands before a value or tag that begins its line; None where it stands within a line."""
        head = (self._before + self._window[max(0, start - _LOOK_BACK) : start])[-_LOOK_BACK:]
        return _LINE_BEGINS.search(head)

    def _begin(self, mark: str, start: int) -> bool:
        """Whether what begins at `start` was meant to be a value."""
        first = grammar.FIRST_CHARACTER.match(self._window, start + 1)[1]  # type: ignore[index]
        line = self._line_before(start)
        self._column = len(line[1]) if line else 0
        self._in_prose = mark == "[" and not (line or self.fenced)
        if self._in_prose and self._passed + start < self._no_array_before:
            return False  # it would break where the array around it did
        if not first or _FIRST_OF[mark].match(first):
            self._value = OpenValue(mark, start, self._wraps)
            self._mode = self._follow
            return True
        if mark == "{" and (line or first in _QUOTES):
            self._damage = Damage([mark], Raw(start), self._column, awaits_value=False)
            self._mode = self._measure
            return True
        return False

    def _leave_draft(self) -> None:
        """A value begins: what stood before an end of thinking was a draft."""
        if self.ends_draft:
            self.ends_draft = False
            self._give(Kind.DRAFT)

    def _end_thinking(self, position: int) -> None:
        self.thought = self._passed + position
        self._behind = len(self._between)
        if self._in_aside:
            self._in_aside = False
            self._give(Kind.ASIDE_ENDS)
        else:
            self.ends_draft = True

    def _think(self, position: int) -> int | None:
        """In thinking: nothing counts until it ends."""
        if match := _END_OF_THINKING.search(self._window, position):
            self._mode = self._search
            self.thought = self._passed + match.end()
            self._behind = len(self._between)
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
                return self._break(value, position)
        return position

    def _end(self, value: OpenValue, position: int) -> None:
        if not value.is_wrapper:
            self._give_value(value.raw.until(self._window, position))
        elif value.members > 1:
            self._give(Kind.WRAPPER_OR_OBJECT, value.raw.until(self._window, position))
        elif not value.elements:
            self._give(Kind.NOTHING)

    def _break(self, value: OpenValue, position: int) -> int:
        """Measure what is broken: of a wrapper no more than the element. A `[` in prose was prose."""
        window = self._window
        if self._in_prose and not _ARRAY_OF_OBJECTS.match(text := value.raw.until(window, position)):
            self._between.append("[")
            self._no_array_before = self._passed + position
            self._mode = self._search
            return self._go_back(text, 1, position)
        if value.in_wrapper:
            self._between.append("[{}")  # still open
        if value.is_wrapper and value.element is None:
            self._mode = self._search
            return position
        stack, raw = (value.stack[2:], value.element) if value.element else (value.stack, value.raw)
        if value.is_wrapper:
            self._between.append("[")
        if _LINE_ENDS.match(window, position):
            text = raw.until(window, position)
            if following := next_value(text, self._column):
                return self._give_broken(text, following, position)
        self._damage = Damage(
            stack, raw, self._column, awaits_value=value.awaits_value, in_string=value.in_string
        )
        self._mode = self._measure
        return position

    def _give_broken(self, text: str, length: int, position: int) -> int:
        """The first `length` characters of what ends at `position` are broken; go on behind them."""
        self._between.append("{}")
        self._give(Kind.BROKEN, text[:length].strip())
        self._mode = self._search
        return self._go_back(text, length, position)

    def _measure(self, position: int) -> int | None:
        """In a broken value."""
        over, position = self._damage.advance(self._window, position, self._final)
        if over:
            text = self._damage.raw.until(self._window, position)
            return self._give_broken(text, next_value(text, self._column) or len(text), position)
        self._damage.raw.keep(self._window, position)
        self._wait(position)
        return None
