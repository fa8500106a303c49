"""Reads strings as they are meant: JSON where a list or an object is expected, and commands of LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from operator import is_
from typing import Any, NamedTuple

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.json_text import grammar, positions
from trustgraph_prompt.json_text.latex import control_words, may_be_eaten, restored
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import strings
from trustgraph_prompt.outcome import Edit
from trustgraph_prompt.reader.decode import decode, is_too_deep

_JSON = "JSON in a string"
_COMMAND = "a command without its backslash"

_STRINGS = re.compile(f'"{grammar.CHARACTERS}("?)')  # one without its end is passed over
_MOST_EDITS = 20  # each is located in the text of the value, which takes time


class RestoredCommands(NamedTuple):
    """A value with the commands in its strings restored, and where that was."""

    value: Any
    edits: tuple[Edit, ...]


class ParsedStrings(NamedTuple):
    """A value with the JSON of its strings parsed, and the JSON Pointers to these strings."""

    value: Any
    paths: tuple[str, ...]

    def edits(self, raw: str, start: int) -> tuple[Edit, ...]:
        """The edits in the answer, where the text `raw` of the value begins at `start`."""
        return tuple(Edit(start + positions.member(raw, path).start, _JSON) for path in self.paths)


class LatexCommands:
    """Restores the commands in the values of an answer, except for what the terms of the question have, too.

    Few answers have commands, so the terms are searched when the first one comes.
    """

    def __init__(self, terms: Mapping[str, object] | None) -> None:
        self._terms = terms

    def restored(self, value: Any, raw: str, start: int) -> RestoredCommands | None:
        """The value with its commands restored; None if there are none. Its text `raw` begins at `start`."""
        if not may_be_eaten(raw):
            return None
        changed: set[str] = set()

        def restore(text: str) -> str:
            made = text if text.isprintable() else restored(text, self._written)
            if made != text:
                changed.add(text)
            return made

        made = _with_strings(value, restore)
        if made is value:
            return None
        places = (
            string.start()
            for string in _STRINGS.finditer(raw)
            if string[1] and may_be_eaten(string[0]) and decode(string[0]) in changed
        )
        edits = tuple(Edit(start + place, _COMMAND) for place in islice(places, _MOST_EDITS))
        # no place is found where quotes are broken
        return RestoredCommands(made, edits or (Edit(start, _COMMAND),))

    @cached_property
    def _written(self) -> frozenset[str]:
        """The words of the terms with a control character before them, as `latex` has it."""
        return frozenset().union(*map(control_words, strings(self._terms)))


def parse_strings(value: Any, text: str, contract: Contract) -> ParsedStrings | None:
    """Parse the strings of a value of `text` where the contract expects and allows that; None if nowhere."""
    made = contract.opened(value, decode)
    if made is value or is_too_deep(made, text, contract.limits.depth):
        return None
    return ParsedStrings(made, tuple(islice(_changed_paths(value, made), _MOST_EDITS)))


def _with_strings(value: Any, change: Callable[[str], str]) -> Any:
    """The value with its strings changed; the same object if none of them is."""
    if isinstance(value, str):
        text = change(value)
        return value if text == value else text
    if isinstance(value, dict):
        members = {key: _with_strings(part, change) for key, part in value.items()}
        return value if all(map(is_, members.values(), value.values())) else members
    if isinstance(value, list):
        elements = [_with_strings(part, change) for part in value]
        return value if all(map(is_, elements, value)) else elements
    return value


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
