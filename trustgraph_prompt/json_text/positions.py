"""Finds positions in the text of an answer, to explain problems to people.

Takes linear time on any text and raises nothing. Slower than reading, so not for the fast path.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from trustgraph_prompt.json_text import grammar, thinking
from trustgraph_prompt.json_text.pointer import pointer, steps

_TOKEN = re.compile(
    rf'("{grammar.CHARACTERS}")|({grammar.NUMBER}(?![\w.+-])|(?:true|false|null)(?!\w))|[][{{}}:,]'
)
_VALID_PART = re.compile(rf'"{grammar.CHARACTERS}|{grammar.NUMBER}|true|false|null')  # of an invalid scalar
_UNFINISHED = re.compile(
    rf'(?:"{grammar.CHARACTERS}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?|-?[0-9.eE+-]*|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?)\Z'
)
_OBJECT_BEGINS = re.compile(r'\{(?=\s*+["}])')
_VALUE_BEGINS = re.compile(r"""\{(?=\s*+(?:["'}\w]|\Z))|\[(?=\s*+(?:[]\[{"\d\-tfn]|\Z))""")
DEEPEST = 1_000  # levels of nesting that are followed
_MOST_DIGITS = 4300  # of an integer, by default of the interpreter


class Span(NamedTuple):
    """A stretch of a text, in characters."""

    start: int
    end: int


class Duplicate(NamedTuple):
    """A key that occurs again in its object, and where."""

    key: str
    start: int


class State(Enum):
    """How a value ends."""

    WHOLE = auto()
    CUT = auto()  # at the end of the text
    BROKEN = auto()  # at invalid JSON


class Value(NamedTuple):
    """A value in a text; `path` is the JSON Pointer to the innermost value at its end, "" if it is whole."""

    start: int
    end: int
    state: State
    path: str


class LineColumn(NamedTuple):
    """A line and a column in characters, both from 1; only `\\n` ends a line."""

    line: int
    column: int


class Lines:
    """Converts offsets in a text to lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def at(self, offset: int) -> LineColumn:
        """The line and column of the character at `offset`."""
        line = bisect_right(self._starts, offset)
        return LineColumn(line, offset - self._starts[line - 1] + 1)


def member(text: str, path: str) -> Span:
    """The span of the value at a JSON Pointer in a JSON text; of duplicate keys the last counts.

    If the text does not hold it, or becomes invalid before it, the span of its innermost existing parent.
    """
    keys = steps(path)
    start, end, depth = 0, None, -1  # of the innermost value on the path so far
    reached = -1  # depth of the open values that are on the path
    walk = _Walk(text, grammar.skip_space(text, 0))
    for event in walk.events():
        if event.ends:
            if event.depth == reached:
                end = event.position if depth == reached else end
                reached -= 1
        elif event.depth == reached + 1 <= len(keys) and (
            event.depth == 0 or str(event.step) == keys[reached]
        ):
            start, end, depth, reached = event.position, None, event.depth, event.depth
    return Span(start, walk.position if end is None else end)


def breaks(text: str, depth: int) -> int | None:
    """The position where a text becomes invalid JSON; its end if it is truncated; None if it is valid.

    `depth` is how many levels may be nested.
    """
    walk = _Walk(text, grammar.skip_space(text, 0), depth).run()
    if walk.state is not State.WHOLE:
        return walk.position
    rest = grammar.skip_space(text, walk.position)
    return rest if rest < len(text) else None


def values(text: str) -> Iterator[Value]:
    """The outermost JSON values, whole or not, in the text of an answer, without its thinking."""
    for walk in _walks(text, _VALUE_BEGINS):
        yield Value(walk.start, walk.position, walk.state, walk.path())


def duplicates(text: str) -> Iterator[Duplicate]:
    """The duplicate keys of objects in the text of an answer, without its thinking."""
    for walk in _walks(text, _OBJECT_BEGINS):
        if walk.state is State.WHOLE:
            yield from walk.duplicates


def _walks(text: str, begins: re.Pattern[str]) -> Iterator[_Walk]:
    position = max((mark.end() for mark in thinking.END.finditer(text)), default=0)
    while bracket := begins.search(text, position):
        walk = _Walk(text, bracket.start()).run()
        yield walk
        position = walk.position


class _Event(NamedTuple):
    """A value begins or ends; `step` is its key or index in its container."""

    ends: bool
    depth: int
    step: str | int
    position: int


class _Container:
    """An object or array that is still open, and the current key or index in it."""

    def __init__(self, bracket: str) -> None:
        self.is_object = bracket == "{"
        self.step: str | int = "" if self.is_object else -1
        self.in_step = False
        self.keys: set[str] = set()


# The tokens that may come next: s a string, k a key, v any other scalar, else the character itself.
_VALUE = "sv{["
_FIRST = {"{": "k}", "[": f"{_VALUE}]"}
_AFTER_COMMA = {True: "k", False: _VALUE}
_AFTER_VALUE = {True: ",}", False: ",]"}
_END = ""


class _Walk:
    """Follows one JSON value from `start` to where it ends or becomes invalid: to `position`."""

    def __init__(self, text: str, start: int, depth: int = DEEPEST) -> None:
        self.start = self.position = start
        self.state = State.CUT
        self.duplicates: list[Duplicate] = []
        self._text = text
        self._depth = depth
        self._open: list[_Container] = []
        self._expected = _VALUE

    def run(self) -> _Walk:
        """Follow the value to its end."""
        for _ in self.events():
            pass
        return self

    def path(self) -> str:
        """The JSON Pointer to the current value."""
        return pointer(container.step for container in self._open if container.in_step)

    def events(self) -> Iterator[_Event]:
        """Follow the value to its end, and yield where values in it begin and end."""
        while token := self._next():
            kind = self._kind(token)
            if kind == "k":
                self._name(token)
                self._expected = ":"
            elif kind == ":":
                self._expected = _VALUE
            elif kind == ",":
                self._expected = _AFTER_COMMA[self._open[-1].is_object]
            else:
                if kind in _VALUE:
                    yield self._begin(token.start())
                if kind in _FIRST:
                    self._open.append(_Container(kind))
                    self._expected = _FIRST[kind]
                    continue
                if kind in "]}":
                    self._open.pop()
                yield self._end()

    def _next(self) -> re.Match[str] | None:
        """The next valid token; None at the end, with `state` set."""
        if self._expected == _END:
            self.state = State.WHOLE
            return None
        self.position = grammar.skip_space(self._text, self.position)
        token = _TOKEN.match(self._text, self.position)
        if token is None:
            self._stop()
        elif self._kind(token) in self._expected and self._is_readable(token):
            self.position = token.end()
            return token
        else:
            self.state = State.BROKEN
        return None

    def _kind(self, token: re.Match[str]) -> str:
        if token[1]:
            return "k" if "k" in self._expected else "s"
        return "v" if token[2] else token[0]

    def _is_readable(self, token: re.Match[str]) -> bool:
        """Whether the token is neither nested too deep nor a number that Python cannot read."""
        if token[0] in "{[":
            return len(self._open) < self._depth
        number = token[2] or ""
        if number.lstrip("-").isdigit():
            return len(number) <= _MOST_DIGITS
        return number[-1:].isalpha() or not number or not math.isinf(float(number))

    def _stop(self) -> None:
        """Set position and state where there is no whole token: it is truncated or invalid."""
        text, start = self._text, self.position
        kinds = "ks" if text.startswith('"', start) else "v"
        if any(kind in self._expected for kind in kinds):
            if valid := _VALID_PART.match(text, start):
                self.position = valid.end()
            if _UNFINISHED.match(text, start):
                self.position = len(text)
        if self.position < len(text):
            self.state = State.BROKEN

    def _name(self, token: re.Match[str]) -> None:
        """Begin a member with this key."""
        container = self._open[-1]
        container.step = key = json.loads(token[1]) if "\\" in token[1] else token[1][1:-1]
        container.in_step = True
        if key in container.keys:
            self.duplicates.append(Duplicate(key, token.start()))
        container.keys.add(key)

    def _begin(self, start: int) -> _Event:
        if not self._open:
            return _Event(False, 0, "", start)
        container = self._open[-1]
        if isinstance(container.step, int):
            container.step += 1
        container.in_step = True
        return _Event(False, len(self._open), container.step, start)

    def _end(self) -> _Event:
        if not self._open:
            self._expected = _END
            return _Event(True, 0, "", self.position)
        container = self._open[-1]
        container.in_step = False
        self._expected = _AFTER_VALUE[container.is_object]
        return _Event(True, len(self._open), container.step, self.position)
