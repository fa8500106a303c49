"""Follows a value whose end has not been seen, token by token and from chunk to chunk."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.reader.complete_values import LONGEST_WRAPPER
from trustgraph_prompt.reader.decode import decode_or_error
from trustgraph_prompt.reader.scan_results import Values

_MOST_AT_ONCE = 1_000  # elements

# What may come next within a value, and what is expected after it.
_ANY_VALUE = {"string": "next {}", "value": "next {}", "{": "first key", "[": "first element"}
_MEMBER = {token: state.format("member") for token, state in _ANY_VALUE.items()}
_ELEMENT = {token: state.format("element") for token, state in _ANY_VALUE.items()}
_MOVES = {
    "first key": {"string": "colon", "}": "close"},
    "key": {"string": "colon"},
    "colon": {":": "member"},
    "member": _MEMBER,
    "next member": {",": "key", "}": "close"},
    "first element": {**_ELEMENT, "]": "close"},
    "element": _ELEMENT,
    "next element": {",": "element", "]": "close"},
}
_RUNS = {
    "first key": (grammar.MEMBERS, "key"),
    "key": (grammar.MEMBERS, "key"),
    "first element": (grammar.ELEMENTS, "element"),
    "element": (grammar.ELEMENTS, "element"),
}


_MEMBER_SCALAR = rf"{grammar.SPACE},{grammar.SPACE}{grammar.member(grammar.SCALAR)}"
_REST_OF_WRAPPER = re.compile(rf"{grammar.SPACE}\](?P<members>(?:{_MEMBER_SCALAR})*+)")


class TextWindow:
    """A stretch of text that may have begun in an earlier window; `at` is its position in the answer."""

    def __init__(self, start: int, passed: int) -> None:
        self.at = passed + start
        self._parts: list[str] = []
        self._start = start

    def keep(self, window: str, end: int) -> None:
        """Keep the text up to `end`, where the next window begins."""
        self._parts.append(window[self._start : end])
        self._start = 0

    def until(self, window: str, end: int) -> str:
        """The text from its start to `end` in this window."""
        return "".join((*self._parts, window[self._start : end]))


class ValueEvent(Enum):
    """The event at which `OpenValue.advance` stops."""

    WAITS = auto()  # for more text; at the end of the text, the value is truncated
    ENDS = auto()
    BREAKS = auto()  # the next token is not JSON, or nested too deeply
    WRAPS = auto()  # its first member turns out to be an array of the answer's objects
    ELEMENTS = auto()  # objects of that array are complete


class OpenValue:
    """Follows one object or array, whose bracket is at `start` of a window after `passed` characters."""

    def __init__(
        self,
        bracket: str,
        start: int,
        passed: int,
        max_depth: int,
        *,
        names_wrapper: Callable[[str], bool],
    ) -> None:
        self.stack = [bracket]
        self.raw = TextWindow(start, passed)
        self.element: TextWindow | None = None  # of a wrapper: the one that has begun
        self.last_element: tuple[str, int, Any] = ("", 0, None)  # the last complete one: text, start, value
        self.element_run: Values | None = None  # or several complete ones
        self.is_wrapper = False
        self.level = 1  # of a wrapper: how many objects are around its elements
        self.is_empty = True  # whether a wrapper has had no elements
        self.members = 1
        self.in_string = False
        self._passed = passed
        self._max_depth = max_depth
        self._expected = "first key" if bracket == "{" else "first element"
        self._names_wrapper = names_wrapper
        self._first_key: str | None = None
        self._wrapper: list[str] = []  # the stack between elements

    @property
    def awaits_value(self) -> bool:
        """Whether a value may come next."""
        return "{" in _MOVES[self._expected] and not self.in_string

    @property
    def in_wrapper(self) -> bool:
        """Whether the next object is one of the answer's objects."""
        return self.is_wrapper and self.stack == self._wrapper

    def wrap(self, level: int = 1) -> None:
        """Treat the value as a wrapper whose elements follow, within so many objects."""
        self.is_wrapper = True
        self.level = level
        self.stack = ["{"] * level
        self._push("[")
        self._wrapper = self.stack.copy()

    def keep(self, window: str, end: int) -> None:
        """Keep the text up to `end`, where the next window begins."""
        self._passed += end
        self.raw.keep(window, end)
        if self.element is not None:
            self.element.keep(window, end)

    def advance(
        self, window: str, position: int, elements_at: Callable[[int, int], Values]
    ) -> tuple[ValueEvent, int]:
        """Go on from `position` to the next event, and return its position.

        `elements_at` reads elements of a wrapper that are complete in the window, several at once.
        """
        while True:
            if self.in_string:
                position = grammar.end_of(grammar.REST_OF_STRING, window, position)
                if not window.startswith('"', position):
                    return self._stuck_in_string(window, position)
                self.in_string = False
                self._expected = _MOVES[self._expected]["string"]
                position += 1
            elif self._first_key is not None and self._expected == "member" and len(self.stack) == 1:
                if grammar.OBJECTS_BEGIN_LATER.match(window, position):
                    return ValueEvent.WAITS, position
                key, self._first_key = self._first_key, None
                if grammar.OBJECTS_BEGIN.match(window, position) and self._names_wrapper(key):
                    self.wrap()
                    return ValueEvent.WRAPS, window.index("[", position) + 1
            elif self.is_wrapper and self.in_wrapper and self._expected in ("first element", "element"):
                self.element_run = elements_at(grammar.skip_space(window, position), _MOST_AT_ONCE)
                if self.element_run.values:
                    self._expected = "next element"
                    last = len(self.element_run.values) - 1
                    start = self.element_run.starts[last] - self._passed
                    return ValueEvent.ELEMENTS, start + len(self.element_run.raws[last])
            elif (
                self._expected == "next element"
                and self.in_wrapper
                and (rest := _REST_OF_WRAPPER.match(window, position))
            ):
                position = rest.end()
                self.stack.pop()
                self._expected = "next member"
                self.members += bool(rest["members"])
            if self._expected in _RUNS:
                position = self._run(window, position)
            token = (grammar.FLAT_TOKEN if self._near_limit else grammar.TOKEN).match(window, position)
            if token is None:
                return self._stuck(window, position)
            kind = "string" if token[1] else "value" if token[2] else token[0][-1]
            if kind not in _MOVES[self._expected]:
                return ValueEvent.BREAKS, position
            if kind in "{[" and len(self.stack) >= self._max_depth:
                return ValueEvent.BREAKS, position
            position = token.end()
            if event := self._take(kind, token, window):
                return event, position

    def _take(self, kind: str, token: re.Match[str], window: str) -> ValueEvent | None:
        in_wrapper = self.is_wrapper and self.in_wrapper
        if in_wrapper and kind == "{":
            self.element = TextWindow(token.end() - 1, self._passed)
        if kind in "{[":
            self._push(kind)
        elif _MOVES[self._expected][kind] == "close":
            return self._pop(window, token.end())
        else:
            if self._expected == "first key" and len(self.stack) == 1:
                self._first_key = token[1]
            self.members += kind == "," and len(self.stack) <= self.level
            self._expected = _MOVES[self._expected][kind]
            if in_wrapper and kind == "value" and token[2][0] == "{":
                self.element = TextWindow(token.start(2), self._passed)
                return self._end_element(window, token.end())
        return None

    def _push(self, bracket: str) -> None:
        self.stack.append(bracket)
        self._expected = "first key" if bracket == "{" else "first element"

    def _pop(self, window: str, end: int) -> ValueEvent | None:
        closed = self.stack.pop()
        if not self.stack:
            return ValueEvent.ENDS
        self._expected = "next member" if self.stack[-1] == "{" else "next element"
        if self.element is not None and closed == "{" and self.in_wrapper:
            return self._end_element(window, end)
        return None

    def _end_element(self, window: str, end: int) -> ValueEvent:
        assert self.element is not None
        raw = self.element.until(window, end)
        self.last_element = raw, self.element.at, decode_or_error(raw)
        self.element = self.element_run = None
        return ValueEvent.ELEMENTS

    @property
    def _near_limit(self) -> bool:
        """Whether a value that one pattern matches might be nested too deeply."""
        return len(self.stack) + grammar.LEVELS > self._max_depth

    def _run(self, window: str, position: int) -> int:
        """Pass many members or elements at once, where none of them has to be examined."""
        at_first_member = len(self.stack) == 1 and self._expected == "first key"
        may_hold_elements = self.is_wrapper and len(self.stack) <= self.level + 1
        if at_first_member or may_hold_elements or self._near_limit:
            return position
        run, then = _RUNS[self._expected]
        if match := run.match(window, position):
            self._expected = then
            return match.end()
        return position

    def _stuck(self, window: str, position: int) -> tuple[ValueEvent, int]:
        moves = _MOVES[self._expected]
        if "string" in moves and (match := grammar.STRING_BEGINS.match(window, position)):
            may_wrap = len(self.stack) == 1 and self._expected == "first key"
            event, end = self._stuck_in_string(window, match.end())
            if event is ValueEvent.WAITS and may_wrap and end - match.start(1) <= LONGEST_WRAPPER:
                return ValueEvent.WAITS, position  # its name is needed as a whole
            self.in_string = True
            return event, end
        unfinished = grammar.UNFINISHED.match(window, position)
        if unfinished and ("value" in moves or not unfinished[0].strip()):
            return ValueEvent.WAITS, position
        return ValueEvent.BREAKS, position

    def _stuck_in_string(self, window: str, position: int) -> tuple[ValueEvent, int]:
        if grammar.UNFINISHED_ESCAPE.match(window, position):
            return ValueEvent.WAITS, position
        return ValueEvent.BREAKS, position
