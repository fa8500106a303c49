"""Where the parts of what an author wrote stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trustgraph_prompt.language.nodes import Position

_TRIPLE = ('"""', "'''")


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Places in a text, by JSON Pointer; `start` is that of the whole, `file` names its file, if any.

    `source` is the text itself, where lines of texts within it are asked for.
    """

    file: str | None = None
    start: Position | None = None
    parts: Mapping[str, Position] = field(default_factory=dict)
    source: str = field(default="", repr=False)

    def of(self, path: str = "") -> str | None:
        """`file:line:column` of the part, or of the smallest one around it; without a file the rest."""
        while path and path not in self.parts:
            path = path.rpartition("/")[0]
        return self.at(self.parts.get(path, self.start))

    def of_line(self, path: str, line: int) -> str | None:
        """The same of a line of the text in three quotes that stands at a path; None where there is none."""
        start = self.parts.get(path, self.start)
        rows = [row.removesuffix("\r") for row in self.source.split("\n")]
        if start is None or start.line > len(rows):
            return None
        opening = rows[start.line - 1][start.column - 1 :]
        row = start.line + line - (opening not in _TRIPLE)
        if not opening.startswith(_TRIPLE) or row > len(rows):
            return None
        return self.at((row, len(rows[row - 1]) - len(rows[row - 1].lstrip()) + 1))

    def at(self, position: tuple[int, int] | None) -> str | None:
        """`file:line:column`; without a file the rest."""
        if position is None:
            return self.file
        line, column = position
        return f"{self.file}:{line}:{column}" if self.file else f"line {line}, column {column}"
