"""Determines where a broken value ends, so that it does not hide the values after it.

Brackets are counted, whatever is between them; a string ends with its line at the latest. The broken value
ends also before a line that begins with a value that cannot belong to it.
"""

from __future__ import annotations

import re
from functools import cache

from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.reader.decode import NotJson, decode
from trustgraph_prompt.reader.markers import Markers
from trustgraph_prompt.reader.open_value import TextWindow

_MARKED = r"(?:[-*+•]|\d{1,6}[.):])[ \t]*+[{[]"
_MARK_BEGUN = r"(?:[-*+•]|\d{1,6}[.):]?)[ \t]*+\Z"
_LINE_OF_INTEREST = rf"[{{[`~<]|{_MARKED}|{_MARK_BEGUN}|\Z"
_STRINGS = re.compile(rf'"{grammar.CHARACTERS_IN_LINE}"?')
_PAIRS = re.compile(r"[{[][^][{}]*+[}\]]")
_ALL_ELSE = re.compile(r"[^{[]++")
_CHARACTERS_OF_STRING = re.compile(grammar.CHARACTERS_IN_LINE)
_MARK_AND_VALUE = re.compile(_MARKED)


@cache
def _token(markers: Markers) -> re.Pattern[str]:
    """What is next in a broken value, after anything that says nothing about its end."""
    mark, first, bracket = rf"(?:{markers.mark})", markers.first, markers.bracket
    pair = rf'{bracket}(?:[^"{{}}[\]\n{first}]++|"{grammar.CHARACTERS_IN_LINE}")*+[}}\]]'
    nothing = (
        rf'(?:[^"{{}}[\]\n{first}]++|"{grammar.CHARACTERS_IN_LINE}"|{pair}'
        rf"|\n\s*+(?!{_LINE_OF_INTEREST})|(?<=[:[])\n\s*+(?=[{{[])"
        rf"|(?=[{first}])(?!{mark}|(?:{markers.begun})\Z).)*+"
    )
    opens = rf"(?:[{{[](?=[{{[])|(?:{pair}|{bracket}){nothing})++"
    return re.compile(
        rf'{nothing}(?:(?P<opens>{opens})|(?P<closes>[}}\]]++)|(?P<string>")|(?P<line>\n\s*+)'
        rf"|(?P<mark>{mark})|(?P<end>[{first}]|\Z))",
        re.IGNORECASE,
    )


def next_value(broken: str, column: int) -> int | None:
    """Where the next object begins that was taken for a part of a broken value; None if there is none.

    It is the last line of `broken`, and not indented further than the broken value, which begins at `column`:
    only the missing end of that made it look like a part.
    """
    broken = broken.rstrip()
    start = broken.rfind("\n") + 1
    line = broken[start:]
    if not start or len(line) - len(line.lstrip()) > column:
        return None
    try:
        return start if isinstance(decode(line), dict) else None
    except NotJson:
        return None


class BrokenValue:
    """Follows a broken value, from chunk to chunk: its open brackets, and the column in which it began."""

    def __init__(
        self,
        stack: list[str],
        raw: TextWindow,
        column: int,
        *,
        awaits_value: bool,
        in_string: bool = False,
    ) -> None:
        self.raw = raw
        self.is_closed = False
        self._stack = stack
        self._column = column
        self._in_string = in_string
        self._last = '"'  # the last visible character; at first any that no value follows
        if awaits_value:
            self._last = ":" if stack[-1] == "{" else ","

    def advance(self, window: str, position: int, markers: Markers, *, final: bool) -> tuple[bool, int]:
        """Go on from `position`. Returns whether the value has ended, and where it or the window was left."""
        pattern = _token(markers)
        if self._in_string:
            position = self._leave_string(window, position)
        while not self._in_string:
            token = pattern.match(window, position)
            assert token is not None
            assert token.lastgroup is not None
            kind = token.lastgroup
            start, end = token.span(kind)
            self._last = window[position:start].rstrip()[-1:] or self._last
            position = end
            if kind == "opens":
                brackets = _PAIRS.sub("", _STRINGS.sub("", token[kind])).replace("\n", "")
                self._stack.extend(_ALL_ELSE.sub("", brackets))
                self._last = token[kind].rstrip()[-1]
            elif kind == "closes":
                self.is_closed = end - start >= len(self._stack)
                if self.is_closed:
                    return True, start + len(self._stack)
                del self._stack[start - end :]
                self._last = "]"
            elif kind == "string":
                self._last = '"'
                position = self._leave_string(window, end)
            elif kind == "line":
                ends = self._ends_before_line(window, end, end - window.rfind("\n", start, end) - 1)
                if ends or ends is None:
                    return ends or final, start
            else:
                return kind == "mark" or final, start
        return final, len(window) if final else position

    def _leave_string(self, window: str, position: int) -> int:
        """Where the string ends, or the window does within it."""
        match = _CHARACTERS_OF_STRING.match(window, position)
        assert match is not None
        end = match.end()
        self._in_string = end >= len(window.removesuffix("\\"))
        return end if self._in_string else end + (window[end] != "\n")

    def _ends_before_line(self, window: str, start: int, column: int) -> bool | None:
        """Whether the line at `start`, in that column, is no part of the value; None to wait for more."""
        begins = window[start : start + 1]
        if not begins:
            return None
        if begins in "{[":
            awaits_value = self._last in (":" if self._stack[-1] == "{" else "[,")
            return column <= self._column and not awaits_value
        if begins in "`~<" or _MARK_AND_VALUE.match(window, start):
            return True
        return None
