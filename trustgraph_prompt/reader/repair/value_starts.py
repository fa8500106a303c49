"""Where values begin in the text of an answer: at a bracket, or where the first one was lost."""

from __future__ import annotations

import re
from typing import NamedTuple

from trustgraph_prompt.reader.repair.grammar import QUOTED_KEY, QUOTES

_ROOT_OR_FENCE = re.compile(r"[{[]|(?:`{3,}|~{3,})[ \t]*(\w*)")
_FENCED_JSON = re.compile(r"(?:json\w*|javascript|js|)\Z", re.IGNORECASE)
_SPACE = re.compile(r"\s*+")
_BEGINS_VALUE = re.compile(rf"\s*+(?:[{QUOTES}\[{{\d-]|true\b|false\b|null\b|None\b|True\b|False\b)")

# A text of nothing but scalars with commas between them, or of one that is no JSON; of a call with one.
_SCALAR = (
    r'(?:"(?:[^"\\]|\\(?s:.))*+"|\'(?:[^\'\\]|\\(?s:.))*+\'|-?\d[\d.]*+(?:[eE][+-]?\d++)?+|'
    r"true|false|null|True|False|None)"
)
_COMMENTS = r"\s*+(?:/\*[^*]*+\*/\s*+|//[^\n]*+\n\s*+)*+"
_SCALARS = re.compile(rf"(?:[\"'][^\"']*+|{_SCALAR}(?:\s*+[,+]\s*+{_SCALAR})*+\s*+,?\s*+\]?)[\s;`]*+\Z")
_GROUPED = re.compile(r"-?\d{1,3}(?:,\d{3})++\s*+\Z")
_CALL = re.compile(
    rf"{_COMMENTS}[^\W\d][\w$.]*+\s*+\((?={_COMMENTS}{_SCALAR}{_COMMENTS}\)?{_COMMENTS};?\s*+\Z)"
)


class ValueStart(NamedTuple):
    """Where a value begins, which bracket was lost there, if any, and whether in a fence for JSON."""

    start: int
    lost: str
    fenced: bool


class ValueStarts:
    """The roots of a text from `start` on."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._in_fence = False
        self._fenced = False

    def first(self) -> ValueStart | None:
        """The value that the whole text is, if that lacks its first bracket."""
        text, start = self._text, self._start
        if call := _CALL.match(text, start):
            return ValueStart(call.end(), "(", fenced=False)
        begin = _skip_space(text, start)
        if _lacks_brace(text, begin):
            return ValueStart(begin, "{", fenced=False)
        if _SCALARS.match(text, begin) and not _GROUPED.match(text, begin):
            return ValueStart(begin, "(", fenced=False)
        end = len(text.rstrip(" \t\r\n;`"))
        is_list = text.endswith("]", begin, end) and text.startswith(("{", "["), begin)
        if is_list and text.count("]", begin, end) == text.count("[", begin, end) + 1:
            return ValueStart(begin, "[", fenced=False)
        return None

    def next(self, position: int) -> ValueStart | None:
        """The next one; what stands before `position` was read."""
        text = self._text
        while found := _ROOT_OR_FENCE.search(text, position):
            if found[0] in "{[":
                return ValueStart(found.start(), "", self._fenced)
            position = found.end()
            self._in_fence = not self._in_fence
            self._fenced = self._in_fence and _FENCED_JSON.match(found[1]) is not None
            begin = _skip_space(text, position)
            if self._fenced and _lacks_brace(text, begin):
                return ValueStart(begin, "{", fenced=True)
        return None


def _lacks_brace(text: str, position: int) -> bool:
    """Whether a key in quotes stands at `position`, and a value behind it."""
    key = QUOTED_KEY.match(text, position)
    return key is not None and _BEGINS_VALUE.match(text, key.end()) is not None


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()
