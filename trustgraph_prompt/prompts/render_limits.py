"""Limits the output and the work of one rendering, and checks its terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from trustgraph_prompt.errors import RenderError, RenderTooLong
from trustgraph_prompt.json_text.pointer import pointer

MAX_OUTPUT = 4_000_000
"""Characters of a rendered prompt; about a million tokens."""

MAX_WORK = 10_000_000
"""Steps of a rendering, each a few nanoseconds, such as a character or item that a filter reads."""

PART = 10
"""Steps of each node of a loop's body, in each round."""

VALUE = 3
"""Steps of checking one value of the terms."""

NUMBER = 5
"""Steps of writing a number."""

MAX_DEPTH = 100
"""The maximum nesting depth of terms."""

_SCALARS = frozenset({str, int, bool, type(None)})


class _TermPlace(NamedTuple):
    """The place of a container among the terms: a linked list, as a path for each one would take memory."""

    key: str | int
    parent: _TermPlace | None
    depth: int


class RenderMeter:
    """Counts the output and the work of one rendering, up to a `share` (0 to 1) of the limits."""

    __slots__ = ("_max_output", "_max_work", "_output", "_work")

    def __init__(self, share: float = 1.0) -> None:
        self._output = self._max_output = int(MAX_OUTPUT * share)
        self._work = self._max_work = int(MAX_WORK * share)

    def write(self, characters: int) -> None:
        """Count output. Raises `RenderTooLong` at the limit."""
        self._output -= characters
        if self._output < 0:
            raise RenderTooLong(f"the rendered text is longer than {self._max_output:,} characters")

    def work(self, steps: int) -> None:
        """Count work. Raises `RenderTooLong` at the limit."""
        self._work -= steps
        if self._work < 0:
            raise RenderTooLong(f"rendering takes more than {self._max_work:,} steps")


def weight(value: object) -> int:
    """Steps of reading all of a JSON value."""
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, dict):
        return 1 + sum(len(key) + weight(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(map(weight, value))
    return NUMBER


def check_terms(terms: Mapping[str, object], meter: RenderMeter) -> None:
    """Check that terms are plain JSON: str, int, finite float, bool, None, and lists and dicts of them.

    Raises `RenderError` with the JSON Pointer of the term, and `RenderTooLong` at the limit of `meter`.
    """
    containers: list[tuple[Any, _TermPlace | None]] = [(terms, None)]
    while containers:
        container, place = containers.pop()
        if place is not None and place.depth > MAX_DEPTH:
            raise RenderError(f"term {_pointer(place):.80}…: nested deeper than {MAX_DEPTH} levels")
        meter.work(VALUE * len(container))
        pairs = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in pairs:
            if type(key) not in (str, int) or (type(key) is int and isinstance(container, dict)):
                raise RenderError(f"term {_pointer(place)}: found the key {key!r:.40}, expected a string")
            kind = type(value)
            if kind in _SCALARS or (kind is float and math.isfinite(value)):
                continue
            inner = _TermPlace(key, place, place.depth + 1 if place else 1)
            if kind is not dict and kind is not list:
                raise RenderError(
                    f"term {_pointer(inner)}: found {kind.__name__} {value!r:.40}, expected plain JSON"
                )
            containers.append((value, inner))


def _pointer(place: _TermPlace | None) -> str:
    steps: list[str | int] = []
    while place is not None:
        steps.append(place.key)
        place = place.parent
    return pointer(reversed(steps))
