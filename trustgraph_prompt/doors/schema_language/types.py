"""Types of the schema language as Python has them (seed 5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from operator import or_
from types import NoneType
from typing import Any
from typing import Literal as OneOf
from uuid import UUID

from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.language.nodes import (
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    Scalar,
    TypeExpr,
    Union,
)

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


def type_expr_to_python_type(type_expr: TypeExpr, schemas: Mapping[str, Any] | None = None) -> Any:
    """The annotation for a type; `schemas` are those of schemas, by name.

    Raises `LanguageError` for a name that neither they nor `DSL_TYPE_MAP` have.
    """
    match type_expr:
        case ListOf(item):
            return list[type_expr_to_python_type(item, schemas)]  # type: ignore[misc]
        case MapOf(value):
            return dict[str, type_expr_to_python_type(value, schemas)]  # type: ignore[misc]
        case Optional(inner):
            return type_expr_to_python_type(inner, schemas) | None
        case Literal(value):
            return OneOf[value]
        case Union(members):
            literals = tuple(one.value for one in members if isinstance(one, Literal))
            others = [one for one in members if not isinstance(one, Literal)]
            choice = [OneOf[literals]] if literals else []
            return reduce(or_, choice + [type_expr_to_python_type(one, schemas) for one in others])
        case Name(name) | Scalar(name):
            known = {**DSL_TYPE_MAP, **(schemas or {})}
            if name in known:
                return known[name]
            where = "line {}, column {}".format(*type_expr.at) if type_expr.at else None
            raise LanguageError(
                "there is no such type", where=where, found=name, expected=", ".join(sorted(known))
            )
    raise LanguageError("this is no type", found=type_expr, expected="a TypeExpr of the language")
