"""JSON Pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def pointer(path: Iterable[str | int]) -> str:
    """The JSON Pointer of `path`; "" for the empty path."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def steps(pointer: str) -> list[str]:
    """The path of a JSON Pointer; all its steps are strings."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def follow(document: Any, pointer: str) -> Any:
    """The value at `pointer` in a JSON value; None if there is none."""
    for step in steps(pointer):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isascii() and step.isdigit() and len(step) < 9:
            document = document[int(step)] if int(step) < len(document) else None
        else:
            return None
    return document
