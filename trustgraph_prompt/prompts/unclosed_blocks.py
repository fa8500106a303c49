"""What a template in Jinja left open, and where: Jinja itself says where it noticed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
_OPENING = re.compile(r"\{[{%#]")
# Of at most 200 characters: each quote that begins no string is looked at no further, whatever follows it.
_STRING = r""""(?:[^"\\\n]|\\.){0,200}+"|'(?:[^'\\\n]|\\.){0,200}+'"""
_WITHIN = {
    opening: re.compile(rf"(?:{_STRING})|(?P<open>\{{[{{%#]|\Z)|(?P<close>{re.escape(closing)})")
    for opening, closing in _CLOSING.items()
}
_WITHIN["{#"] = re.compile(r"(?P<open>\Z)|(?P<close>#\})")
_END_OF_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_BLOCKS = ("if", "for")


class UnclosedBlock(NamedTuple):
    """In which line it began, and what to say of it."""

    line: int
    message: str


class _Tag(NamedTuple):
    opening: str
    text: str
    line: int
    end_line: int
    closed: bool


def left_open(source: str, noticed: int, said: str) -> UnclosedBlock | None:
    """What explains that Jinja `said` this of the line in which it `noticed` something; None for nothing."""
    blocks: list[tuple[str, int]] = []
    for tag in _tags(source):
        if not tag.closed:
            return UnclosedBlock(tag.line, f"`{tag.opening}` is not closed by `{_CLOSING[tag.opening]}`")
        if tag.line < noticed <= tag.end_line:
            further = noticed - tag.line
            lines = f"{further} line{'s' if further > 1 else ''}"
            return UnclosedBlock(tag.line, f"is this `{tag.opening}` closed? {lines} further: {said}")
        word = tag.text.strip("-+ \t\n").partition(" ")[0] if tag.opening == "{%" else ""
        if word in _BLOCKS:
            blocks.append((word, tag.line))
        elif word.removeprefix("end") in _BLOCKS and blocks and word == f"end{blocks[-1][0]}":
            blocks.pop()
        elif word.removeprefix("end") in _BLOCKS:
            break
    if blocks and f"needs to be closed is '{blocks[-1][0]}'" in said:
        word, line = blocks[-1]
        return UnclosedBlock(line, f"`{{% {word} %}}` is not closed by `{{% end{word} %}}`")
    return None


def _tags(source: str) -> Iterator[_Tag]:
    """The tags in their order; one that is not closed is the last."""
    position, line = 0, 1
    while begin := _OPENING.search(source, position):
        opening, inner = begin[0], begin.end()
        end = next(each for each in _WITHIN[opening].finditer(source, inner) if each.lastgroup)
        line += source.count("\n", position, begin.start())
        end_line = line + source.count("\n", begin.start(), end.start())
        closed = end.lastgroup == "close"
        text = source[inner : end.start()]
        yield _Tag(opening, text, line, end_line, closed)
        if not closed:
            return
        position, line = end.end(), end_line
        if (
            opening == "{%"
            and text.strip("-+ \t\n") == "raw"
            and (over := _END_OF_RAW.search(source, position))
        ):
            line += source.count("\n", position, over.end())
            position = over.end()
