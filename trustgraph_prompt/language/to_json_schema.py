"""Converts a parsed file to JSON Schema (2020-12), and locates a part of that schema in the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from trustgraph_prompt.json_text import values as json_values
from trustgraph_prompt.json_text.pointer import steps
from trustgraph_prompt.language import nodes
from trustgraph_prompt.language.constraints import keywords_named, keywords_of, type_of
from trustgraph_prompt.language.inheritance import Schemas, discriminator
from trustgraph_prompt.language.problem import Problem, complain
from trustgraph_prompt.language.scalars import SCALARS

JsonSchema = dict[str, Any]
Types = Mapping[str, Mapping[str, Any]]


def to_json_schema(file: nodes.File, of: nodes.TypeExpr | str, *, types: Types | None = None) -> JsonSchema:
    """Convert a type, or the schema of that name, of a parsed file to a JSON Schema.

    A schema is the root itself, with its name as the title; the others that are used are in `$defs` by name,
    and so is the root if something refers to it. `types` are further types, as in `parse`; their `$defs` are
    added.

    Raises `LanguageError` for an unknown name, and for two definitions of one name.
    """
    return _SchemaWriter(file, types or {}).root(nodes.Name(of) if isinstance(of, str) else of)


class _SchemaWriter:
    """Writes one JSON Schema. `_used` are the schemas referred to, `_brought` the `$defs` of `types`."""

    def __init__(self, file: nodes.File, types: Types) -> None:
        self._schemas = Schemas(file)
        self._types = types
        self._used: dict[str, None] = {}
        self._brought: dict[str, Any] = {}

    def root(self, expr: nodes.TypeExpr) -> JsonSchema:
        """The JSON Schema of a type, with its definitions."""
        if isinstance(expr, nodes.Name) and expr.name not in self._types:
            root = {"title": expr.name, **self._schema(expr.name)}
        else:
            root = self._type(expr)
        written: dict[str, JsonSchema] = {}
        while rest := [name for name in self._used if name not in written]:
            written |= {name: self._schema(name) for name in rest}
        in_order = {name: written[name] for name in self._schemas.by_name if name in written}
        for name in in_order.keys() & self._brought.keys():
            complain([Problem(f"{name} is defined twice", None)], None)
        definitions = {**in_order, **self._brought}
        return {**root, "$defs": definitions} if definitions else root

    def _schema(self, name: str) -> JsonSchema:
        schema, fields = self._schemas[name], self._schemas.fields(name)
        required = [field.name for field in fields if field.is_required]
        return {
            **_described(schema.description),
            "type": "object",
            "properties": {field.name: self._field(field) for field in fields},
            **({"required": required} if required else {}),
            **({"additionalProperties": False} if schema.closed else {}),
        }

    def _field(self, field: nodes.SchemaField) -> JsonSchema:
        return {
            **self._type(field.type, field.constraints),
            **({} if field.default is None else {"default": field.default.value}),
            **_described(field.description),
        }

    def _type(self, expr: nodes.TypeExpr, constraints: tuple[nodes.Constraint, ...] = ()) -> JsonSchema:
        match expr:
            case nodes.Annotated(inner, own, description):
                return {**self._type(inner, own), **_described(description)}
            case nodes.Optional(inner):
                branches = self._branches(
                    inner.members if isinstance(inner, nodes.Union) else [inner], constraints
                )
                return {self._either(inner): [*branches, {"type": "null"}]}
            case nodes.Union(members):
                branches = self._branches(members, constraints)
                return {self._either(expr): branches} if len(branches) > 1 else branches[0]
        json_type = type_of(expr, self._types)
        keywords = self._unconstrained(expr)
        for constraint in constraints:
            keywords |= keywords_of(constraint, json_type) or {}
        return keywords

    def _unconstrained(self, expr: nodes.TypeExpr) -> JsonSchema:
        match expr:
            case nodes.Scalar(name):
                return dict(SCALARS[name])
            case nodes.Literal():
                return _choice([expr])
            case nodes.ListOf(item):
                return {"type": "array", "items": self._type(item)}
            case nodes.MapOf(value):
                return {"type": "object", "additionalProperties": self._type(value) or True}
            case nodes.Name(name) if name in self._types:
                return self._given(name)
            case nodes.Name(name):
                self._used[self._schemas[name].name] = None
                return {"$ref": f"#/$defs/{name}"}
        raise TypeError(f"{expr!r} is not a type")

    def _given(self, name: str) -> JsonSchema:
        given = dict(self._types[name])
        for other, definition in given.pop("$defs", {}).items():
            if self._brought.setdefault(other, definition) != definition:
                complain([Problem(f"{other} is defined twice", None)], None)
        return given

    def _branches(
        self, members: Iterable[nodes.TypeExpr], constraints: tuple[nodes.Constraint, ...]
    ) -> list[JsonSchema]:
        """The members of a union; adjacent literals become one `enum`."""
        branches: list[JsonSchema] = []
        for literals, group in groupby(members, lambda member: isinstance(member, nodes.Literal)):
            if literals:
                branches.append(_choice([member for member in group if isinstance(member, nodes.Literal)]))
            else:
                branches += [self._type(member, constraints) for member in group]
        return branches

    def _either(self, expr: nodes.TypeExpr) -> str:
        """`oneOf` for schemas with a discriminator, else `anyOf`."""
        members = [nodes.bare(member) for member in expr.members] if isinstance(expr, nodes.Union) else []
        schemas = [
            member.name
            for member in members
            if isinstance(member, nodes.Name) and member.name not in self._types
        ]
        others = [
            member for member in members if member not in (nodes.Scalar("null"), *map(nodes.Name, schemas))
        ]
        is_tagged = len(schemas) > 1 and not others and discriminator(self._schemas, schemas)
        return "oneOf" if is_tagged else "anyOf"


def _described(description: str | None) -> JsonSchema:
    return {} if description is None else {"description": description}


def _choice(literals: list[nodes.Literal]) -> JsonSchema:
    """`const` or `enum`, with the type if all values have the same."""
    values = [literal.value for literal in literals]
    kinds = set(map(json_values.type_of, values))
    choice: JsonSchema = {"const": values[0]} if len(values) == 1 else {"enum": values}
    return {**choice, "type": kinds.pop()} if len(kinds) == 1 else choice


def locate(file: nodes.File, schema: str, pointer: str) -> nodes.Position | None:
    """The position of what `pointer` leads to in `to_json_schema(file, schema)`.

    That of the constraint or the field, else of the schema around it; None if nothing parsed is there.
    """
    schemas, path = Schemas(file), steps(pointer)
    if path[:1] == ["$defs"]:
        schema, path = "".join(path[1:2]), path[2:]
    if schema not in schemas.by_name:
        return None
    if path[:1] == ["properties"]:
        for field in schemas.fields(schema):
            if [field.name] == path[1:2]:
                places = (each.at for each in field.constraints if path[-1] in keywords_named(each.name))
                return next(places, field.at)
    return schemas[schema].at
