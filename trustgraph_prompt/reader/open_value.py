"""A value whose end has not been seen: followed by the grammar, from chunk to chunk."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.reader.complete_values import LONGEST_WRAPPER
from trustgraph_prompt.reader.decode import value_of
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
    """A stretch of text that may have begun in an earlier window; `at` is where in all of the text."""

    def __init__(self, start: int, passed: int) -> None:
        self.at = passed + start
        self._parts: list[str] = []
        self._start = start

    def keep(self, window: str, end: int) -> None:
        """The window is given up at `end`."""
        self._parts.append(window[self._start : end])
        self._start = 0

    def until(self, window: str, end: int) -> str:
        """The text from its start to `end` of this window."""
        return "".join((*self._parts, window[self._start : end]))


class Progress(Enum):
    """How far a value has come."""

    WAITS = auto()  # for more text: where there is no more, the value is cut
    ENDS = auto()
    BREAKS = auto()  # what comes next is not JSON, or nested too deep
    WRAPS = auto()  # its first member turns out to hold the objects of the answer
    ELEMENTS = auto()  # some such objects are complete


class OpenValue:
    """Follows one object or array, whose bracket stands at `start` of a window before which `passed` are."""

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
        self.element: TextWindow | None = None  # the one that has begun
        self.last_element: tuple[str, int, Any] = ("", 0, None)  # that is complete: text, beginning, value
        self.element_run: Values | None = None  # several of them, instead
        self.is_wrapper = False
        self.is_empty = True  # as far as it is a wrapper
        self.members = 1
        self.in_string = False
        self._passed = passed
        self._max_depth = max_depth
        self._expected = "first key" if bracket == "{" else "first element"
        self._names_wrapper = names_wrapper
        self._first_key: str | None = None

    @property
    def awaits_value(self) -> bool:
        """Whether an opening bracket would be in its place."""
        return "{" in _MOVES[self._expected] and not self.in_string

    @property
    def in_wrapper(self) -> bool:
        """Whether the next object would be an element of the answer."""
        return self.is_wrapper and self.stack == ["{", "["]

    def wrap(self) -> None:
        """Its first member is an array, and what follows are elements of the answer."""
        self.is_wrapper = True
        self._push("[")

    def keep(self, window: str, end: int) -> None:
        """The window is given up at `end`."""
        self._passed += end
        self.raw.keep(window, end)
        if self.element is not None:
            self.element.keep(window, end)

    def advance(
        self, window: str, position: int, elements_at: Callable[[int, int], Values]
    ) -> tuple[Progress, int]:
        """Go on from `position` to the next event, and say where that is.

        `elements_at` takes the elements of a wrapper that stand whole in the window, several at once.
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
                    return Progress.WAITS, position
                key, self._first_key = self._first_key, None
                if grammar.OBJECTS_BEGIN.match(window, position) and self._names_wrapper(key):
                    self.wrap()
                    return Progress.WRAPS, window.index("[", position) + 1
            elif self.is_wrapper and self.in_wrapper and self._expected in ("first element", "element"):
                self.element_run = elements_at(grammar.skip_space(window, position), _MOST_AT_ONCE)
                if self.element_run.values:
                    self._expected = "next element"
                    last = len(self.element_run.values) - 1
                    start = self.element_run.starts[last] - self._passed
                    return Progress.ELEMENTS, start + len(self.element_run.raws[last])
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
                return Progress.BREAKS, position
            if kind in "{[" and len(self.stack) >= self._max_depth:
                return Progress.BREAKS, position
            position = token.end()
            if event := self._take(kind, token, window):
                return event, position

    def _take(self, kind: str, token: re.Match[str], window: str) -> Progress | None:
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
            self.members += kind == "," and len(self.stack) == 1
            self._expected = _MOVES[self._expected][kind]
            if in_wrapper and kind == "value" and token[2][0] == "{":
                self.element = TextWindow(token.start(2), self._passed)
                return self._end_element(window, token.end())
        return None

    def _push(self, bracket: str) -> None:
        self.stack.append(bracket)
        self._expected = "first key" if bracket == "{" else "first element"

    def _pop(self, window: str, end: int) -> Progress | None:
        closed = self.stack.pop()
        if not self.stack:
            return Progress.ENDS
        self._expected = "next member" if self.stack[-1] == "{" else "next element"
        if self.element is not None and closed == "{" and len(self.stack) == 2:
            return self._end_element(window, end)
        return None

    def _end_element(self, window: str, end: int) -> Progress:
        assert self.element is not None
        raw = self.element.until(window, end)
        self.last_element = raw, self.element.at, value_of(raw)
        self.element = self.element_run = None
        return Progress.ELEMENTS

    @property
    def _near_limit(self) -> bool:
        """Whether a value matched in one go might be nested too deep."""
        return len(self.stack) + grammar.LEVELS > self._max_depth

    def _run(self, window: str, position: int) -> int:
        """Pass many members or elements at once, where none of them has to be looked at."""
        at_first_member = len(self.stack) == 1 and self._expected == "first key"
        may_hold_elements = self.is_wrapper and len(self.stack) <= 2
        if at_first_member or may_hold_elements or self._near_limit:
            return position
        run, then = _RUNS[self._expected]
        if match := run.match(window, position):
            self._expected = then
            return match.end()
        return position

    def _stuck(self, window: str, position: int) -> tuple[Progress, int]:
        moves = _MOVES[self._expected]
        if "string" in moves and (match := grammar.STRING_BEGINS.match(window, position)):
            may_wrap = len(self.stack) == 1 and self._expected == "first key"
            progress, end = self._stuck_in_string(window, match.end())
            if progress is Progress.WAITS and may_wrap and end - match.start(1) <= LONGEST_WRAPPER:
                return Progress.WAITS, position  # its name will be asked for
            self.in_string = True
            return progress, end
        unfinished = grammar.UNFINISHED.match(window, position)
        if unfinished and ("value" in moves or not unfinished[0].strip()):
            return Progress.WAITS, position
        return Progress.BREAKS, position

    def _stuck_in_string(self, window: str, position: int) -> tuple[Progress, int]:
        if grammar.UNFINISHED_ESCAPE.match(window, position):
            return Progress.WAITS, position
        return Progress.BREAKS, position
