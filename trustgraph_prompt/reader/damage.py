"""How far a broken value reaches.

Nothing of it is read, and nothing behind it is lost. Brackets are counted without grammar, strings end with
their line, and where a line begins with a value that has no place in the broken one, the broken one is over.
"""

from __future__ import annotations

import re

from trustgraph_prompt.reader import grammar
from trustgraph_prompt.reader.decode import NotJson, decode
from trustgraph_prompt.reader.value import Raw

_STRING = r'(?:[^"\\\n]|\\[^\n])*+("?)'
_TOKEN = re.compile(rf'"{_STRING}|[{{[]++|[}}\]]++|</?{grammar.THINKING}', re.IGNORECASE)
_REST_OF_STRING = re.compile(_STRING)
_TAG_BEGUN = re.compile(r"(?:</?[a-z]*)?\Z", re.IGNORECASE)
_NEXT_LINE = re.compile(r"\n(?:[^\S\n]*\n)*+([^\S\n]*+)(?=\S)")
_MARKED = re.compile(r"(?:[-*+•]|\d{1,6}[.):])[ \t]*+[{[]")
_MARK_BEGUN = re.compile(r"(?:[-*+•]|\d{1,6}[.):]?)[ \t]*+\Z")


def next_value(broken: str, column: int) -> int | None:
    """Where the next object begins that a broken value took for a part of itself, None where there is none.

    It is the last line of what was read, and no further to the right than the broken value, which begins at
    `column`: only the first one's missing end made a part of it.
    """
    broken = broken.rstrip()
    start = broken.rfind("\n") + 1
    line = broken[start:]
    if not start or _indent(line) > column:
        return None
    try:
        return start if isinstance(decode(line), dict) else None
    except NotJson:
        return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class Damage:
    """Measures a broken value: its open brackets, and the column in which it began."""

    def __init__(
        self, stack: list[str], raw: Raw, column: int, *, awaits_value: bool, in_string: bool = False
    ) -> None:
        self.raw = raw
        self._stack = stack
        self._column = column
        self._awaits_value = awaits_value
        self._in_string = in_string

    def advance(self, window: str, position: int, final: bool) -> tuple[bool, int]:
        """Go on from `position`: whether the value is over, and where; or how far the window was used."""
        while True:
            newline = window.find("\n", position)
            if newline < 0:
                over, position = self._follow_line(window, position, len(window), complete=final)
                return over or final, position
            over, position = self._follow_line(window, position, newline, complete=True)
            if over:
                return True, position
            following = _NEXT_LINE.match(window, newline)
            if following is None or (not final and _MARK_BEGUN.match(window, following.end())):
                return final, newline
            if self._begins_anew(window, following.end(), len(following[1])):
                return True, newline
            position = following.end()

    def _follow_line(self, window: str, start: int, end: int, *, complete: bool) -> tuple[bool, int]:
        """Whether the value ends in this line, and where; else how far the line was used."""
        if not complete:
            begun = _TAG_BEGUN.search(window, max(start, end - grammar.LONGEST_TAG), end)
            end = begun.start() if begun else end
        position, used = start, end
        if self._in_string:
            rest = _REST_OF_STRING.match(window, start, end)
            assert rest is not None
            position = rest.end()
            self._in_string = not complete and not rest[1]
        for token in () if self._in_string else _TOKEN.finditer(window, position, end):
            mark = token[0]
            if mark[0] == "<":
                return True, token.start()
            if mark[0] in "{[":
                self._stack.extend(mark)
            elif mark[0] == '"':
                self._in_string = not complete and not token[1]
                position = token.end()
            elif len(mark) >= len(self._stack):
                return True, token.start() + len(self._stack)
            else:
                del self._stack[-len(mark) :]
        if self._in_string:
            used = position
        last = window[start:used].rstrip()[-1:]
        if last:
            self._awaits_value = last in (":" if self._stack[-1] == "{" else "[,")
        return False, used

    def _begins_anew(self, window: str, start: int, column: int) -> bool:
        if window[start] in "`~<" or _MARKED.match(window, start):
            return True
        return window[start] in "{[" and column <= self._column and not self._awaits_value
