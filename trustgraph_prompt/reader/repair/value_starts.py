"""Finds where values begin in the text of an answer: at a bracket, or where the first bracket is missing."""

from __future__ import annotations

import re
from typing import NamedTuple

from trustgraph_prompt.json_text.grammar import end_of
from trustgraph_prompt.reader.repair.grammar import QUOTED_KEY, QUOTES, SPACE
from trustgraph_prompt.reader.repair.notation import notation_at

_ROOT_OR_FENCE = re.compile(r"[{[]|(?:`{3,}|~{3,})[ \t]*(\w*)")
_FENCED_JSON = re.compile(r"(?:json\w*|javascript|js|)\Z", re.IGNORECASE)
_WHITE_SPACE = re.compile(r"\s*+")
_BEGINS_VALUE = re.compile(rf"\s*+(?:[{QUOTES}\[{{\d-]|true\b|false\b|null\b|None\b|True\b|False\b)")

# A text that consists of scalars with commas between them, or of one that is not JSON; a call with a scalar.
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

# Brackets of the prose: references, intervals, links, format strings. `[words]` are an array only if they are
# alone on their line.
_REFERENCE = re.compile(
    r"\[\s*+\d{1,3}\s*+\](?:\(|[,;:.]?[ \t]++[^\W\d])|\[[^][(){}\"'\n]*+\)|\[[^][{}\"'\n]*+\]\("
)
_MORE_THAN_WORDS = re.compile(
    rf"\[(?:{SPACE}[\[,，]){{0,40}}+{SPACE}(?:[{QUOTES}\[{{(\d.\-+\]]|//|/\*|#\s|\Z|[tfn]\w*+{SPACE}(?:[,\]]|\Z)|(?:True|False|None)\b)"
)
_WORDS_ALONE = re.compile(r"\[[^][{}]*(?:,\s*+[{\[]|\][ \t]*+[,;.]?[ \t]*+(?:\r?\n|\Z|`)|\Z)")
_ALONE_BEFORE = re.compile(r"(?:\A|[\n:=(`])[ \t]*\Z")
_FORMAT = re.compile(r"\{\w*:(?:[<>^#,][^\s{}]{0,8}|(?=[^}]?[\d.])[ +]?\d*+(?:\.\d*+)?[bcdeEfFgGnosxX%])\}")


def may_begin_value(text: str, start: int) -> bool:
    """Whether the bracket at `start` may begin a value, rather than be one of the prose."""
    if text[start : start + 1] == "{":
        return not _FORMAT.match(text, start)
    if text[start : start + 1] != "[" or _REFERENCE.match(text, start):
        return False
    if notation_at(text, start) or _MORE_THAN_WORDS.match(text, start):
        return True
    before = text[max(0, start - 40) : start]
    return _ALONE_BEFORE.search(before) is not None and _WORDS_ALONE.match(text, start) is not None


class ValueStart(NamedTuple):
    """Where a value begins, which bracket is missing there, if any, and whether in a fence for JSON."""

    start: int
    missing: str
    fenced: bool


class ValueStarts:
    """Finds the values of a text from `start` on."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._in_fence = False
        self._fenced = False

    def first(self) -> ValueStart | None:
        """The start of the value that is the whole text, if that lacks its first bracket."""
        text, start = self._text, self._start
        if call := _CALL.match(text, start):
            return ValueStart(call.end(), "(", fenced=False)
        begin = end_of(_WHITE_SPACE, text, start)
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
        """The start of the next value from `position` on."""
        text = self._text
        while found := _ROOT_OR_FENCE.search(text, position):
            if found[0] in "{[":
                return ValueStart(found.start(), "", self._fenced)
            position = found.end()
            self._in_fence = not self._in_fence
            self._fenced = self._in_fence and _FENCED_JSON.match(found[1]) is not None
            begin = end_of(_WHITE_SPACE, text, position)
            if self._fenced and _lacks_brace(text, begin):
                return ValueStart(begin, "{", fenced=True)
        return None


def _lacks_brace(text: str, position: int) -> bool:
    """Whether a key in quotes is at `position`, followed by a value."""
    key = QUOTED_KEY.match(text, position)
    return key is not None and _BEGINS_VALUE.match(text, key.end()) is not None
