"""How far a broken value reaches.

Nothing of it is read, and nothing behind it is lost. Brackets are counted without grammar, strings end with
their line, and where a line begins a new value in a place that has no room for one, the broken value is over.
"""

from __future__ import annotations

import re

from trustgraph_prompt.reader.value import Raw

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"?|[{[]++|[}\]]++|</?(?:think|reasoning)', re.IGNORECASE)
_REST_OF_STRING = re.compile(r'(?:[^"\\\n]|\\[^\n])*+"?')
_NEXT_LINE = re.compile(r"\n(?:[^\S\n]*\n)*+([^\S\n]*+)(?=\S)")
_MARKED = re.compile(r"(?:[-*+•]|\d{1,6}[.):])[ \t]*+[{[]")
_MARK_BEGUN = re.compile(r"(?:[-*+•]|\d{1,6}[.):]?)[ \t]*+\Z")


class Damage:
    """Measures a broken value: its open brackets, and the column in which it began.

    A line is looked at when it is complete; until then nothing but `trigger` gets further.
    """

    def __init__(
        self, stack: list[str], raw: Raw, column: int, *, awaits_value: bool, in_string: bool = False
    ) -> None:
        self.raw = raw
        self.trigger = "\n"
        self._stack = stack
        self._column = column
        self._awaits_value = awaits_value
        self._in_string = in_string

    def advance(self, window: str, position: int, final: bool) -> tuple[bool, int]:
        """Go on from `position`: whether the value is over, and where; or how far the window was used."""
        while True:
            newline = window.find("\n", position)
            if newline < 0:
                if not final:
                    self.trigger = "\n"
                    return False, position
                newline = len(window)
            end = self._end_in_line(window, position, newline)
            if end is not None:
                return True, end
            following = _NEXT_LINE.match(window, newline)
            if following is None or (not final and _MARK_BEGUN.match(window, following.end())):
                self.trigger = ""  # any character may be the first of the next line
                return final, newline
            if self._begins_anew(window, following.end(), len(following[1])):
                return True, newline
            position = following.end()

    def _end_in_line(self, window: str, start: int, end: int) -> int | None:
        if self._in_string:
            match = _REST_OF_STRING.match(window, start, end)
            start = match.end() if match else start
            self._in_string = False
        for token in _TOKEN.finditer(window, start, end):
            mark = token[0]
            if mark[0] == "<":
                return token.start()
            if mark[0] in "{[":
                self._stack.extend(mark)
            elif mark[0] in "}]":
                if len(mark) >= len(self._stack):
                    return token.start() + len(self._stack)
                del self._stack[-len(mark) :]
        last = window[start:end].rstrip()[-1:]
        if last:
            self._awaits_value = last in (":" if self._stack[-1] == "{" else "[,")
        return None

    def _begins_anew(self, window: str, start: int, column: int) -> bool:
        if window[start] in "`~<" or _MARKED.match(window, start):
            return True
        return window[start] in "{[" and column <= self._column and not self._awaits_value
