"""What one rendering may cost, whoever wrote the template and whoever sent the terms."""

from __future__ import annotations

import math
from typing import Any

from trustgraph_prompt.errors import RenderError

MAX_OUTPUT = 4_000_000
"""Characters a rendered prompt may have; about a million tokens."""

MAX_WORK = 10_000_000
"""Steps of a rendering: parts of the template run in loops, characters that filters and comparisons read."""

MAX_DEPTH = 100
"""How deep terms may be nested."""


class Meter:
    """Counts what one rendering writes and works, and ends it at the limits."""

    __slots__ = ("_output", "_work")

    def __init__(self) -> None:
        self._output = MAX_OUTPUT
        self._work = MAX_WORK

    def write(self, characters: int) -> None:
        """Count output. Raises `RenderError` at the limit."""
        self._output -= characters
        if self._output < 0:
            raise RenderError(f"the rendered text is longer than {MAX_OUTPUT:,} characters")

    def work(self, steps: int) -> None:
        """Count work. Raises `RenderError` at the limit."""
        self._work -= steps
        if self._work < 0:
            raise RenderError(f"rendering takes more than {MAX_WORK:,} steps")


def weight(value: object) -> int:
    """Steps it takes to read a JSON value through."""
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, dict):
        return 1 + sum(len(key) + weight(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(map(weight, value))
    return 1


def check_terms(terms: object) -> None:
    """Hold terms against plain JSON: str, int, finite float, bool, None, and lists and dicts of them.

    Raises `RenderError` naming the term by its JSON Pointer.
    """
    open_values: list[tuple[Any, str, int]] = [(terms, "", 0)]
    while open_values:
        value, path, depth = open_values.pop()
        kind = type(value)
        if kind is str or kind is int or kind is bool or value is None:
            continue
        if kind is float and math.isfinite(value):
            continue
        if depth > MAX_DEPTH:
            raise RenderError(f"terms are nested deeper than {MAX_DEPTH} levels at {path[:80]}…")
        if kind is list:
            open_values += [(item, f"{path}/{i}", depth + 1) for i, item in enumerate(value)]
        elif kind is dict:
            for key, item in value.items():
                if type(key) is not str:
                    raise RenderError(f"term {path or '/'}: found the key {key!r}, expected a string")
                open_values.append((item, f"{path}/{key}", depth + 1))
        else:
            raise RenderError(f"term {path}: found {kind.__name__} {value!r:.40}, expected plain JSON")
