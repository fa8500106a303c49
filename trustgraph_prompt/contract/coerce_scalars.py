"""Converts scalars to the type that the schema declares, if nothing is lost (weakincentives)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trustgraph_prompt.contract.references import types_in, values_in
from trustgraph_prompt.json_text.values import type_of

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_NULLS = ("null", "none")
_LONGEST = 4_300  # digits, the limit of Python for integers
_EXACT = 2**53  # beyond, several integers have the same float

_UNCONVERTED = frozenset(("string", "object", "array"))
_REMARKS = frozenset(("type", "title", "description", "default", "examples", "$comment"))


class Target(NamedTuple):
    """The types that a scalar may be converted to, None for any; strings in `literals` stay as they are."""

    types: frozenset[str] | None
    literals: tuple[Any, ...]

    @classmethod
    def of(cls, schemas: Iterable[Mapping[str, Any]]) -> Target:
        """The target that meets all of the schemas."""
        types: frozenset[str] | None = None
        literals: tuple[Any, ...] = ()
        for schema in schemas:
            values = values_in(schema) or []
            literals += tuple(values)
            named = types_in(schema) or list(map(type_of, values))
            alternatives = (alternative_types(schema.get(keyword, ())) for keyword in ("anyOf", "oneOf"))
            for allowed in (named, *alternatives):
                if allowed:
                    expanded = frozenset(allowed) | ({"integer"} if "number" in allowed else frozenset())
                    types = expanded if types is None else types & expanded
        return cls(types, literals)

    @property
    def converts(self) -> bool:
        """Whether there is a type to convert to."""
        return self.types is not None and not self.types <= _UNCONVERTED

    def convert(self, value: Any) -> Any:
        """Convert the value; return it unchanged if it needs no conversion or would lose something."""
        if self.types is None:
            return value
        if isinstance(value, str):
            if value in self.literals:
                return value
            literal = _from_text(value, self.types - {"string"})
            return literal if literal in self.literals else _from_text(value, self.types)
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


def alternative_types(branches: Iterable[Any]) -> list[str] | None:
    """The types of all branches, if they have no other constraints; else None."""
    if not all(isinstance(b, dict) and "type" in b and _REMARKS.issuperset(b) for b in branches):
        return None
    return [name for branch in branches for name in types_in(branch)]
