"""Parses JSON in a string where the contract expects a list or an object: models often write that."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.outcome import Edit
from trustgraph_prompt.reader.decode import decode, is_too_deep

_EDIT = "JSON in a string"

_MOST_EDITS = 20  # each is located in the text of the value, which takes time


class ParsedStrings(NamedTuple):
    """A value with the JSON of its strings parsed, and the JSON Pointers to these strings."""

    value: Any
    paths: tuple[str, ...]

    def edits(self, raw: str, start: int) -> tuple[Edit, ...]:
        """The edits in the answer, where the text `raw` of the value begins at `start`."""
        return tuple(Edit(start + positions.member(raw, path).start, _EDIT) for path in self.paths)


def parse_strings(value: Any, text: str, contract: Contract) -> ParsedStrings | None:
    """Parse the strings of a value of `text` where the contract expects and allows that; None if nowhere."""
    made = contract.opened(value, decode)
    if made is value or is_too_deep(made, text, contract.limits.depth):
        return None
    return ParsedStrings(made, tuple(islice(_changed_paths(value, made), _MOST_EDITS)))


def _changed_paths(value: Any, made: Any) -> Iterator[str]:
    todo: list[tuple[tuple[str | int, ...], Any, Any]] = [((), value, made)]
    while todo:
        path, before, after = todo.pop()
        if before is after:
            continue
        if isinstance(before, str):
            yield pointer(path)
            continue
        steps = before if isinstance(before, dict) else range(len(before))
        todo += reversed([((*path, step), before[step], after[step]) for step in steps])
