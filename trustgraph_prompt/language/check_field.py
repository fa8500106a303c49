"""What is wrong with a type, and with a field: its type, its constraints, its default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trustgraph_prompt.language.constraints import KINDS, json_type, keywords_of, type_of
from trustgraph_prompt.language.names import Names, suggestion, twice
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    Default,
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    Scalar,
    SchemaField,
    TypeExpr,
    Union,
    alternatives,
    bare,
    nullable,
)
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.scalars import GENERIC, SCALARS
from trustgraph_prompt.language.spell import spell_constraint, spell_type

_NULL = Scalar("null")


def check_field(field: SchemaField, names: Names) -> Iterator[Problem]:
    """Everything that is wrong with a field."""
    problem = None
    for problem in (
        *check_type(field.type, names),
        *_check_constraints(field.type, field.constraints, names),
        *_check_missing(field),
    ):
        yield problem
    if problem is None and field.default is not None:
        yield from _check_default(field, field.default, names)


def _check_missing(field: SchemaField) -> Iterator[Problem]:
    if not field.may_be_missing:
        return
    found, null = f"{field.name}?", isinstance(field.type, Optional)
    if field.default is not None or null:
        why = "its type ends with ?" if null else "it has a default"
        yield Problem(f"this may be missing already, as {why}", field.at, found, field.name)
    elif nullable(field.type) != field.type:
        expected = f"{field.name}: {spell_type(nullable(field.type))}"
        yield Problem("what may be missing or null has its ? at its type", field.at, found, expected)


def check_type(expr: TypeExpr, names: Names) -> Iterator[Problem]:
    """Everything that is wrong with a type."""
    match expr:
        case Name(name) if name in GENERIC:
            yield Problem(f"a {name} of what?", expr.at, name, f"{name}[string], {name}[any] or the like")
        case Name(name) if name not in names.schemas and name not in names.types:
            expected = "a type of the language or the name of a schema"
            yield Problem(f"unknown type{names.similar(name)}", expr.at, name, expected)
        case Optional(inner) if isinstance(bare(inner), Optional):
            yield Problem("one ? is enough", expr.at, spell_type(expr), spell_type(expr.type))
        case Optional(inner) if _NULL in alternatives(inner):
            yield Problem(
                "this is null already, and needs no ?", expr.at, spell_type(expr), spell_type(inner)
            )
        case Union(members):
            yield from _check_union(members)
        case Annotated(inner, constraints):
            yield from _check_constraints(inner, constraints, names)
    for part in expr.parts:
        yield from check_type(part, names)


def _check_union(members: tuple[TypeExpr, ...]) -> Iterator[Problem]:
    seen = set()
    for member in members:
        key = member.as_json if isinstance(member, Literal) else member
        if key in seen:
            yield Problem(f"{spell_type(member)} stands twice", member.at)
        seen.add(key)
        if isinstance(bare(member), Optional):
            expected = "? after all of them, as in (string | int)?"
            yield Problem("? inside a union", member.at, spell_type(member), expected)


def _members(expr: TypeExpr) -> tuple[TypeExpr, ...]:
    """The members of a union, `?` taken off."""
    inner = expr.type if isinstance(expr, Optional) else expr
    return inner.members if isinstance(inner, Union) else (inner,)


# ---- constraints


def _check_constraints(expr: TypeExpr, constraints: Sequence[Constraint], names: Names) -> Iterator[Problem]:
    kinds = [type_of(member, names.types) for member in _members(expr)]
    known = [one for one in constraints if one.name in KINDS]
    for constraint in constraints:
        if constraint not in known:
            near = suggestion(constraint.name, KINDS)
            expected = ", ".join(f"@{name}" for name in KINDS)
            yield Problem(f"unknown constraint{near}", constraint.at, f"@{constraint.name}", expected)
    for again, _ in twice(known):
        yield Problem(f"@{again.name} stands twice", again.at)
    usable = [one for one in known if KINDS[one.name].takes(one.arguments)]
    for constraint in known:
        kind = KINDS[constraint.name]
        if constraint not in usable:
            found = spell_constraint(constraint)
            yield Problem(f"@{constraint.name} does not take this", constraint.at, found, kind.example)
        elif not any(keywords_of(constraint, one) for one in kinds):
            yield Problem(
                f"@{constraint.name} says nothing about this type",
                constraint.at,
                spell_type(expr),
                kind.about,
            )
    yield from _check_ends(usable)


def _check_ends(constraints: Iterable[Constraint]) -> Iterator[Problem]:
    """That there is a number between the lowest and the highest."""
    ends = {one.name: one for one in constraints}
    for lowest in (one for name in ("min", "above") if (one := ends.get(name))):
        for highest in (one for name in ("max", "below") if (one := ends.get(name))):
            low, high = lowest.arguments[0], highest.arguments[0]
            may_be_equal = (lowest.name, highest.name) == ("min", "max")
            if low > high or (low == high and not may_be_equal):
                expected = f"{'at most' if may_be_equal else 'less than'} {high}"
                yield Problem(f"no number can meet this and @{highest.name}", lowest.at, low, expected)


# ---- defaults


def _check_default(field: SchemaField, default: Default, names: Names) -> Iterator[Problem]:
    value = default.value
    if not _fits(value, field.type, names):
        yield Problem("the default is not of the type", default.at, value, spell_type(field.type))
        return
    for constraint in field.constraints:
        kind = KINDS[constraint.name]
        if json_type(value) in kind.keywords and not kind.holds(value, constraint.arguments):
            yield Problem("the default is out of bounds", default.at, value, spell_constraint(constraint))


def _fits(value: Any, expr: TypeExpr, names: Names) -> bool:
    """Whether a value is of a type, without a look into what schemas and types from elsewhere say."""
    match expr:
        case Scalar("any"):
            return True
        case Scalar("decimal"):
            return json_type(value) in ("integer", "number", "string")
        case Scalar("float"):
            return json_type(value) in ("integer", "number")
        case Scalar("int") if isinstance(value, float):
            return value.is_integer()
        case Scalar(name):
            return bool(SCALARS[name]["type"] == json_type(value))
        case Literal():
            return not isinstance(value, dict | list) and Literal(value).as_json == expr.as_json
        case ListOf(item):
            return isinstance(value, list) and all(_fits(one, item, names) for one in value)
        case MapOf(item):
            return isinstance(value, dict) and all(_fits(one, item, names) for one in value.values())
        case Optional(inner):
            return value is None or _fits(value, inner, names)
        case Union(members):
            return any(_fits(value, member, names) for member in members)
        case Annotated(inner):
            return _fits(value, inner, names)
        case Name(name):
            return name not in names.schemas or isinstance(value, dict)
    return False
