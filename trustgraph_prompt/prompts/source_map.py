"""Maps parts of a prompt file to their places in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trustgraph_prompt.contract.rule_in_source import BrokenRule, unindented

if TYPE_CHECKING:
    from trustgraph_prompt.language.nodes import Position

_TRIPLE = ('"""', "'''")


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Places in a text, by JSON Pointer; `start` is that of the whole, `file` the name of its file, if any.

    `source` is the text itself, which `of_line` and `rule` need; `rules` has the places of the keywords of
    its schema, as in `Issue`.
    """

    file: str | None = None
    start: Position | None = None
    parts: Mapping[str, Position] = field(default_factory=dict)
    source: str = field(default="", repr=False)
    rules: Mapping[str, Position] = field(default_factory=dict, repr=False)

    def of(self, path: str = "") -> str | None:
        """The place of the part, or of the smallest part around it."""
        while path and path not in self.parts:
            path = path.rpartition("/")[0]
        return self.at(self.parts.get(path, self.start))

    def of_line(self, path: str, text: str, line: int, column: int | None) -> str | None:
        """`file:line:column` of a place in the text at `path`, which stands between quotes.

        Without a column, that of the line's first character that is not blank. None where the place cannot be
        known: in a text with one quote on each side, escapes move what follows.
        """
        start = self.parts.get(path, self.start)
        rows = [row.removesuffix("\r") for row in self.source.split("\n")]
        if start is None or start.line > len(rows):
            return None
        opening = rows[start.line - 1][start.column - 1 :]
        is_block = opening.startswith(_TRIPLE)
        if not is_block and "\\" in opening:
            return None
        lines = text.split("\n")
        row = start.line + line - (opening not in _TRIPLE)
        if line > len(lines) or row > len(rows):
            return None
        written = lines[line - 1]
        begin = rows[row - 1].find(written, start.column if row == start.line else 0)
        if begin < 0:
            return None
        return self.at((row, begin + (column or len(written) - len(written.lstrip()) + 1)))

    def rule(self, keyword: str) -> BrokenRule | None:
        """The line of a rule of the contract; None if it is not known, as in a YAML file."""
        while keyword and keyword not in self.rules:
            keyword = keyword.rpartition("/")[0]
        if not keyword or (where := self.at(place := self.rules[keyword])) is None:
            return None
        line = self.source.split("\n")[place.line - 1].rstrip()
        return unindented(where, line, place.column - 1, len(line))

    def at(self, position: tuple[int, int] | None) -> str | None:
        """`file:line:column`, or `line …, column …` without a file."""
        if position is None:
            return self.file
        line, column = position
        return f"{self.file}:{line}:{column}" if self.file else f"line {line}, column {column}"
