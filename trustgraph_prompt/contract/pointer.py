"""JSON Pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterable


def pointer(path: Iterable[str | int]) -> str:
    """The pointer that leads along `path`; "" for the whole."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
