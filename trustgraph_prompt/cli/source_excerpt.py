"""A line of somebody else's text for a terminal, with a mark under one place of it.

What a terminal would obey is not passed on, and the mark stands where the eye sees the place: tabs are one
column wide, wide characters two, combining ones none.
"""

from __future__ import annotations

import unicodedata

_ELLIPSIS = "…"


def visible(text: str) -> str:
    """The same number of characters, all harmless: controls as their pictures, tabs as spaces."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def underlined(text: str, start: int, end: int, width: int = 80) -> tuple[str, str]:
    """The line of `text` that holds `start`, and the line to print below it, which marks up to `end`.

    Only what is around the place is shown, in about `width` columns.
    """
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    if text.endswith("\r", line_start, line_end):
        line_end -= 1
    start = min(start, line_end)
    while line_start < start < line_end and not _width(text[start]):
        start -= 1
    after = visible(text[start : min(line_end, start + width)])
    before = visible(text[max(line_start, start - width) : start])
    before = _last(before, max(width // 2, width - columns(after)))
    after = _first(after, width - columns(before))
    marked = after[: max(end - start, 1)]
    left = _ELLIPSIS if len(before) < start - line_start else ""
    right = _ELLIPSIS if len(after) < line_end - start else ""
    return left + before + after + right, " " * columns(left + before) + "^" * max(columns(marked), 1)


def columns(text: str) -> int:
    """How many columns of a terminal a visible text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _first(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:index]
    return text


def _last(text: str, width: int) -> str:
    return _first(text[::-1], width)[::-1]


def _visible(character: str) -> str:
    if character == "\t":
        return " "
    if character < " " or character == "\x7f":
        return chr(0x2400 + min(ord(character), 0x21))
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return "\N{REPLACEMENT CHARACTER}"


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0  # the latter complete a Hangul syllable
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
