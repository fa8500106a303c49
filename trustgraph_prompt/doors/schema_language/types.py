"""Types and constraints of the schema language as Python and Pydantic have them (StreetRace)."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import or_
from types import NoneType
from typing import Any
from typing import Literal as OneOf
from uuid import UUID

from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.language.constraints import keywords_of, type_of
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    Scalar,
    TypeExpr,
    Union,
)

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
            annotation = typing.Annotated[annotation, *_said(key, said)]
    return annotation


def described(annotation: Any, description: str) -> Any:
    """The annotation with what an author says of it."""
    from pydantic import Field

    return typing.Annotated[annotation, Field(description=description)]


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


DSL_TYPE_MAP: dict[str, Any] = {
    "string": str,
    "int": int,
    "float": float,
    "bool": bool,
    "any": Any,
    "null": NoneType,
    "bytes": bytes,
    "date": date,
    "time": time,
    "datetime": datetime,
    "uuid": UUID,
    "decimal": Decimal,
}
"""The types by their names. Whatever is added here may stand in texts that are loaded afterwards."""


def type_expr_to_python_type(
    type_expr: TypeExpr,
    schemas: Mapping[str, Any] | None = None,
    constraints: Sequence[Constraint] = (),
) -> Any:
    """The annotation for a type; `schemas` are those of schemas, by name. Constraints are those of Pydantic.

    Raises `LanguageError` for a name that neither they nor `DSL_TYPE_MAP` have, `ConfigError` for constraints
    without Pydantic.
    """
    match type_expr:
        case Optional(inner):
            return type_expr_to_python_type(inner, schemas, constraints) | None
        case Union(members):
            literals = tuple(one.value for one in members if isinstance(one, Literal))
            others = [one for one in members if not isinstance(one, Literal)]
            choice = [OneOf[literals]] if literals else []
            parts = [type_expr_to_python_type(one, schemas, constraints) for one in others]
            return reduce(or_, choice + parts)
        case Annotated(inner, own, description):
            annotation = type_expr_to_python_type(inner, schemas, own)
            return annotation if description is None else described(annotation, description)
    return constrained(_unconstrained(type_expr, schemas), type_of(type_expr, {}), constraints)


def _unconstrained(type_expr: TypeExpr, schemas: Mapping[str, Any] | None) -> Any:
    match type_expr:
        case ListOf(item):
            return list[type_expr_to_python_type(item, schemas)]  # type: ignore[misc]
        case MapOf(value):
            return dict[str, type_expr_to_python_type(value, schemas)]  # type: ignore[misc]
        case Literal(value):
            return OneOf[value]
        case Name(name) | Scalar(name):
            known = {**DSL_TYPE_MAP, **(schemas or {})}
            if name in known:
                return known[name]
            where = "line {}, column {}".format(*type_expr.at) if type_expr.at else None
            raise LanguageError(
                "there is no such type", where=where, found=name, expected=", ".join(sorted(known))
            )
    raise LanguageError("this is no type", found=type_expr, expected="a TypeExpr of the language")
