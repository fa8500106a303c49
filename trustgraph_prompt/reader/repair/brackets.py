"""Keeps the open brackets and what they contain, and decides which of them a closing bracket is for."""

from __future__ import annotations

from typing import Any

from trustgraph_prompt.reader.repair.ambiguities import Unrepairable
from trustgraph_prompt.reader.repair.grammar import (
    CLOSERS,
    COMMA,
    QUOTED_KEY,
    Names,
    begins_element,
    begins_member,
    key_at,
    next_mark,
)

NOTHING = object()  # the result where no value was meant


class OpenBracket:
    """A bracket that is not closed yet, and what it contains so far."""

    __slots__ = ("bracket", "called", "closer", "commas", "items", "key", "members", "start")

    def __init__(self, bracket: str, start: int, *, called: bool = False) -> None:
        self.bracket = bracket
        self.closer = CLOSERS[bracket]
        self.start = start
        self.called = called  # parentheses of a call, not of a tuple
        self.commas = 0
        self.members: dict[str, Any] = {}
        self.items: list[Any] = []  # elements; in an object values without a key, and keys without a value
        self.key: str | None = None  # of the member that comes next

    @property
    def is_empty(self) -> bool:
        return not self.members and not self.items

    def put(self, value: Any) -> None:
        if self.key is None:
            self.items.append(value)
        else:
            self.members[self.key] = value
            self.key = None

    def value(self) -> Any:
        """The value: braces may be a set, or doubled; parentheses may contain one value."""
        if self.bracket == "[":
            return self.items
        if self.bracket == "(":
            return self.items[0] if len(self.items) == 1 and (self.called or not self.commas) else self.items
        if self.members or not self.items:
            return self.members | {key: None for key in self.items if isinstance(key, str)}
        return self.items[0] if len(self.items) == 1 and isinstance(self.items[0], dict) else self.items


class Brackets:
    """The open brackets of a value; once none is open, `value` is the result."""

    def __init__(self, text: str, names: Names, max_depth: int) -> None:
        self.value: Any = NOTHING
        self.open: list[OpenBracket] = []
        self.missing: list[str] = []  # the closing ones, the outermost first
        self._text = text
        self._names = names
        self._max_depth = max_depth

    def begin(self, bracket: str, start: int, *, called: bool = False) -> OpenBracket:
        """Open a bracket. Raises `Unrepairable` where the nesting is too deep."""
        if len(self.open) >= self._max_depth:
            raise Unrepairable(f"nested deeper than {self._max_depth} levels", start)
        self.open.append(OpenBracket(bracket, start, called=called))
        self.missing.append(CLOSERS[bracket])
        return self.open[-1]

    def close(self) -> None:
        """Close the innermost bracket."""
        value = self.open[-1].value()
        self.drop()
        if self.open:
            self.open[-1].put(value)
        else:
            self.value = value

    def drop(self) -> None:
        """Drop the innermost bracket with its content."""
        self.open.pop()
        self.missing.pop()

    def close_all(self) -> None:
        while self.open:
            self.close()

    def closed_by(self, position: int) -> int:
        """How many brackets the closing one at `position` closes: others may be missing, or it may be wrong.

        What follows decides: it must fit into the bracket that is then open.
        """
        mark = self._text[position]
        follows = self._what_follows(position + 1)
        if mark == self.missing[-1]:
            early = len(self.open) == 1 and mark == "}" and follows == "quoted member"
            return 0 if early and not self._repeats_key(position + 1) else 1
        ways = [1, 0]
        if mark in self.missing:
            ways.insert(0, self.missing[::-1].index(mark) + 1)
        return next((way for way in ways if self._fits(follows, len(self.open) - way)), ways[0])

    def _repeats_key(self, position: int) -> bool:
        """Whether the object has the key after the comma already: then that begins another object."""
        comma, _ = next_mark(self._text, position)
        return key_at(self._text, next_mark(self._text, comma + 1)[0]) in self.open[-1].members

    def _what_follows(self, position: int) -> str:
        position, mark = next_mark(self._text, position)
        comma = mark != "" and mark in COMMA
        if comma:
            position, mark = next_mark(self._text, position + 1)
        if mark and mark in "}])":
            return mark
        if comma and QUOTED_KEY.match(self._text, position):
            return "quoted member"
        if comma and begins_member(self._text, position, self._names):
            return "member"
        return "element" if comma and begins_element(self._text, position) else "end"

    def _fits(self, follows: str, depth: int) -> bool:
        if depth == 0:
            elements = self.open[-1].items
            another = self.missing[0] == "}" and not (elements and isinstance(elements[-1], dict))
            return follows == "end" or (another and follows == "element")
        closer = self.missing[depth - 1]
        return follows == closer or ("member" in follows if closer == "}" else follows == "element")
