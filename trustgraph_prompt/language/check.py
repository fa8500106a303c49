"""Checks a parsed file: names, inheritance, types, constraints and defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any, NamedTuple, Protocol, TypeVar

from trustgraph_prompt.errors import suggestion
from trustgraph_prompt.json_text import values
from trustgraph_prompt.language import nodes
from trustgraph_prompt.language.constraints import KINDS, keywords_of, type_of
from trustgraph_prompt.language.inheritance import Schemas
from trustgraph_prompt.language.problem import MAX_PROBLEMS, Problem
from trustgraph_prompt.language.scalars import GENERIC, RESERVED, SCALARS
from trustgraph_prompt.language.write import spell_constraint, spell_field, spell_type

MAX_SCHEMAS = 100
"""How many schemas a file may have."""

MAX_FIELDS = 1_000
"""How many fields a schema may have, inherited ones included."""

MAX_BASES = 50
"""How many levels of inheritance there may be."""

_NULL = nodes.Scalar("null")

#: Names that other languages have for the types of this one.
_FOREIGN_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("str", "text", "String"), "string"),
    **dict.fromkeys(("integer", "Integer", "long"), "int"),
    **dict.fromkeys(("number", "double", "real"), "float"),
    **dict.fromkeys(("boolean", "Boolean"), "bool"),
    **dict.fromkeys(("array", "set", "tuple", "List"), "list"),
    **dict.fromkeys(("dict", "object", "record", "Map"), "map"),
    **dict.fromkeys(("None", "none", "nil"), "null"),
    "timestamp": "datetime",
    "Any": "any",
}


class Names(NamedTuple):
    """The names that types of a file may have: its schemas, and further types as JSON Schemas."""

    schemas: frozenset[str]
    types: Mapping[str, Mapping[str, Any]]

    def is_type(self, name: str) -> bool:
        """Whether it names a built-in or further type, so that no schema can have it."""
        return name in RESERVED or name in self.types

    def similar(self, name: str) -> str:
        """`, did you mean …?` for an unknown type, or nothing."""
        if name in _FOREIGN_NAMES:
            return f", did you mean {_FOREIGN_NAMES[name]!r}?"
        return suggestion(name, (*self.schemas, *self.types, *SCALARS))


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedNode = TypeVar("NamedNode", bound=_Named)


def _duplicates(named: Iterable[NamedNode]) -> Iterator[tuple[NamedNode, NamedNode]]:
    """Each node whose name an earlier one has, and the first that has it."""
    first: dict[str, NamedNode] = {}
    for node in named:
        if node.name in first:
            yield node, first[node.name]
        else:
            first[node.name] = node


def _first(problems: Iterable[Problem]) -> list[Problem]:
    """As many problems as are reported: finding all those of a hostile text takes long."""
    return list(islice(problems, MAX_PROBLEMS))


def check_field(field: nodes.SchemaField, names: Names) -> Iterator[Problem]:
    """The problems of a field; its default is checked if the rest is valid."""
    of_type = check_type(field.type, names)
    of_constraints = _check_constraints(field.type, field.constraints, names)
    yield from (problems := _first(chain(of_type, of_constraints, _check_question_mark(field))))
    if not problems and field.default is not None:
        yield from _check_default(field, field.default, names)


def _check_question_mark(field: nodes.SchemaField) -> Iterator[Problem]:
    if not field.may_be_missing:
        return
    found, null = f"{field.name}?", isinstance(field.type, nodes.Optional)
    if field.default is not None or null:
        why = "the type ends with ?" if null else "the field has a default"
        yield Problem(f"the ? after the name is redundant: {why}", field.at, found, field.name)
    elif nodes.nullable(field.type) != field.type:
        expected = f"{field.name}: {spell_type(nodes.nullable(field.type))}"
        yield Problem(
            "a field that may be missing or null has its ? after the type", field.at, found, expected
        )


def check_type(expr: nodes.TypeExpr, names: Names) -> Iterator[Problem]:
    """The problems of a type."""
    match expr:
        case nodes.Name(name) if name in GENERIC:
            parts = "items" if name == "list" else "values"
            expected = f"{name}[string], {name}[any] or similar"
            yield Problem(f"{name} needs the type of its {parts}", expr.at, name, expected)
        case nodes.Name(name) if name not in names.schemas and name not in names.types:
            expected = "a type of the language or the name of a schema"
            yield Problem(f"unknown type{names.similar(name)}", expr.at, name, expected)
        case nodes.Optional(inner) if isinstance(nodes.bare(inner), nodes.Optional):
            yield Problem("duplicate ?", expr.at, spell_type(expr), spell_type(expr.type))
        case nodes.Optional(inner) if _NULL in nodes.alternatives(inner):
            yield Problem(
                "the ? is redundant: the type allows null", expr.at, spell_type(expr), spell_type(inner)
            )
        case nodes.Union(members):
            yield from _check_union(members)
        case nodes.Annotated(inner, constraints):
            yield from _check_constraints(inner, constraints, names)
    for part in expr.parts:
        yield from check_type(part, names)


def _check_union(members: tuple[nodes.TypeExpr, ...]) -> Iterator[Problem]:
    seen = set()
    for member in members:
        key = member.as_json if isinstance(member, nodes.Literal) else member
        if key in seen:
            yield Problem(f"duplicate alternative {spell_type(member)}", member.at)
        seen.add(key)
        if isinstance(nodes.bare(member), nodes.Optional):
            expected = "? after the union, as in (string | int)?"
            yield Problem("? is not allowed inside a union", member.at, spell_type(member), expected)


# ---- constraints


def _check_constraints(
    expr: nodes.TypeExpr, constraints: Sequence[nodes.Constraint], names: Names
) -> Iterator[Problem]:
    inner = expr.type if isinstance(expr, nodes.Optional) else expr
    members = inner.members if isinstance(inner, nodes.Union) else (inner,)
    json_types = [type_of(member, names.types) for member in members]
    known = [constraint for constraint in constraints if constraint.name in KINDS]
    for constraint in constraints:
        if constraint.name not in KINDS:
            near = suggestion(constraint.name, KINDS)
            expected = ", ".join(f"@{name}" for name in KINDS)
            yield Problem(f"unknown constraint{near}", constraint.at, f"@{constraint.name}", expected)
    for again, _ in _duplicates(known):
        yield Problem(f"duplicate constraint @{again.name}", again.at)
    valid = [constraint for constraint in known if KINDS[constraint.name].takes(constraint.arguments)]
    for constraint in known:
        kind = KINDS[constraint.name]
        if constraint not in valid:
            found = spell_constraint(constraint)
            yield Problem(f"invalid arguments of @{constraint.name}", constraint.at, found, kind.example)
        elif not any(keywords_of(constraint, possible) for possible in json_types):
            yield Problem(
                f"@{constraint.name} does not apply to this type",
                constraint.at,
                spell_type(expr),
                kind.about,
            )
    yield from _check_range(valid)


def _check_range(constraints: Iterable[nodes.Constraint]) -> Iterator[Problem]:
    """Check that some number lies between the bounds."""
    bounds = {constraint.name: constraint for constraint in constraints}
    for lowest in (bounds[name] for name in ("min", "above") if name in bounds):
        for highest in (bounds[name] for name in ("max", "below") if name in bounds):
            low, high = lowest.arguments[0], highest.arguments[0]
            may_be_equal = (lowest.name, highest.name) == ("min", "max")
            if low > high or (low == high and not may_be_equal):
                expected = f"{'at most' if may_be_equal else 'less than'} {high}"
                yield Problem(f"no number satisfies both this and @{highest.name}", lowest.at, low, expected)


# ---- defaults


def _check_default(field: nodes.SchemaField, default: nodes.Default, names: Names) -> Iterator[Problem]:
    value = default.value
    if not _fits(value, field.type, names):
        yield Problem("the default does not match the type", default.at, value, spell_type(field.type))
        return
    for constraint in field.constraints:
        kind = KINDS[constraint.name]
        if values.type_of(value) in kind.keywords and not kind.holds(value, constraint.arguments):
            yield Problem(
                "the default violates a constraint", default.at, value, spell_constraint(constraint)
            )


def _fits(value: Any, expr: nodes.TypeExpr, names: Names) -> bool:
    """Whether a value matches a type; schemas and further types are not looked into."""
    match expr:
        case nodes.Scalar("any"):
            return True
        case nodes.Scalar("decimal"):
            return values.type_of(value) in ("integer", "number", "string")
        case nodes.Scalar("float"):
            return values.type_of(value) in ("integer", "number")
        case nodes.Scalar("int") if isinstance(value, float):
            return value.is_integer()
        case nodes.Scalar(name):
            return bool(SCALARS[name]["type"] == values.type_of(value))
        case nodes.Literal():
            return not isinstance(value, dict | list) and nodes.Literal(value).as_json == expr.as_json
        case nodes.ListOf(item):
            return isinstance(value, list) and all(_fits(element, item, names) for element in value)
        case nodes.MapOf(item):
            return isinstance(value, dict) and all(_fits(member, item, names) for member in value.values())
        case nodes.Optional(inner):
            return value is None or _fits(value, inner, names)
        case nodes.Union(members):
            return any(_fits(value, member, names) for member in members)
        case nodes.Annotated(inner):
            return _fits(value, inner, names)
        case nodes.Name(name):
            return name not in names.schemas or isinstance(value, dict)
    return False


# ---- schemas and prompts


def check(file: nodes.File, types: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """The problems of a file; `types` are the JSON Schemas of further types, by name."""
    if len(file.schemas) > MAX_SCHEMAS:
        at = file.schemas[MAX_SCHEMAS].at
        yield Problem("too many schemas", at, len(file.schemas), f"at most {MAX_SCHEMAS} in a file")
        return
    names = Names(frozenset(schema.name for schema in file.schemas), types)
    yield from _check_names(file, names)
    yield from (of_bases := _first(_check_bases(file, names)))
    for schema in file.schemas:
        yield from _check_fields(schema, names)
    if not of_bases:
        yield from _check_inherited(file)
        yield from _check_finite(file)
    for prompt in file.prompts:
        yield from _check_expecting(prompt, names)


def _check_names(file: nodes.File, names: Names) -> Iterator[Problem]:
    for schema in file.schemas:
        if names.is_type(schema.name):
            yield Problem("a schema cannot have the name of a type", schema.at, schema.name, "another name")
    for again, first in _duplicates(file.schemas):
        yield Problem(f"the schema {again.name} is already defined{_in_line(first.at)}", again.at)


def _check_bases(file: nodes.File, names: Names) -> Iterator[Problem]:
    left = {schema.name: schema for schema in file.schemas}
    for schema in file.schemas:
        for again, _ in _duplicates(schema.bases):
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
        # All that are left extend themselves, or extend one that does.
        cycle = _cycle(left, lambda name: next(base.name for base in left[name].bases if base.name in left))
        yield Problem("a schema extends itself: " + " extends ".join(cycle), left[cycle[0]].at)


def _cycle(names: Iterable[str], follow: Callable[[str], str]) -> list[str]:
    """The cycle that `follow` leads into from the first name; its first and last name are the same."""
    path = [next(iter(names))]
    while path.count(path[-1]) == 1:
        path.append(follow(path[-1]))
    return path[path.index(path[-1]) :]


def _check_fields(schema: nodes.SchemaDef, names: Names) -> Iterator[Problem]:
    for again, first in _duplicates(schema.fields):
        yield Problem(
            f"the field {again.name} of {schema.name} is already defined{_in_line(first.at)}", again.at
        )
    for field in schema.fields:
        yield from check_field(field, names)


def _check_inherited(file: nodes.File) -> Iterator[Problem]:
    """Check what the bases contribute: the number of fields, and fields that two of them define."""
    schemas = Schemas(file)
    for schema in schemas.by_name.values():
        fields = schemas.fields(schema.name)
        if len(fields) > MAX_FIELDS:
            yield Problem("too many fields", schema.at, len(fields), f"at most {MAX_FIELDS:,} in a schema")
        if not fields and schema.bases:
            yield Problem(f"the schema {schema.name} has no fields", schema.at)
        own = {field.name for field in schema.fields}
        seen: dict[str, tuple[nodes.SchemaField, str]] = {}
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


def _check_finite(file: nodes.File) -> Iterator[Problem]:
    """Check that each schema has a finite value: one that need not hold another value of the same schema."""
    schemas = Schemas(file)
    left = {
        name: [field.type for field in schemas.fields(name) if field.is_required] for name in schemas.by_name
    }
    while finite := [name for name, types in left.items() if not _needed(types, left)]:
        for name in finite:
            del left[name]
    if left:
        cycle = _cycle(left, lambda name: _needed(left[name], left) or "")
        yield Problem(
            "no finite value is possible",
            schemas[cycle[0]].at,
            " contains ".join(cycle),
            "?, [] or a default for one of these fields",
        )


def _needed(types: list[nodes.TypeExpr], left: Mapping[str, object]) -> str | None:
    """A schema among those left that values of the types must hold; types that need none are removed."""
    while types:
        members = nodes.alternatives(types[-1])
        names = [member.name for member in members if isinstance(member, nodes.Name) and member.name in left]
        if len(names) == len(members):
            return names[0]
        types.pop()
    return None


def _check_expecting(prompt: nodes.PromptDef, names: Names) -> Iterator[Problem]:
    expecting = prompt.expecting
    if expecting is None:
        return
    yield from (problems := _first(check_type(expecting, names)))
    if not problems and prompt.layout == "jsonl" and not _is_list_of_objects(expecting):
        yield Problem(
            "jsonl needs a list of objects",
            expecting.at,
            spell_type(expecting),
            "a list of a schema, as in: expecting Finding[] as jsonl",
        )


def _is_list_of_objects(expr: nodes.TypeExpr) -> bool:
    if not isinstance(expr, nodes.ListOf):
        return False
    members = nodes.alternatives(expr.item)
    return all(
        isinstance(member, nodes.Name | nodes.MapOf) or member == nodes.Scalar("any") for member in members
    )


def _in_line(at: nodes.Position | None) -> str:
    return "" if at is None else f" in line {at.line}"
