"""Scalars that came in another type than the schema says: converted where nothing is lost (seed 4)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_NULLS = ("null", "none")
_LONGEST = 4_300  # digits; Python reads no longer integers
_EXACT = 2**53  # beyond, a float stands for many integers

_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}


class Target(NamedTuple):
    """What a scalar is to become: one of `types`, or any where that is None; `literals` stay as they are."""

    types: frozenset[str] | None
    literals: tuple[Any, ...]

    @classmethod
    def of(cls, schemas: Iterable[Mapping[str, Any]]) -> Target:
        """What all of the schemas say together."""
        types: frozenset[str] | None = None
        literals: tuple[Any, ...] = ()
        for schema in schemas:
            values = [schema["const"]] if "const" in schema else schema.get("enum", [])
            literals += tuple(values)
            named = schema.get("type") or sorted({_TYPES[type(value)] for value in values})
            if named:
                allowed = frozenset([named] if isinstance(named, str) else named)
                types = allowed if types is None else types & allowed
        return cls(types, literals)

    def convert(self, value: Any) -> Any:
        """The value as one of the types; itself where it is one already, or where something would be lost."""
        if self.types is None:
            return value
        if isinstance(value, str):
            return value if value in self.literals else _from_text(value, self.types)
        if isinstance(value, float) and "integer" in self.types and "number" not in self.types:
            return int(value) if value.is_integer() and abs(value) <= _EXACT else value
        return value


def _from_text(text: str, types: frozenset[str]) -> Any:
    if len(text) > _LONGEST:
        return text
    word = text.strip()
    lowered = word.lower()
    if "null" in types and lowered in _NULLS:
        return None
    if "string" in types:
        return text
    if "boolean" in types and lowered in _BOOLEANS:
        return _BOOLEANS[lowered]
    if types.isdisjoint(("integer", "number")):
        return text
    if _INTEGER.fullmatch(word):
        return int(word)
    if "number" in types and _NUMBER.fullmatch(word):
        number = json.loads(word)
        return number if math.isfinite(number) else text
    return text
