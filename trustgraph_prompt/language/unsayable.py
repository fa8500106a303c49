"""That something of a JSON Schema has no word in the language, or is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from trustgraph_prompt.errors import LanguageError


def refuse(path: str, message: str, found: Any = None, expected: str | None = None) -> NoReturn:
    """Raise `LanguageError`; `path` is the JSON Pointer of what cannot be said."""
    raise LanguageError(message, path=path, found=found, expected=expected)


def description_of(schema: Mapping[str, Any], path: str) -> str | None:
    """What a schema at `path` says of itself. Raises `LanguageError` for what is no text."""
    said = schema.get("description")
    if not isinstance(said, str | None):
        refuse(within(path, "description"), "this is not a description", said, "a string")
    return said


def within(path: str, *steps: str | int) -> str:
    """The JSON Pointer of a part of what stands at `path`."""
    return path + "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
