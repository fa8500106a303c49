"""One pass over the text of an answer, whole or in chunks of any size, that finds the JSON in it.

Linear: no character is looked at more than a fixed number of times. What is decided never depends on where a
chunk ended. Where a value seems to end is guessed, and the decoder says whether it does; if not, it is
followed strictly as long as it obeys the grammar, and one that the text ends in is cut. Once it is broken,
only its extent is measured: no inner part of it is taken for a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, NamedTuple

import orjson

from trustgraph_prompt.contract import Limits
from trustgraph_prompt.reader import grammar
from trustgraph_prompt.reader.damage import Damage, next_value
from trustgraph_prompt.reader.decode import NotJson, decode, decode_at, has_long_number, is_too_deep, value_of
from trustgraph_prompt.reader.repair import Reading
from trustgraph_prompt.reader.value import LONGEST_WRAPPER, OpenValue, Progress, Raw

_MOST_REREAD = 200_000  # characters that were taken for a part of a broken value, and are read anew
_MOST_CANDIDATES = 1_000  # values, where one is looked for
MAX_REFUSED = 1_000  # values: what is broken or refused takes longest

# Each alternative begins with a character of its own, which is searched for first.
_LANDMARK = rf"```+|~~~+|</?{grammar.THINKING}"
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
_BARE_KEY = re.compile(r"\{\s*+[^\W\d][\w-]{0,60}\s*+:")
_LINE_ENDS = re.compile(r"[ \t\r]*\n")


class Kind(Enum):
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
    """

    kind: Kind
    raw: str = ""
    start: int = 0
    value: Any = None


Find = Values | Mark


