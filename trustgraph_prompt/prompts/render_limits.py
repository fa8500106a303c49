"""What one rendering may cost, whoever wrote the template and whoever sent the terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from trustgraph_prompt.errors import RenderError, RenderTooLong
from trustgraph_prompt.json_text.pointer import pointer

MAX_OUTPUT = 4_000_000
"""Characters a rendered prompt may have; about a million tokens."""

MAX_WORK = 10_000_000
"""Steps of a rendering, each a few nanoseconds: characters and items that filters and comparisons read."""

PART = 10
"""Steps that each part of a loop's body takes each time."""

VALUE = 3
"""Steps of each value of the terms, which is looked at before they are rendered."""

NUMBER = 5
"""Steps it takes to write a number."""

MAX_DEPTH = 100
"""How deep terms may be nested."""

_SCALARS = frozenset({str, int, bool, type(None)})


class _Place(NamedTuple):
    """Where a container stands among the terms."""

    key: str | int
    parent: _Place | None
    depth: int


class RenderMeter:
    """Counts what one rendering writes and works, and ends it at a `share` of the limits."""

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
    """Steps it takes to read a JSON value through."""
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, dict):
        return 1 + sum(len(key) + weight(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(map(weight, value))
    return NUMBER


def check_terms(terms: Mapping[str, object], meter: RenderMeter) -> None:
    """Hold terms against plain JSON: str, int, finite float, bool, None, and lists and dicts of them.

    Raises `RenderError` naming the term by its JSON Pointer, `RenderTooLong` where `meter` says so.
    """
    containers: list[tuple[Any, _Place | None]] = [(terms, None)]
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
            inner = _Place(key, place, place.depth + 1 if place else 1)
            if kind is not dict and kind is not list:
                raise RenderError(
                    f"term {_pointer(inner)}: found {kind.__name__} {value!r:.40}, expected plain JSON"
                )
            containers.append((value, inner))


def _pointer(place: _Place | None) -> str:
    steps: list[str | int] = []
    while place is not None:
        steps.append(place.key)
        place = place.parent
    return pointer(reversed(steps))
