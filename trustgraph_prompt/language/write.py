"""Types and values as they are written."""

from __future__ import annotations

import json
import re
from typing import Any

from trustgraph_prompt.language.constraints import BY_WORDS
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    Scalar,
    SchemaField,
    TypeExpr,
    Union,
)

NAME = re.compile(r"[^\W\d][\w-]*")
"""A name that needs no quotes."""

_NO_WORDS = ("true", "false", "null")


def spell_type(expr: TypeExpr) -> str:
    """A type, on one line."""
    match expr:
        case Scalar(name) | Name(name):
            return name
        case Literal(value):
            return spell_value(value)
        case ListOf(item):
            return f"{_closed(item)}[]"
        case MapOf(value):
            return f"map[{_annotated(value) if isinstance(value, Annotated) else spell_type(value)}]"
        case Optional(inner):
            return f"{_closed(inner)}?"
        case Union(members):
            return " | ".join(map(spell_type, members))
        case Annotated():
            return f"({_annotated(expr)})"
    raise TypeError(f"{expr!r} is no type")


def _closed(expr: TypeExpr) -> str:
    text = spell_type(expr)
    return f"({text})" if isinstance(expr, Union) else text


def _annotated(expr: Annotated) -> str:
    parts = [spell_type(expr.type), *map(spell_constraint, expr.constraints)]
    return " ".join(parts if expr.description is None else [*parts, spell_value(expr.description)])


def spell_constraint(constraint: Constraint) -> str:
    """A constraint with its arguments."""
    arguments = [_spell_argument(constraint, one) for one in constraint.arguments]
    return f"@{constraint.name}({', '.join(arguments)})" if arguments else f"@{constraint.name}"


def _spell_argument(constraint: Constraint, value: Any) -> str:
    if value is None:
        return "any"
    is_word = constraint.name in BY_WORDS and NAME.fullmatch(value) and value not in _NO_WORDS
    return str(value) if is_word else spell_value(value)


def spell_field(field: SchemaField) -> str:
    """A field, on one line."""
    name = spell_key(field.name) + ("?" if field.may_be_missing else "")
    parts = [f"{name}: {spell_type(field.type)}", *map(spell_constraint, field.constraints)]
    if field.default is not None:
        parts.append(f"= {spell_value(field.default.value)}")
    if field.description is not None:
        parts.append(f" {spell_value(field.description)}")
    return " ".join(parts)


def spell_value(value: Any) -> str:
    """A JSON value, on one line; the keys of objects are bare where they may be."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{spell_key(key)}: {spell_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(spell_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def spell_key(name: str) -> str:
    """The name of a field or a key; in quotes where it is not a bare name."""
    return name if NAME.fullmatch(name) else spell_value(name)
