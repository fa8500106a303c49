"""Finds the JSON in the text of an answer, in one pass, whole or in chunks of any size.

The time is linear: no character is looked at more than a fixed number of times. No decision depends on where
a chunk or slice ends: it ends after a closing brace, or has none, and then it ends at the same place in any
chunks. The end of a value is guessed, and confirmed by the decoder. If the guess is wrong, the value is
followed token by token as long as it is grammatical; if the text ends first, it is truncated. Of a broken
value only the end is determined: no inner part of it is taken for a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.contract import Limits
from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.json_text.positions import Span
from trustgraph_prompt.reader.broken_value_end import BrokenValue, next_value
from trustgraph_prompt.reader.complete_values import CompleteValues, NamesWrapper, Whole
from trustgraph_prompt.reader.decode import decode_or_error
from trustgraph_prompt.reader.markers import FENCE, Markers
from trustgraph_prompt.reader.open_value import OpenValue, TextWindow, ValueEvent
from trustgraph_prompt.reader.scan_results import MarkKind, ScanResult, ScanResults, Values

if TYPE_CHECKING:
    from trustgraph_prompt.reader.repair import RepairedValue

_MOST_CANDIDATES = 1_000  # values from which one is selected
SLICE = 65_536  # characters that are scanned at once
_MOST_REREAD = 200_000  # characters that are read again after they were taken for a part of a broken value

# What may precede a value on its line: quoting, a bullet or number, and brackets and commas.
_LINE_BEGINS = re.compile(r"\n\ufeff?([ \t]*)[> \t]*(?:[-*+•]|\d{1,6}[.):])?[ \t[,]*\Z")
_LOOK_BACK = 40

_CLOSES = {"{": "}", "[": "]"}
_FIRST_OF = {"{": re.compile(r'["}]'), "[": re.compile(r'[]\[{"\d\-tfn]')}
_QUOTES = "'“”‘’`"
_ARRAY_OF_OBJECTS = re.compile(r"\[\s*+\{")
_BARE_KEY = re.compile(r"\{\s*+[^\W\d][\w-]{0,60}\s*+:")
_LINE_ENDS = re.compile(r"[ \t\r]*\n")


def _slices(text: str) -> Iterator[str]:
    """The parts of a text that are scanned at once; they end where a value does, as far as can be guessed."""
    start = 0
    while len(text) - start > SLICE:
        latest = start + SLICE
        end = (text.rfind("}\n{", start, latest) + 1) or (text.rfind("}", start, latest) + 1) or latest
        yield text[start:end]
        start = end
    yield text[start:]


class Scanner:
    """Finds the objects in the text of an answer; with `arrays`, the outermost arrays too.

    `names_wrapper(keys)` says whether an object merely wraps an array of objects, as in `CompleteValues`; the
    keys are JSON strings. `repair(text, ends_text)` reads a broken value. `markers` know the
    notations of thinking.

    After `close`:

    - `truncated`: whether the text ends within a value or thinking (`thinks`); `fenced`: in a code fence
    - `full`: whether a limit was reached, so that the rest was not read
    - `fences`: the spans of code fences with the plain text after them, outside of values and thinking
    - `between`: the text around the values, each of which is `{}` there, or `{\\n}` if it has several lines
    - `thinking_end`: where the last thinking ended; `after_thinking`: the part of `between` after that
    - `ends_draft`: whether that thinking had no start tag, and no value follows it
    """

    def __init__(
        self,
        limits: Limits,
        *,
        arrays: bool = False,
        names_wrapper: NamesWrapper = lambda _: False,
        repair: Callable[[str, bool], RepairedValue | None] | None = None,
        markers: Markers,
    ) -> None:
        self.truncated = False
        self.fenced = False
        self.fences: list[Span] = []
        self.thinking_end = 0
        self.thinks = False
        self._limits = limits
        self._results = ScanResults(_MOST_CANDIDATES if arrays else limits.objects)
        self._complete = CompleteValues(limits.depth, names_wrapper)
        self._known = self._markers = markers
        self._arrays = arrays
        self._repair = repair
        self._may_repair = _MOST_REREAD if repair else 0
        self._between: list[str] = []
        self._before_thinking_end = 0  # how many parts of `_between`
        self._in_aside = False
        # an unbound method: a bound one would be a reference cycle, which delays freeing the reader
        self._mode: Callable[[Scanner, int], int | None] = Scanner._search
        self._thinking_ends: re.Pattern[str]
        self._value: OpenValue
        self._broken: BrokenValue
        self._column = 0
        self._in_prose = False
        self._is_bare = False
        self._broke_at = 0
        self._no_array_before = 0
        self._window = ""
        self._passed = 0  # characters before the window
        self._before = "\n"  # the last characters before the window
        self._final = False

    @property
    def full(self) -> bool:
        return self._results.full

    @property
    def open(self) -> int:
        """How many characters were read of a value that has not ended; its end takes time for all of them."""
        if self._mode is Scanner._follow:
            begun = self._value.raw.at
        elif self._mode is Scanner._measure:
            begun = self._broken.raw.at
        else:
            return 0
        return self._passed + len(self._window) - begun

    @property
    def ends_draft(self) -> bool:
        return self._results.ends_draft

    @property
    def between(self) -> str:
        return "".join(self._between)

    @property
    def after_thinking(self) -> str:
        return "".join(self._between[self._before_thinking_end :])

    def feed(self, text: str) -> list[ScanResult]:
        """Read `text`, and return what it completes.

        A long text is read in slices: a regular expression does not release the GIL while it searches.
        """
        if len(text) <= SLICE:
            return self._feed(text)
        return [result for part in _slices(text) for result in self._feed(part)]

    def pass_lines(self, text: str, count: int) -> None:
        """Pass the beginning of the answer: so many objects, one a line, that were read elsewhere."""
        self._results.pass_values(count)
        self._between.append("\n".join(["{}"] * count))
        self._before = self._last_before(text, len(text))
        self._passed = len(text)

    def _feed(self, text: str) -> list[ScanResult]:
        if self._results.full:
            return []
        if not self._window and self._mode is Scanner._search and (whole := self._complete.alone(text)):
            self._pass_alone(text, whole)
            return self._results.take()
        self._look_at(self._window + text)
        position: int | None = 0
        while position is not None and not self._results.full:
            position = self._mode(self, position)
        return self._results.take()

    def _look_at(self, window: str) -> None:
        self._window = window
        self._markers = self._known.for_text(window)
        self._complete.expect(window)

    def close(self) -> list[ScanResult]:
        """Return what only the end of the text completes."""
        self._final = True
        return self.feed("")

    def _pass_alone(self, text: str, whole: Whole) -> None:
        """Take a text that is one object."""
        raw, value = whole
        start = len(text) - len(raw)
        self._take(text[:start], raw, self._passed + start, value)
        self._before = self._last_before(text, len(text))
        self._passed += len(text)

    def _last_before(self, text: str, end: int) -> str:
        """The last characters before `end` of a text that follows what was passed."""
        if end >= _LOOK_BACK:
            return text[end - _LOOK_BACK : end]
        return (self._before + text[:end])[-_LOOK_BACK:]

    def _wait(self, position: int) -> None:
        """Keep the window from `position` on until more text comes."""
        self._before = self._last_before(self._window, position)
        self._window = self._window[position:]
        self._passed += position

    def _go_back(self, text: str, length: int, position: int) -> int:
        """Where to go on, to read `text` again from `length` on; it ends at `position`."""
        back = len(text) - length
        if back <= position:
            return position - back
        self._before = text[max(0, length - _LOOK_BACK) : length]
        self._passed -= back - position
        self._look_at(text[length:] + self._window[position:])
        return 0

    def _search(self, position: int) -> int | None:
        """Between values: search for the next one, and pass fences and thinking."""
        window, between, passed = self._window, self._between, position
        roots = self._markers.values if self._arrays else self._markers.objects
        while position < len(window):
            if window[position] == "{":
                start, position = position, position + 1
            elif match := roots.search(window, position):
                start, position = match.span()
            else:
                break
            mark = window[start]
            if mark in "{[" and position == start + 1:
                waits = not self._final and len(window) - start < SLICE
                if waits and window.find(_CLOSES[mark], position) < 0:
                    self._leave(passed, start)  # nothing ends here before more text comes
                    return None
                end = None
                if mark == "[":
                    end = self._take_value(passed, start)
                elif grammar.OBJECT_BEGINS.match(window, start):
                    if wrapper := self._complete.wraps_at(window, start):
                        between += (
                            window[passed:start],
                            "wrapper",
                        )  # any word: the answer is not laid out in lines
                        elements, level = wrapper
                        self._begin_wrapper(start, level)
                        return elements
                    end = self._take_objects(passed, start) or self._take_value(passed, start)
                if end:
                    passed = position = end
                    if self._results.full:
                        return None
                elif self._begin(mark, start):
                    between.append(window[passed:start])
                    self._results.leave_draft()
                    return position
                else:
                    self._results.pass_landmarks(1)
                    if self._results.full:
                        return None
            elif mark in "`~":
                if position == len(window) and not self._final:
                    self._leave(passed, start)  # the fence may go on
                    return None
                position = self._pass_fences(start, position)
            else:
                between.append(window[passed:position])
                passed = position = self._pass_mark(start, position)
                self._results.pass_landmarks(len(roots.findall(window, start, position)))
                if self._results.full:
                    return None
                if self._mode is Scanner._think:
                    return position
        end = len(window)
        if position < end and not self._final:
            end = self._markers.partial_landmark(window, position)
        self._leave(passed, end)
        return None

    def _pass_fences(self, start: int, end: int) -> int:
        """Pass the fence from `start` to `end`, and fences that follow it, and return where they end."""
        window, many = self._window, 1
        if more := self._markers.more_fences.match(window, end):
            end = more.end()
            if end == len(window) and not self._final:
                end = len(window.rstrip(window[-1]))  # the last one may go on
            many = len(FENCE.findall(window, start, end))
        self.fenced ^= many % 2 == 1
        self.fences.append(
            Span(self._passed + start, self._passed + grammar.end_of(self._markers.plain, window, end))
        )
        self._results.end_run()
        return end

    def _pass_mark(self, start: int, end: int) -> int:
        """Pass the mark of thinking from `start` to `end`, and return where to go on."""
        window, markers = self._window, self._markers
        mark = window[start:end].lower()
        if mark not in markers.closes:
            self._end_thinking(end)
            if more := markers.more_ends.match(window, end):
                end = more.end()
                self._between.append(more[0])
                self._end_thinking(end)
        elif mark in markers.tokens or self._line_before(start):
            self._thinking_ends = markers.closes[mark]
            self._mode = Scanner._think
        else:
            self._in_aside = True
            self._results.mark_aside()
            passed, end = end, grammar.end_of(markers.more_asides, window, end)
            self._between.append(window[passed:end])
        return end

    def _leave(self, passed: int, position: int) -> None:
        """Wait for more text; what is between values ends at `position` so far."""
        if passed < position:
            self._between.append(self._window[passed:position])
        self._wait(position)

    def _take_objects(self, passed: int, start: int) -> int | None:
        """Take the complete objects from `start` on, and return where they end."""
        run, gaps = self._complete.objects(
            self._window,
            self._passed,
            start,
            self._results.room + 1,
            fenced=self.fenced,
            before_next=grammar.BEFORE_OBJECT,
        )
        if not run.values:
            return None
        if len(run.raws) == 1:
            self._take(self._window[passed:start], run.raws[0], run.starts[0], run.values[0])
            return start + len(run.raws[0])
        mark = "{\n}" if any("\n" in raw for raw in run.raws) else "{}"
        self._between += (self._window[passed:start], mark.join(("", *gaps[: len(run.raws) - 1], "")))
        self._results.run(run)
        return run.starts[-1] - self._passed + len(run.raws[-1])

    def _take_value(self, passed: int, start: int) -> int | None:
        """Take the value that begins at `start`, if it is complete, and return where it ends."""
        window = self._window
        whole = self._complete.value(window, start)
        if whole is None:
            return None
        raw, value = whole
        self._take(window[passed:start], raw, self._passed + start, value)
        return start + len(raw)

    def _take(self, before: str, raw: str, at: int, value: Any) -> None:
        """Take a value that is not an element of a wrapper, and the text before it."""
        self._between += (before, "{\n}" if "\n" in raw else "{}")
        self._results.value(raw, at, value, self.fenced)

    def _elements_at(self, start: int, most: int) -> Values:
        """The objects from `start` on that are elements of an array."""
        run, _ = self._complete.objects(
            self._window, self._passed, start, most, fenced=self.fenced, before_next=grammar.BEFORE_ELEMENT
        )
        return run

    def _line_before(self, start: int) -> re.Match[str] | None:
        """What precedes a value or tag that begins its line; None where it is within a line."""
        head = self._last_before(self._window, start)
        return _LINE_BEGINS.search(head) if "\n" in head else None

    def _begin(self, mark: str, start: int) -> bool:
        """Begin what may be a value at `start`; False if it is none."""
        first_at = grammar.skip_space(self._window, start + 1)
        first = self._window[first_at : first_at + 1]
        line = self._line_before(start)
        self._column = len(line[1]) if line else 0
        self._in_prose = mark == "[" and not (line or self.fenced)
        self._is_bare = False
        if self._in_prose and self._passed + start < self._no_array_before:
            return False  # it would break where the array around it did
        if not first or _FIRST_OF[mark].match(first):
            self._open(mark, start)
            return True
        can_be_bare = not (line or first in _QUOTES) and self._may_repair > 0
        self._is_bare = can_be_bare and _BARE_KEY.match(self._window, start) is not None
        if mark == "{" and (line or first in _QUOTES or self._is_bare):
            self._broken = BrokenValue(
                [mark], TextWindow(start, self._passed), self._column, awaits_value=False
            )
            self._broke_at = 0
            self._mode = Scanner._measure
            return True
        return False

    def _begin_wrapper(self, start: int, level: int) -> None:
        """Begin the wrapper at `start`, with so many objects around its elements."""
        line = self._line_before(start)
        self._column = len(line[1]) if line else 0
        self._in_prose = self._is_bare = False
        self._open("{", start)
        self._value.wrap(level)
        self._results.leave_draft()
        self._results.mark(MarkKind.WRAPPER)

    def _open(self, bracket: str, start: int) -> None:
        self._value = OpenValue(
            bracket, start, self._passed, self._limits.depth, names_wrapper=self._complete.wraps
        )
        self._mode = Scanner._follow

    def _end_thinking(self, position: int) -> None:
        self.thinking_end = self._passed + position
        self._before_thinking_end = len(self._between)
        if self._in_aside:
            self._in_aside = False
            self._results.mark(MarkKind.ASIDE_ENDS)
        else:
            self._results.ends_draft = True

    def _think(self, position: int) -> int | None:
        """In thinking: skip to its end."""
        if match := self._thinking_ends.search(self._window, position):
            self._mode = Scanner._search
            self.thinking_end = self._passed + match.end()
            self._before_thinking_end = len(self._between)
            return match.end()
        self.truncated = self.thinks = self._final
        self._wait(max(position, len(self._window) - self._markers.longest))
        return None

    def _follow(self, position: int) -> int | None:
        """In a value that is grammatical so far."""
        value, window = self._value, self._window
        event, position = value.advance(window, position, self._elements_at)
        match event:
            case ValueEvent.WAITS:
                self.truncated = self._final
                if self._final and not value.is_wrapper:
                    self._results.mark(MarkKind.CUT, value.raw.until(window, len(window)), value.raw.at)
                value.keep(window, position)
                self._wait(position)
                return None
            case ValueEvent.WRAPS:
                self._between.append("wrapper")
                self._results.mark(MarkKind.WRAPPER)
            case ValueEvent.ELEMENTS:
                value.is_empty = False
                if value.element_run is not None:
                    self._results.run(value.element_run)
                else:
                    self._results.value(*value.last_element, self.fenced)
            case ValueEvent.ENDS:
                self._mode = Scanner._search
                self._end(value, position)
            case ValueEvent.BREAKS:
                return self._break(value, position)
        return position

    def _end(self, value: OpenValue, position: int) -> None:
        raw = value.raw.until(self._window, position)
        if not value.is_wrapper:
            self._take("", raw, value.raw.at, decode_or_error(raw))
        elif value.members > 1:
            self._results.wrapper(raw, value.raw.at, decode_or_error(raw))
        elif value.is_empty:
            self._results.mark(MarkKind.NOTHING)

    def _break(self, value: OpenValue, position: int) -> int:
        """Begin a broken value: of a wrapper only the element. A `[` in prose that breaks was not a value."""
        window = self._window
        if self._in_prose and not _ARRAY_OF_OBJECTS.match(text := value.raw.until(window, position)):
            self._between.append("[")
            self._results.waste()
            self._no_array_before = self._passed + position
            self._mode = Scanner._search
            return self._go_back(text, 1, position)
        if value.in_wrapper:
            self._between.append("[{}")  # still open
        if value.is_wrapper and value.element is None:
            self._results.waste()
            self._mode = Scanner._search
            return position
        stack, raw = (
            (value.stack[value.level + 1 :], value.element) if value.element else (value.stack, value.raw)
        )
        if value.is_wrapper:
            self._between.append("[")
        self._broke_at = self._passed + position
        if _LINE_ENDS.match(window, position):
            text = raw.until(window, position)
            if following := next_value(text, self._column):
                return self._end_broken(text, raw.at, following, position)
        self._broken = BrokenValue(
            stack,
            raw,
            self._column,
            awaits_value=value.awaits_value,
            in_string=value.in_string,
        )
        self._mode = Scanner._measure
        return position

    def _measure(self, position: int) -> int | None:
        """In a broken value: look for its end."""
        raw = self._broken.raw
        over, position = self._broken.advance(self._window, position, self._markers, final=self._final)
        if over:
            text = raw.until(self._window, position)
            following = next_value(text, self._column)
            self.truncated = self._final and following is None and not self._broken.is_closed
            return self._end_broken(text, raw.at, following or len(text), position)
        raw.keep(self._window, position)
        self._wait(position)
        return None

    def _end_broken(self, text: str, at: int, length: int, position: int) -> int:
        """End a broken value: the first `length` characters of `text`, after which the scan goes on.

        `text` begins `at` in the answer and ends at `position` of the window.
        """
        self._between.append("{}")
        raw = text[:length].rstrip()
        ends_text = self._final and grammar.skip_space(self._window, position) == len(self._window)
        if ends_text and at + len(raw) <= self._broke_at:
            self.truncated = True  # it is grammatical except for white space at the end, within a string
        elif reading := self._try_repair(raw, ends_text=ends_text):
            self._may_repair -= length - reading.end
            length = reading.end
            self._results.repaired(raw[:length], at, reading)
        elif self._is_bare:
            self._may_repair -= len(text)
            length = 1  # a brace in prose
        else:
            self._results.broken(raw, at, fenced=self.fenced)
        self._mode = Scanner._search
        return self._go_back(text, length, position)

    def _try_repair(self, raw: str, *, ends_text: bool) -> RepairedValue | None:
        if self._repair is None or self._may_repair <= 0:
            return None
        return self._repair(raw, ends_text)
