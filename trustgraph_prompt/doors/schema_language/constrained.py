"""Constraints of the schema language as Pydantic has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

from trustgraph_prompt.language.constraints import keywords_of
from trustgraph_prompt.language.nodes import Constraint

_SETTINGS: Mapping[str, str] = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "pattern": "pattern",
    **dict.fromkeys(("minLength", "minItems", "minProperties"), "min_length"),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), "max_length"),
}
"""What keywords of JSON Schema are called there."""


def constrained(annotation: Any, json_type: str | None, constraints: Sequence[Constraint]) -> Any:
    """The annotation with the constraints that a type can have which is this in JSON."""
    for constraint in constraints:
        for key, value in (keywords_of(constraint, json_type) or {}).items():
            said = _for_integers(key, value) if json_type == "integer" else value
            annotation = Annotated[annotation, *_said(key, said)]
    return annotation


def described(annotation: Any, description: str) -> Any:
    """The annotation with what an author says of it."""
    from pydantic import Field

    return Annotated[annotation, Field(description=description)]


def _for_integers(keyword: str, value: Any) -> Any:
    """A bound of integers as the integer that Pydantic wants there, of which it lets the same pass."""
    match keyword:
        case "minimum" | "exclusiveMaximum":
            return math.ceil(value)
        case "maximum" | "exclusiveMinimum":
            return math.floor(value)
        case "multipleOf":
            return Fraction(str(value)).numerator
    return value


def _said(keyword: str, value: Any) -> tuple[Any, ...]:
    """A keyword of JSON Schema as what Pydantic makes of it."""
    from pydantic import AfterValidator, Field

    if keyword in _SETTINGS:
        return (Field(**{_SETTINGS[keyword]: value}),)
    said = Field(json_schema_extra={keyword: value})
    return (AfterValidator(_unique), said) if keyword == "uniqueItems" else (said,)


def _unique(items: list[Any]) -> list[Any]:
    if len(set(map(repr, items))) < len(items):
        raise ValueError("the items are not unique")
    return items
