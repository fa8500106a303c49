"""Converts types and constraints of the schema language to Python and Pydantic (StreetRace)."""

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

from trustgraph_prompt.errors import ConfigError, LanguageError
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

_FIELD_SETTINGS: Mapping[str, str] = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "pattern": "pattern",
    **dict.fromkeys(("minLength", "minItems", "minProperties"), "min_length"),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), "max_length"),
}
"""Parameters of Pydantic's `Field` by keyword of JSON Schema."""


def _constrained(annotation: Any, json_type: str | None, constraints: Sequence[Constraint]) -> Any:
    """The annotation with those constraints that apply to the JSON type."""
    for constraint in constraints:
        for key, value in (keywords_of(constraint, json_type) or {}).items():
            bound = _integer_bound(key, value) if json_type == "integer" else value
            annotation = typing.Annotated[annotation, *_metadata(key, bound)]
    return annotation


def _integer_bound(keyword: str, value: Any) -> Any:
    """A bound of integers as an integer, which Pydantic requires, that accepts the same values."""
    match keyword:
        case "minimum" | "exclusiveMaximum":
            return math.ceil(value)
        case "maximum" | "exclusiveMinimum":
            return math.floor(value)
        case "multipleOf":
            return Fraction(str(value)).numerator
    return value


def _metadata(keyword: str, value: Any) -> tuple[Any, ...]:
    """Pydantic's metadata for a keyword of JSON Schema."""
    if keyword in _FIELD_SETTINGS:
        return (_field(**{_FIELD_SETTINGS[keyword]: value}),)
    field = _field(json_schema_extra={keyword: value})
    if keyword != "uniqueItems":
        return (field,)
    from pydantic import AfterValidator

    return AfterValidator(_unique), field


def _field(**settings: Any) -> Any:
    """Pydantic's `Field`. Raises `ConfigError` without Pydantic."""
    try:
        from pydantic import Field
    except ImportError:
        raise ConfigError(
            "types with constraints or descriptions need the extra `pydantic`: "
            "pip install 'trustgraph-prompt[pydantic]'"
        ) from None
    return Field(**settings)


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
"""Python types by name. Texts that are loaded later may use names that are added here."""


def type_expr_to_python_type(
    type_expr: TypeExpr,
    schemas: Mapping[str, Any] | None = None,
    constraints: Sequence[Constraint] = (),
) -> Any:
    """Convert a type to an annotation, with constraints as metadata of Pydantic.

    `schemas` are the annotations of schemas, by name. Raises `LanguageError` for a name that neither they nor
    `DSL_TYPE_MAP` contain, `ConfigError` for constraints or a description without Pydantic.
    """
    match type_expr:
        case Optional(inner):
            return type_expr_to_python_type(inner, schemas, constraints) | None
        case Union(members):
            literals = tuple(member.value for member in members if isinstance(member, Literal))
            choice = [OneOf[literals]] if literals else []
            others = [member for member in members if not isinstance(member, Literal)]
            parts = [type_expr_to_python_type(member, schemas, constraints) for member in others]
            return reduce(or_, choice + parts)
        case Annotated(inner, own, description):
            annotation = type_expr_to_python_type(inner, schemas, own)
            if description is None:
                return annotation
            return typing.Annotated[annotation, _field(description=description)]
    return _constrained(_unconstrained(type_expr, schemas), type_of(type_expr, {}), constraints)


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
            raise LanguageError("unknown type", where=where, found=name, expected=", ".join(sorted(known)))
    raise LanguageError("not a type", found=type_expr, expected="a TypeExpr of the language")
