"""Comments and empty lines of a text, put among the lines of a new layout of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trustgraph_prompt.language.quoted import QUOTED

_TOKEN = re.compile(rf"{QUOTED}|(?P<comment>#[^\n]*)")


class Line(NamedTuple):
    """A line of the new layout, with the rest of a text or a value that begins in it.

    `source` is the line where that was, None where nobody knows; `begins` a schema, prompt or system message.
    """

    text: str
    source: int | None = None
    begins: bool = False

    @property
    def margin(self) -> str:
        """What the line is indented with."""
        return self.text[: len(self.text) - len(self.text.lstrip(" "))]


class _Comment(NamedTuple):
    text: str
    line: int
    is_alone: bool
    is_indented: bool


def laid_out(lines: Sequence[Line], source: str) -> str:
    """The text of the lines, with the comments and the empty lines of the text that they were made of.

    A comment at the end of a line stays there. One on a line of its own stays before what follows, or at the
    end of a block that it is indented like. There is one empty line between statements, and within them one
    for any number.
    """
    known = [index for index, line in enumerate(lines) if line.source is not None]
    sources = [lines[index].source or 0 for index in known]
    beside: dict[int, str] = {}
    before: dict[int, list[_Comment]] = {}
    for comment in _comments(source):
        place = bisect_right(sources, comment.line) - 1
        if not comment.is_alone and place >= 0 and known[place] not in beside:
            beside[known[place]] = f"  {comment.text}"
        else:
            following = known[place + 1] if place + 1 < len(known) else len(lines)
            before.setdefault(following, []).append(comment)
    return _Page(source).text(lines, beside, before)


class _Page:
    """The new text, as it comes about."""

    def __init__(self, source: str) -> None:
        self._empty = {number for number, line in enumerate(source.split("\n"), 1) if not line.strip()}
        self._made: list[str] = []

    def text(self, lines: Sequence[Line], beside: dict[int, str], before: dict[int, list[_Comment]]) -> str:
        margin, above = "", ""
        for index, line in enumerate(lines):
            comments = before.get(index, [])
            while comments and line.begins and above and comments[0].is_indented:
                self._put(above + comments[0].text, comments[0].line)
                comments = comments[1:]
            is_first = len(line.margin) > len(margin)
            begins = line.begins
            for comment in comments:
                self._put(line.margin + comment.text, comment.line, begins=begins, joins=is_first)
                begins = is_first = False
            self._put(line.text + beside.get(index, ""), line.source, begins=begins, joins=is_first)
            margin = line.margin
            above = margin or ("" if line.begins else above)
        for comment in before.get(len(lines), []):
            is_inner = comment.is_indented and above
            self._put((above if is_inner else "") + comment.text, comment.line, begins=False)
        return "".join(f"{line}\n" for line in self._made)

    def _put(self, text: str, source: int | None, *, begins: bool = False, joins: bool = False) -> None:
        """One more line; `joins` the header that it follows."""
        was_apart = source is not None and source - 1 in self._empty
        if self._made and (begins or (was_apart and not joins)):
            self._made.append("")
        self._made.append(text)


def _comments(source: str) -> Iterator[_Comment]:
    line, counted = 1, 0
    for token in _TOKEN.finditer(source):
        if token["comment"]:
            line += source.count("\n", counted, token.start())
            counted = token.start()
            before = source[source.rfind("\n", 0, counted) + 1 : counted]
            yield _Comment(token["comment"].rstrip(), line, not before.strip(), before != "")