class Scanner:
    """Finds the objects in the text of an answer; with `arrays`, the outermost arrays too.

    `names_wrapper(key)` says whether an object whose first member is `key` with an array of objects merely
    wraps them; `key` is a JSON string. `repair(text, ends_text)` says what a broken value was meant to be.

    After `close`: `cut` is whether the text ends within a value or in thinking, `fenced` whether in a code
    fence, `between` what stood around the values (each is `{}` there, or `{\\n}` if it took several lines),
    `full` whether there was more than `limits` allow, or `MAX_REFUSED`, and the rest was left unread.
    `thought` is where in the text the last thinking ended, `behind` the part of `between` that follows,
    `ends_draft` whether that thinking had no beginning and no value follows.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        arrays: bool = False,
        names_wrapper: Callable[[str], bool] = lambda _: False,
        repair: Callable[[str, bool], Reading | None] | None = None,
    ) -> None:
        self.cut = False
        self.fenced = False
        self.full = False
        self.thought = 0
        self.ends_draft = False
        self._limits = limits
        self._most = _MOST_CANDIDATES if arrays else limits.objects
        self._roots = _VALUES if arrays else _OBJECTS
        self._repair = repair
        self._may_repair = _MOST_REREAD if repair else 0
        self._names_wrapper = cache(names_wrapper)
        self._between: list[str] = []
        self._behind = 0  # how many parts of it stand before the last end of thinking
        self._in_aside = False
        self._mode: Callable[[int], int | None] = self._search
        self._value: OpenValue
        self._damage: Damage
        self._column = 0
        self._in_prose = False
        self._is_bare = False
        self._no_array_before = 0
        self._window = ""
        self._passed = 0  # characters before the window
        self._before = "\n"  # the last characters before the window
        self._final = False
        self._found: list[Find] = []
        self._run: Values | None = None
        self._objects = 0
        self._refused = 0
        self._decode: Callable[[str], Any] = orjson.loads
        self._no_line_before = 0
        self._no_guess_before = 0

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
        if not self._window and self._mode == self._search and (object_alone := self._take_alone(text)):
            return [object_alone]
        self._window += text
        self._decode = decode if has_long_number(self._window) else orjson.loads
        self._found = []
        self._run = None
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
        if position >= _LOOK_BACK:
            self._before = self._window[position - _LOOK_BACK : position]
        else:
            self._before = (self._before + self._window[:position])[-_LOOK_BACK:]
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

    def _mark(self, kind: Kind, raw: str = "", start: int = 0, value: Any = None) -> None:
        self._found.append(Mark(kind, raw, start, value))
        self._run = None

    def _give(self, raw: str, start: int, value: Any) -> None:
        """A value; or what is none although it obeys the grammar."""
        if type(value) is NotJson:
            self._give_broken(raw, start, value)
            return
        if self.ends_draft:
            self._leave_draft()
        self._objects += 1
        if self._objects > self._most:
            self.full = True
            return
        run = self._run
        if run is None:
            self._run = Values([value], [raw], [start], self.fenced)
            self._found.append(self._run)
        else:
            run.values.append(value)
            run.raws.append(raw)
            run.starts.append(start)

    def _give_run(self, run: Values) -> None:
        if self.ends_draft:
            self._leave_draft()
        room = self._most - self._objects
        self._objects += len(run.values)
        if self._objects > self._most:
            self.full = True
            run = Values(run.values[:room], run.raws[:room], run.starts[:room], run.fenced)
        self._found.append(run)
        self._run = run

    def _give_broken(self, raw: str, start: int, error: NotJson | None = None) -> None:
        self._objects += 1
        self._refused += 1
        if self._objects > self._most or self._refused > MAX_REFUSED:
            self.full = True
            return
        self._mark(Kind.BROKEN, raw, start, error)

    def _give_mended(self, raw: str, start: int, reading: Reading) -> None:
        self._objects += 1
        self.full = self._objects > self._limits.objects
        if not self.full:
            self._mark(Kind.MENDED, raw, start, reading)

    def _search(self, position: int) -> int | None:
        """Between values: look for the next one, past fences and thinking."""
        window, between, passed = self._window, self._between, position
        while position < len(window):
            if window[position] == "{":
                start, position = position, position + 1
            elif match := self._roots.search(window, position):
                start, position = match.span()
            else:
                break
            mark = window[start]
            if mark in "{[":
                closing = window.find(_CLOSES[mark], position) + 1
                if not (closing or self._final):
                    self._leave(passed, start)  # before more text comes nothing ends here
                    return None
                ends_later = mark == "[" or window.startswith("\n", position)
                if not ends_later and (end := self._take_lines(passed, start)):
                    passed = position = end
                    if self.full:
                        return None
                    continue
                if whole := (mark == "{" and self._guess(start, closing)) or self._whole(mark, start):
                    raw, value = whole
                    between.append(window[passed:start])
                    between.append("{\n}" if "\n" in raw else "{}")
                    self._give(raw, self._passed + start, value)
                    if self.full:
                        return None
                    passed = position = start + len(raw)
                elif self._begin(mark, start):
                    between.append(window[passed:start])
                    self._leave_draft()
                    return position
            elif mark == "<":
                between.append(window[passed:position])
                passed = position
                if window[start + 1] == "/":
                    self._end_thinking(position)
                elif self._line_before(start):
                    self._mode = self._think
                    return position
                else:
                    self._begin_aside()
            elif position < len(window) or self._final:
                self.fenced, self._run = not self.fenced, None
            else:
                self._leave(passed, start)  # the fence may go on
                return None
        end = len(window)
        if position < end and not self._final:
            end = _landmark_begins(window, position)
        self._leave(passed, end)
        return None

    def _leave(self, passed: int, position: int) -> None:
        """Nothing more before more text comes: what stands between values ends at `position`."""
        if passed < position:
            self._between.append(self._window[passed:position])
        self._wait(position)

    def _take_alone(self, text: str) -> Values | None:
        """Take a text that is one plain object and white space before it: what streams mostly come to."""
        raw = text.lstrip(" \t\r\n")
        if raw.count("{") != 1 or raw[0] != "{" or raw[-1] != "}" or "[" in raw or has_long_number(raw):
            return None
        if self.ends_draft or self._objects >= self._most or (value := self._object(raw)) is None:
            return None
        start = len(text) - len(raw)
        self._between += (text[:start], "{\n}" if "\n" in raw else "{}")
        self._objects += 1
        run = Values([value], [raw], [self._passed + start], self.fenced)
        self._passed += len(text)
        self._before = (self._before + text)[-_LOOK_BACK:]
        return run

    def _take_lines(self, passed: int, start: int) -> int | None:
        """Take the objects that end with their lines, from `start` on; where they end, None if there is none.

        No line is tried twice. What stands before them begins at `passed`.
        """
        window, absolute, between = self._window, self._passed, self._between
        if absolute + start < self._no_line_before:
            return None
        run, end = None, None
        newline, room = window.find("\n", start), self._most - self._objects
        if newline < 0:
            self._no_line_before = absolute + len(window)
        while newline >= 0 and room >= 0 and window.startswith("{", start):
            raw = window[start:newline].rstrip(" \t\r,")
            value = None if raw[-1] != "}" or self._wraps_at(start, raw) else self._object(raw)
            if value is None:
                self._no_line_before = absolute + newline
                break
            if run is None:
                run = Values([], [], [], self.fenced)
            run.values.append(value)
            run.raws.append(raw)
            run.starts.append(absolute + start)
            between += (window[passed:start], "{}")
            passed = end = start + len(raw)
            room -= 1
            start = newline + 1
            if not window.startswith("{", start):
                start = grammar.skip_space(window, start)
            newline = window.find("\n", start)
        if run is not None:
            self._give_run(run)
        return end

    def _guess(self, start: int, end: int) -> tuple[str, Any] | None:
        """The object that begins at `start`, if it ends where braces balance, at `end` or later.

        No text is guessed at twice: a guess is wrong where braces stand in strings.
        """
        window = self._window
        if not end or self._passed + start < self._no_guess_before:
            return None
        opened = window.count("{", start, end) - 1
        while opened and end:
            inner, end = end, window.find("}", end) + 1
            opened += window.count("{", inner, end) - 1
        raw = window[start:end]
        if self._wraps_at(start, raw):
            return None
        value = self._object(raw)
        if value is None:
            self._no_guess_before = self._passed + (end or len(window))
            return None
        return raw, value

    def _object(self, raw: str) -> Any:
        """The object that a text is; None if it is no JSON, or nested too deep."""
        try:
            value = self._decode(raw)
        except ValueError:
            return None
        if len(raw) > self._limits.depth and is_too_deep(value, raw, self._limits.depth):
            return None
        return value

    def _wraps_at(self, start: int, raw: str) -> bool:
        """Whether the object at `start`, of which `raw` is a part, merely wraps others."""
        return (
            "[" in raw
            and (key := grammar.WRAPPER.match(self._window, start)) is not None
            and self._wraps(key[1])
        )

    def _whole(self, mark: str, start: int) -> tuple[str, Any] | None:
        """The value that begins at `start`, if all of it is there, and is no wrapper."""
        if not _FIRST_OF[mark].match(self._first_within(start)):
            return None
        if mark == "{" and self._wraps_at(start, "["):
            return None
        if (found := decode_at(self._window, start)) is None:
            return None
        value, end = found
        raw = self._window[start:end]
        return None if is_too_deep(value, raw, self._limits.depth) else (raw, value)

    def _object_at(self, start: int) -> tuple[str, Any] | None:
        """The object that begins there, if there is one and nothing asks for a closer look."""
        if not self._window.startswith("{", start):
            return None
        return self._guess(start, self._window.find("}", start) + 1)

    def _wraps(self, key: str) -> bool:
        return len(key) <= LONGEST_WRAPPER and self._names_wrapper(key)

    def _line_before(self, start: int) -> re.Match[str] | None:
        """What stands before a value or tag that begins its line; None where it stands within a line."""
        head = self._window[max(0, start - _LOOK_BACK) : start]
        if start < _LOOK_BACK:
            head = (self._before + head)[-_LOOK_BACK:]
        return _LINE_BEGINS.search(head) if "\n" in head else None

    def _begin(self, mark: str, start: int) -> bool:
        """Whether what begins at `start` was meant to be a value."""
        first = self._first_within(start)
        line = self._line_before(start)
        self._column = len(line[1]) if line else 0
        self._in_prose = mark == "[" and not (line or self.fenced)
        self._is_bare = False
        if self._in_prose and self._passed + start < self._no_array_before:
            return False  # it would break where the array around it did
        if not first or _FIRST_OF[mark].match(first):
            self._value = OpenValue(
                mark,
                start,
                self._passed,
                self._limits.depth,
                names_wrapper=self._wraps,
                object_at=self._object_at,
            )
            self._mode = self._follow
            return True
        self._is_bare = not (line or first in _QUOTES) and self._begins_bare(start)
        if mark == "{" and (line or first in _QUOTES or self._is_bare):
            self._damage = Damage([mark], Raw(start, self._passed), self._column, awaits_value=False)
            self._mode = self._measure
            return True
        return False

    def _begins_bare(self, start: int) -> bool:
        """Whether an object begins there whose keys have no quotes, if that can be repaired."""
        return self._may_repair > 0 and _BARE_KEY.match(self._window, start) is not None

    def _first_within(self, start: int) -> str:
        """The first character behind a bracket, or nothing."""
        first = grammar.skip_space(self._window, start + 1)
        return self._window[first : first + 1]

    def _leave_draft(self) -> None:
        """A value begins: what stood before an end of thinking was a draft."""
        if self.ends_draft:
            self.ends_draft = False
            self._mark(Kind.DRAFT)

    def _begin_aside(self) -> None:
        self._in_aside = True
        if not (self._found and isinstance(last := self._found[-1], Mark) and last.kind is Kind.ASIDE):
            self._mark(Kind.ASIDE)

    def _end_thinking(self, position: int) -> None:
        self.thought = self._passed + position
        self._behind = len(self._between)
        if self._in_aside:
            self._in_aside = False
            self._mark(Kind.ASIDE_ENDS)
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
                self._mark(Kind.WRAPPER)
            case Progress.ELEMENTS:
                value.is_empty = False
                for element in value.elements:
                    self._give(*element)
                value.elements.clear()
            case Progress.ENDS:
                self._mode = self._search
                self._end(value, position)
            case Progress.BREAKS:
                return self._break(value, position)
        return position

    def _end(self, value: OpenValue, position: int) -> None:
        raw = value.raw.until(self._window, position)
        if not value.is_wrapper:
            self._between.append("{\n}" if "\n" in raw else "{}")
            self._give(raw, value.raw.at, value_of(raw))
        elif value.members > 1:
            whole = value_of(raw)
            self._objects += 1
            if type(whole) is not NotJson and self._objects <= self._most:
                self._mark(Kind.WRAPPER_OR_OBJECT, raw, value.raw.at, whole)
        elif value.is_empty:
            self._mark(Kind.NOTHING)

    def _break(self, value: OpenValue, position: int) -> int:
        """Measure what is broken: of a wrapper no more than the element. A `[` in prose was prose."""
        window = self._window
        if self._in_prose and not _ARRAY_OF_OBJECTS.match(text := value.raw.until(window, position)):
            self._between.append("[")
            self._refused += 1
            self.full = self._refused > MAX_REFUSED
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
                return self._end_broken(text, raw.at, following, position)
        self._damage = Damage(
            stack, raw, self._column, awaits_value=value.awaits_value, in_string=value.in_string
        )
        self._mode = self._measure
        return position

    def _measure(self, position: int) -> int | None:
        """In a broken value."""
        raw = self._damage.raw
        over, position = self._damage.advance(self._window, position, self._final)
        if over:
            text = raw.until(self._window, position)
            return self._end_broken(text, raw.at, next_value(text, self._column) or len(text), position)
        raw.keep(self._window, position)
        self._wait(position)
        return None

    def _end_broken(self, text: str, at: int, length: int, position: int) -> int:
        """Of what begins `at` and ends at `position`, the first `length` are broken; go on behind them."""
        self._between.append("{}")
        raw = text[:length].rstrip()
        ends_text = self._final and grammar.skip_space(self._window, position) == len(self._window)
        if reading := self._repaired(raw, ends_text=ends_text):
            self._may_repair -= length - reading.end
            length = reading.end
            self._give_mended(raw[:length], at, reading)
        elif self._is_bare:
            self._may_repair -= len(text)
            length = 1  # a brace in prose
        else:
            self._give_broken(raw, at)
        self._mode = self._search
        return self._go_back(text, length, position)

    def _repaired(self, raw: str, *, ends_text: bool) -> Reading | None:
        if self._repair is None or self._may_repair <= 0:
            return None
        return self._repair(raw, ends_text)


def _landmark_begins(window: str, position: int) -> int:
    """Where behind `position` a landmark may have begun, of which the rest comes later."""
    tail = max(position, len(window) - grammar.LONGEST_TAG)
    begun = _LANDMARK_BEGUN.search(window, tail) if tail < len(window) else None
    return begun.start() if begun else len(window)
