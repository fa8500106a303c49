"""Shows lines of untrusted text on a terminal, with carets under a position: of an answer, or of a rule."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import Reason

if TYPE_CHECKING:
    from trustgraph_prompt.contract.rule_in_source import BrokenRule
    from trustgraph_prompt.errors import Issue
    from trustgraph_prompt.json_text.positions import Span
    from trustgraph_prompt.outcome import Rejected

_ELLIPSIS = "…"


def visible(text: str) -> str:
    """Replace control characters by printable ones; the number of characters stays, tabs become spaces."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def underlined(text: str, start: int, end: int, width: int = 80) -> tuple[str, str]:
    """Return the line of `text` that holds `start`, and a line of carets to print below it, up to `end`.

    A long line is shortened to about `width` columns around the position.
    """
    from rich.cells import cell_len, get_character_cell_size

    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    if text.endswith("\r", line_start, line_end):
        line_end -= 1
    start = min(start, line_end)
    while line_start < start < line_end and not get_character_cell_size(visible(text[start])):
        start -= 1  # a combining character is marked under its base
    after = visible(text[start : min(line_end, start + width)])
    before = visible(text[max(line_start, start - width) : start])
    before = _first(before[::-1], max(width // 2, width - cell_len(after)))[::-1]
    after = _first(after, width - cell_len(before))
    marked = after[: max(end - start, 1)]
    left = _ELLIPSIS if len(before) < start - line_start else ""
    right = _ELLIPSIS if len(after) < line_end - start else ""
    return left + before + after + right, " " * cell_len(left + before) + "^" * max(cell_len(marked), 1)


def issue_span(rejected: Rejected, issue: Issue, depth: int | None = None) -> Span:
    """The part of a rejected object, in characters of its text, that an issue is about."""
    from trustgraph_prompt.json_text import positions

    if issue.reason is Reason.INVALID_JSON:
        at = positions.breaks(rejected.raw, depth or positions.DEEPEST) or 0
        return positions.Span(at, at + 1)
    return positions.member(rejected.raw, issue.path)


def rule_lines(rule: BrokenRule, indent: str = "  ", colour: str = "") -> Iterator[str]:
    """Show a rule that is broken: where it stands, its line, and carets under it."""
    shown, mark = underlined(rule.text, rule.start, rule.end)
    yield f"{indent}= breaks {visible(rule.where)}"
    yield f"{indent}| {shown}"
    yield f"{indent}| {output.paint(mark, colour) if colour else mark}"


def _first(text: str, width: int) -> str:
    """As many characters as fit into `width` columns."""
    from rich.cells import get_character_cell_size

    columns = list(accumulate(map(get_character_cell_size, text)))
    return text[: bisect_right(columns, width)]


def _visible(character: str) -> str:
    if character == "\t":
        return " "
    if character < " " or character == "\x7f":
        return chr(0x2400 + min(ord(character), 0x21))
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return "\N{REPLACEMENT CHARACTER}"
