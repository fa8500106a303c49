"""Checks a parsed file: names, inheritance, types, constraints, defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from trustgraph_prompt.errors import suggestion
from trustgraph_prompt.language.constraints import KINDS, json_type, keywords_of, type_of
from trustgraph_prompt.language.inheritance import Schemas
from trustgraph_prompt.language.names import Names, twice
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    Default,
    File,
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    Position,
    PromptDef,
    Scalar,
    SchemaDef,
    SchemaField,
    TypeExpr,
    Union,
    alternatives,
    bare,
    nullable,
)
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.scalars import GENERIC, SCALARS
from trustgraph_prompt.language.write import spell_constraint, spell_field, spell_type

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
        why = "the type ends with ?" if null else "the field has a default"
        yield Problem(f"the ? after the name is redundant: {why}", field.at, found, field.name)
    elif nullable(field.type) != field.type:
        expected = f"{field.name}: {spell_type(nullable(field.type))}"
        yield Problem(
            "a field that may be missing or null has its ? after the type", field.at, found, expected
        )


def check_type(expr: TypeExpr, names: Names) -> Iterator[Problem]:
    """Everything that is wrong with a type."""
    match expr:
        case Name(name) if name in GENERIC:
            parts = "items" if name == "list" else "values"
            expected = f"{name}[string], {name}[any] or similar"
            yield Problem(f"{name} needs the type of its {parts}", expr.at, name, expected)
        case Name(name) if name not in names.schemas and name not in names.types:
            expected = "a type of the language or the name of a schema"
            yield Problem(f"unknown type{names.similar(name)}", expr.at, name, expected)
        case Optional(inner) if isinstance(bare(inner), Optional):
            yield Problem("duplicate ?", expr.at, spell_type(expr), spell_type(expr.type))
        case Optional(inner) if _NULL in alternatives(inner):
            yield Problem(
                "the ? is redundant: the type allows null", expr.at, spell_type(expr), spell_type(inner)
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
            yield Problem(f"duplicate alternative {spell_type(member)}", member.at)
        seen.add(key)
        if isinstance(bare(member), Optional):
            expected = "? after the union, as in (string | int)?"
            yield Problem("? is not allowed inside a union", member.at, spell_type(member), expected)


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
        yield Problem(f"duplicate constraint @{again.name}", again.at)
    usable = [one for one in known if KINDS[one.name].takes(one.arguments)]
    for constraint in known:
        kind = KINDS[constraint.name]
        if constraint not in usable:
            found = spell_constraint(constraint)
            yield Problem(f"invalid arguments of @{constraint.name}", constraint.at, found, kind.example)
        elif not any(keywords_of(constraint, one) for one in kinds):
            yield Problem(
                f"@{constraint.name} does not apply to this type",
                constraint.at,
                spell_type(expr),
                kind.about,
            )
    yield from _check_range(usable)


def _check_range(constraints: Iterable[Constraint]) -> Iterator[Problem]:
    """That there is a number between the lowest and the highest."""
    ends = {one.name: one for one in constraints}
    for lowest in (one for name in ("min", "above") if (one := ends.get(name))):
        for highest in (one for name in ("max", "below") if (one := ends.get(name))):
            low, high = lowest.arguments[0], highest.arguments[0]
            may_be_equal = (lowest.name, highest.name) == ("min", "max")
            if low > high or (low == high and not may_be_equal):
                expected = f"{'at most' if may_be_equal else 'less than'} {high}"
                yield Problem(f"no number satisfies both this and @{highest.name}", lowest.at, low, expected)


# ---- defaults


def _check_default(field: SchemaField, default: Default, names: Names) -> Iterator[Problem]:
    value = default.value
    if not _fits(value, field.type, names):
        yield Problem("the default does not match the type", default.at, value, spell_type(field.type))
        return
    for constraint in field.constraints:
        kind = KINDS[constraint.name]
        if json_type(value) in kind.keywords and not kind.holds(value, constraint.arguments):
            yield Problem(
                "the default violates a constraint", default.at, value, spell_constraint(constraint)
            )


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


MAX_SCHEMAS = 100
"""How many schemas a file may have."""

MAX_FIELDS = 1_000
"""How many fields a schema may have, those of its bases among them."""

MAX_BASES = 50
"""How many schemas may extend each other in a line."""


def check(file: File, types: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Everything that is wrong in a file; `types` are those beside the language's own."""
    if len(file.schemas) > MAX_SCHEMAS:
        at = file.schemas[MAX_SCHEMAS].at
        yield Problem("too many schemas", at, len(file.schemas), f"at most {MAX_SCHEMAS} in a file")
        return
    names = Names(frozenset(schema.name for schema in file.schemas), types)
    yield from _check_names(file, names)
    problem = None
    for problem in _check_bases(file, names):
        yield problem
    for schema in file.schemas:
        yield from _check_fields(schema, names)
    if problem is None:
        yield from _check_inherited(file)
        yield from _check_ends(file)
    for prompt in file.prompts:
        yield from _check_expecting(prompt, names)


