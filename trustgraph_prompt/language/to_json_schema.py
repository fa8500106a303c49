"""Converts a parsed file to JSON Schema (2020-12), and locates a place of that schema in the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from trustgraph_prompt.json_text.pointer import steps
from trustgraph_prompt.language.constraints import keywords_of, type_of
from trustgraph_prompt.language.inheritance import Schemas, discriminator
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    File,
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    Position,
    Scalar,
    SchemaField,
    TypeExpr,
    Union,
    bare,
)
from trustgraph_prompt.language.problem import Problem, complain
from trustgraph_prompt.language.scalars import SCALARS

JsonSchema = dict[str, Any]
Types = Mapping[str, Mapping[str, Any]]

_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def to_json_schema(file: File, of: TypeExpr | str, *, types: Types | None = None) -> JsonSchema:
    """The JSON Schema of a type, or of the schema of that name, in a file that `parse` has read.

    A schema stands at the root itself, with its name as the title; the others that are used are in `$defs`
    under their names, the root too where something refers to it. `types` are those beside
    the language's own, as in `parse`; what they have in `$defs` comes along.

    Raises `LanguageError` for a name that nothing has, and for two definitions of one name.
    """
    return _Writer(file, types or {}).root(Name(of) if isinstance(of, str) else of)


class _Writer:
    """Writes one JSON Schema; `used` are the schemas that something refers to."""

    def __init__(self, file: File, types: Types) -> None:
        self._schemas = Schemas(file)
        self._types = types
        self._used: dict[str, None] = {}
        self._brought: dict[str, Any] = {}

    def root(self, expr: TypeExpr) -> JsonSchema:
        """The whole, with its definitions."""
        if isinstance(expr, Name) and expr.name not in self._types:
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

    def _field(self, field: SchemaField) -> JsonSchema:
        return {
            **self._type(field.type, field.constraints),
            **({} if field.default is None else {"default": field.default.value}),
            **_described(field.description),
        }

    def _type(self, expr: TypeExpr, constraints: tuple[Constraint, ...] = ()) -> JsonSchema:
        match expr:
            case Annotated(inner, own, description):
                return {**self._type(inner, own), **_described(description)}
            case Optional(inner):
                branches = self._branches(inner.members if isinstance(inner, Union) else [inner], constraints)
                return {self._either(inner): [*branches, {"type": "null"}]}
            case Union(members):
                branches = self._branches(members, constraints)
                return {self._either(expr): branches} if len(branches) > 1 else branches[0]
        json_type = type_of(expr, self._types)
        said = self._plain(expr)
        for constraint in constraints:
            said |= keywords_of(constraint, json_type) or {}
        return said

    def _plain(self, expr: TypeExpr) -> JsonSchema:
        match expr:
            case Scalar(name):
                return dict(SCALARS[name])
            case Literal():
                return _choice([expr])
            case ListOf(item):
                return {"type": "array", "items": self._type(item)}
            case MapOf(value):
                return {"type": "object", "additionalProperties": self._type(value) or True}
            case Name(name) if name in self._types:
                return self._given(name)
            case Name(name):
                self._used[self._schemas[name].name] = None
                return {"$ref": f"#/$defs/{name}"}
        raise TypeError(f"{expr!r} is no type")

    def _given(self, name: str) -> JsonSchema:
        given = dict(self._types[name])
        for other, definition in given.pop("$defs", {}).items():
            if self._brought.setdefault(other, definition) != definition:
                complain([Problem(f"{other} is defined twice", None)], None)
        return given

    def _branches(self, members: Iterable[TypeExpr], constraints: tuple[Constraint, ...]) -> list[JsonSchema]:
        """The members of a union; literals that stand side by side are one choice."""
        branches: list[JsonSchema] = []
        for literals, group in groupby(members, lambda member: isinstance(member, Literal)):
            if literals:
                branches.append(_choice([one for one in group if isinstance(one, Literal)]))
            else:
                branches += [self._type(member, constraints) for member in group]
        return branches

    def _either(self, expr: TypeExpr) -> str:
        """`oneOf` for schemas that a literal field tells apart, else `anyOf`."""
        members = [bare(one) for one in expr.members] if isinstance(expr, Union) else []
        schemas = [one.name for one in members if isinstance(one, Name) and one.name not in self._types]
        others = [one for one in members if one not in (Scalar("null"), *map(Name, schemas))]
        return (
            "oneOf" if len(schemas) > 1 and not others and discriminator(self._schemas, schemas) else "anyOf"
        )


def _described(description: str | None) -> JsonSchema:
    return {} if description is None else {"description": description}


def _choice(literals: list[Literal]) -> JsonSchema:
    """One value or several, with their type where all have the same."""
    values = [literal.value for literal in literals]
    kinds = {type(value) for value in values}
    said: JsonSchema = {"const": values[0]} if len(values) == 1 else {"enum": values}
    return {**said, "type": _JSON_TYPES[kinds.pop()]} if len(kinds) == 1 else said


def locate(file: File, schema: str, pointer: str) -> Position | None:
    """The place of a field, or of its constraint, by a pointer into `to_json_schema(file, schema)`; else that
    of the schema that the pointer leads into, None where it leads to nothing that was read."""
    schemas, path = Schemas(file), steps(pointer)
    if path[:1] == ["$defs"]:
        schema, path = "".join(path[1:2]), path[2:]
    if schema not in schemas.by_name:
        return None
    if path[:1] == ["properties"]:
        for field in schemas.fields(schema):
            if [field.name] == path[1:2]:
                named = (one.at for one in field.constraints if one.name == path[-1])
                return next(named, field.at)
    return schemas[schema].at
