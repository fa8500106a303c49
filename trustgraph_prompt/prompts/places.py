"""Where the parts of what an author wrote stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trustgraph_prompt.language.nodes import Position


@dataclass(frozen=True, slots=True)
class Places:
    """Places in a text, by JSON Pointer; `start` is that of the whole, `file` names its file, if any."""

    file: str | None = None
    start: Position | None = None
    parts: Mapping[str, Position] = field(default_factory=dict)

    def of(self, path: str = "") -> str | None:
        """`file:line:column` of the part, or of the smallest one around it; without a file the rest."""
        while path and path not in self.parts:
            path = path.rpartition("/")[0]
        at = self.parts.get(path, self.start)
        if at is None:
            return self.file
        return f"{self.file}:{at.line}:{at.column}" if self.file else f"line {at.line}, column {at.column}"