def _check_names(file: File, names: Names) -> Iterator[Problem]:
    for schema in file.schemas:
        if names.is_type(schema.name):
            yield Problem("a schema cannot have the name of a type", schema.at, schema.name, "another name")
    for again, first in twice(file.schemas):
        yield Problem(f"the schema {again.name} is already defined{_line(first.at)}", again.at)


def _check_bases(file: File, names: Names) -> Iterator[Problem]:
    left = {schema.name: schema for schema in file.schemas}
    for schema in file.schemas:
        for again, _ in twice(schema.bases):
            yield Problem(f"{schema.name} extends {again.name} twice", again.at)
        for base in schema.bases:
            if names.is_type(base.name):
                yield Problem(f"{base.name} is not a schema", base.at, base.name, "the name of a schema")
            elif base.name not in left:
                similar = suggestion(base.name, names.schemas)
                yield Problem(f"unknown schema {base.name}{similar}", base.at)
    for level in count():
        ready = [schema for schema in left.values() if all(base.name not in left for base in schema.bases)]
        if not ready:
            break
        if level > MAX_BASES:
            yield Problem("inheritance is too deep", ready[0].at, level, f"at most {MAX_BASES} levels")
            return
        for schema in ready:
            del left[schema.name]
    if left:
        yield _circle(left)


def _circle(left: Mapping[str, SchemaDef]) -> Problem:
    """That one of the schemas extends itself; all of them do, or extend one that does."""
    path = [next(iter(left))]
    while path.count(path[-1]) == 1:
        path.append(next(base.name for base in left[path[-1]].bases if base.name in left))
    circle = path[path.index(path[-1]) :]
    return Problem("a schema extends itself: " + " extends ".join(circle), left[circle[0]].at)


def _check_fields(schema: SchemaDef, names: Names) -> Iterator[Problem]:
    for again, first in twice(schema.fields):
        yield Problem(
            f"the field {again.name} of {schema.name} is already defined{_line(first.at)}", again.at
        )
    for field in schema.fields:
        yield from check_field(field, names)


def _check_inherited(file: File) -> Iterator[Problem]:
    """What is wrong only together with what the bases say."""
    schemas = Schemas(file)
    for schema in schemas.by_name.values():
        fields = schemas.fields(schema.name)
        if len(fields) > MAX_FIELDS:
            yield Problem("too many fields", schema.at, len(fields), f"at most {MAX_FIELDS:,} in a schema")
        if not fields and schema.bases:
            yield Problem(f"the schema {schema.name} has no fields", schema.at)
        own = {field.name for field in schema.fields}
        seen: dict[str, tuple[SchemaField, str]] = {}
        for base in schema.bases:
            for field in schemas.fields(base.name):
                other, of = seen.setdefault(field.name, (field, base.name))
                if other != field and field.name not in own:
                    yield Problem(
                        f"{of} and {base.name} define the field {field.name} differently",
                        base.at,
                        f"{spell_field(other)} and {spell_field(field)}",
                        f"a field {field.name} of {schema.name} that replaces both",
                    )


def _check_ends(file: File) -> Iterator[Problem]:
    """That a value of each schema can come to an end: it need not hold another of itself."""
    schemas = Schemas(file)
    left = {name: [one.type for one in schemas.fields(name) if one.is_required] for name in schemas.by_name}
    while done := [name for name, types in left.items() if not _needed(types, left)]:
        for name in done:
            del left[name]
    if left:
        path = [next(iter(left))]
        while path.count(path[-1]) == 1:
            path.append(_needed(left[path[-1]], left) or "")
        circle = path[path.index(path[-1]) :]
        yield Problem(
            "no finite value is possible",
            schemas[circle[0]].at,
            " holds ".join(circle),
            "?, [] or a default for one of these fields",
        )


def _needed(types: list[TypeExpr], left: Mapping[str, object]) -> str | None:
    """One of the schemas left that values of the types cannot do without; types that can are taken out."""
    while types:
        members = alternatives(types[-1])
        names = [one.name for one in members if isinstance(one, Name) and one.name in left]
        if len(names) == len(members):
            return names[0]
        types.pop()
    return None


def _check_expecting(prompt: PromptDef, names: Names) -> Iterator[Problem]:
    expecting = prompt.expecting
    if expecting is None:
        return
    problem = None
    for problem in check_type(expecting, names):
        yield problem
    if problem is None and prompt.layout == "jsonl" and not _is_list_of_objects(expecting, names):
        yield Problem(
            "jsonl needs a list of objects",
            expecting.at,
            spell_type(expecting),
            "a list of a schema, as in: expecting Finding[] as jsonl",
        )


def _is_list_of_objects(expr: TypeExpr, names: Names) -> bool:
    if not isinstance(expr, ListOf):
        return False
    return all(isinstance(one, Name | MapOf) or one == Scalar("any") for one in alternatives(expr.item))


def _line(at: Position | None) -> str:
    return "" if at is None else f" in line {at.line}"
