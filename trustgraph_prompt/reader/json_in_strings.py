"""JSON in a string where a list or an object was asked for: models write that often."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.json_text import locate
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.reader.decode import decode, is_too_deep

if TYPE_CHECKING:
    from trustgraph_prompt.reader.repair import Edit

WHAT = "JSON in a string"

_MOST_EDITS = 20  # each is looked for in the text of the value


class ParsedStrings(NamedTuple):
    """A value with what its strings said, and where they are: JSON Pointers."""

    value: Any
    paths: tuple[str, ...]

    def edits(self, raw: str, start: int) -> tuple[Edit, ...]:
        """What was done, and where in the answer, in which the text `raw` of the value begins at `start`."""
        from trustgraph_prompt.reader.repair import (
            Edit,  # its grammar takes longer to compile than all others
        )

        return tuple(Edit(start + locate.member(raw, path).start, WHAT) for path in self.paths)


def opened(value: Any, text: str, contract: Contract) -> ParsedStrings | None:
    """What is in the strings of a value, which `text` says, where the contract wants it and allows it."""
    made = contract.opened(value, decode)
    if made is value or is_too_deep(made, text, contract.limits.depth):
        return None
    return ParsedStrings(made, tuple(islice(_paths(value, made), _MOST_EDITS)))


def _paths(value: Any, made: Any) -> Iterator[str]:
    todo: list[tuple[tuple[str | int, ...], Any, Any]] = [((), value, made)]
    while todo:
        path, one, other = todo.pop()
        if one is other:
            continue
        if isinstance(one, str):
            yield pointer(path)
            continue
        steps = one if isinstance(one, dict) else range(len(one))
        todo += reversed([((*path, step), one[step], other[step]) for step in steps])
