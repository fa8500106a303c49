"""The type of a field, from the JSON Schema of its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.language.constraints import KINDS, ORDER, json_type, keywords_of, type_of
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    ListOf,
    Literal,
    MapOf,
    Name,
    Scalar,
    TypeExpr,
    Union,
    alternatives,
    nullable,
)
from trustgraph_prompt.language.scalars import SCALARS


def refuse(path: str, message: str, found: Any = None, expected: str | None = None) -> NoReturn:
    """Raise `LanguageError`; `path` is the JSON Pointer of what cannot be said."""
    raise LanguageError(message, path=path, found=found, expected=expected)


def description_of(schema: Mapping[str, Any], path: str) -> str | None:
    """What a schema at `path` says of itself. Raises `LanguageError` for what is no text."""
    said = schema.get("description")
    if not isinstance(said, str | None):
        refuse(within(path, "description"), "this is not a description", said, "a string")
    return said


def within(path: str, *steps: str | int) -> str:
    """The JSON Pointer of a part of what stands at `path`."""
    return path + pointer(steps)


MAX_STEPS = 10_000
"""Subschemas that are read of one schema: where several references lead to one, it counts for each."""

MAX_DEPTH = 50
"""How deep they may be nested."""

Schema = Mapping[str, Any]

_NOT_SAID = frozenset(("title", "$comment"))
_ALTERNATIVES = ("anyOf", "oneOf")
_PLAIN = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}


class Typed(NamedTuple):
    """A type, and what a field of it says: that, or `whole` within another type, is the schema."""

    type: TypeExpr
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None

    @property
    def whole(self) -> TypeExpr:
        """The type with all that is said of it."""
        if not self.constraints and self.description is None:
            return self.type
        return Annotated(self.type, self.constraints, self.description)


class Types:
    """Reads types. `follow` says what a reference leads to: the name of a schema, or a JSON Schema and where
    that is; `record` gives a name to an object with fields."""

    def __init__(
        self,
        follow: Callable[[str, str], str | tuple[Any, str]],
        record: Callable[[Schema, str], str],
    ) -> None:
        self._follow = follow
        self._record = record
        self._steps = 0
        self.exclusive: list[tuple[list[str], str]] = []
        """Schemas that `oneOf` says no value to be two of, and where."""

    def of(self, schema: Any, path: str, depth: int = 0) -> Typed:
        """The type of a subschema at `path`. Raises `LanguageError` for what has no word."""
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            refuse(path, "the schema is too large or refers to itself")
        if schema is True:
            return Typed(Scalar("any"))
        if not isinstance(schema, Mapping):
            refuse(path, "the language cannot express this schema", schema, "an object, or true")
        description = description_of(schema, path)
        if description is None or _is_record(schema):  # which is a schema with a description of its own
            return self._of(schema, path, depth)
        bare = {key: value for key, value in schema.items() if key != "description"}
        return self._of(bare, path, depth)._replace(description=description)

    def _of(self, schema: Schema, path: str, depth: int) -> Typed:
        said = {key: value for key, value in schema.items() if key not in _NOT_SAID}
        for name, scalar in SCALARS.items():
            if said == scalar:
                return Typed(Scalar(name))
        if "$ref" in said:
            return self._reference(said, path, depth)
        if "const" in said or "enum" in said:
            return Typed(_choice(said, path))
        for keyword in _ALTERNATIVES:
            if keyword in said:
                return self._alternatives(keyword, said, path, depth)
        if isinstance(said.get("type"), list):
            return self._several(said, path, depth)
        return self._one(schema, path, depth)

    def _reference(self, said: Schema, path: str, depth: int) -> Typed:
        _only(said, {"$ref"}, path)
        target = self._follow(said["$ref"], path)
        if isinstance(target, str):
            return Typed(Name(target))
        return self.of(*target, depth + 1)

    def _alternatives(self, keyword: str, said: Schema, path: str, depth: int) -> Typed:
        _only(said, {keyword, "discriminator"}, path)
        path = within(path, keyword)
        branches = said[keyword]
        if not isinstance(branches, list) or not branches:
            refuse(path, "these are not alternatives", branches, "a list of schemas")
        typed = [self.of(branch, within(path, index), depth + 1) for index, branch in enumerate(branches)]
        made = _union(typed)
        if keyword == "oneOf":
            self._check_exclusive(made.type, path)
        return made

    def _check_exclusive(self, expr: TypeExpr, path: str) -> None:
        """That no value is of two members: a union of the language lets it pass, and `oneOf` does not."""
        members = alternatives(expr)
        types = [one for member in members for one in _types_of(member)]
        if types.count("object") > 1:
            names = [member.name for member in members if isinstance(member, Name)]
            if len(names) == types.count("object"):
                self.exclusive.append((names, path))
                types = [*dict.fromkeys(types)]
        literals = {_broad(json_type(one.value)) for one in members if isinstance(one, Literal)}
        if len(types) != len(set(types)) or "any" in types or literals & set(types):
            refuse(path, "the alternatives of oneOf overlap", expected="anyOf, or alternatives that differ")

    def _several(self, said: Schema, path: str, depth: int) -> Typed:
        """A list of types, each with what is said about it."""
        types, rest = said["type"], {key: value for key, value in said.items() if key != "type"}
        if not types or not all(isinstance(one, str) and one in _KEYWORDS for one in types):
            refuse(within(path, "type"), "these are not types", types, ", ".join(_KEYWORDS))
        _only(rest, {keyword for one in types for keyword in _KEYWORDS[one]}, path)
        parts = [
            {"type": one, **{key: value for key, value in rest.items() if key in _KEYWORDS[one]}}
            for one in types
        ]
        return _union([self.of(part, path, depth + 1) for part in parts])

    def _one(self, schema: Schema, path: str, depth: int) -> Typed:
        said = {key: value for key, value in schema.items() if key not in _NOT_SAID}
        kind = said.get("type")
        if not said:
            return Typed(Scalar("any"))
        if kind is None:
            _only(said, set().union(*_KEYWORDS.values()), path)
            first = next(iter(said))
            refuse(within(path, first), "this keyword needs a type beside it", first, "a type")
        if not isinstance(kind, str) or kind not in _KEYWORDS:
            refuse(within(path, "type"), "this is not a type", kind, ", ".join(_KEYWORDS))
        if _is_record(said):
            if not isinstance(said["properties"], Mapping):
                refuse(
                    within(path, "properties"),
                    "these are not properties",
                    said["properties"],
                    "schemas by name",
                )
            return Typed(Name(self._record(schema, path)))
        said = {key: value for key, value in said.items() if (key, value) != ("properties", {})}
        _only(said, {"type", *_KEYWORDS[kind]} - _OF_RECORDS, path)
        constraints = _constraints(said, kind, path)
        if kind == "array":
            item = self.of(said.get("items", True), within(path, "items"), depth + 1)
            return Typed(ListOf(nullable(item.whole)), constraints)
        if kind == "object":
            values = said.get("additionalProperties", True)
            value = self.of(values, within(path, "additionalProperties"), depth + 1)
            return Typed(MapOf(nullable(value.whole)), constraints)
        return Typed(Scalar(_PLAIN[kind]), constraints)


def _is_record(schema: Schema) -> bool:
    return schema.get("type") == "object" and bool(schema.get("properties"))


_OF_RECORDS = frozenset(("properties", "required"))
_KEYWORDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(
        (
            *more,
            *(key for constraint in KINDS.values() for key in constraint.keywords.get(kind, ())),
        )
    )
    for kind, more in (
        ("string", ()),
        ("integer", ()),
        ("number", ()),
        ("boolean", ()),
        ("null", ()),
        ("array", ("items",)),
        ("object", ("additionalProperties", *_OF_RECORDS)),
    )
}
"""What the language can say about each type."""


def _only(said: Schema, known: Iterable[str], path: str) -> None:
    for keyword in said:
        if keyword not in known:
            refuse(within(path, keyword), "the language cannot express this keyword here", keyword)


def _union(branches: Iterable[Typed]) -> Typed:
    """A union of all members, with the constraints of all if each has those of the others that it can have;
    else, and if it is described, each says its own."""
    branches = list(branches)
    pairs = [
        (member, [one for one in typed.constraints if keywords_of(one, type_of(member, {}))])
        for typed in branches
        if typed.description is None
        for member in _members(typed.type)
    ]
    together = sorted(dict.fromkeys(one for _, own in pairs for one in own), key=lambda one: ORDER[one.name])
    holds_for_all = all(
        [one for one in together if keywords_of(one, type_of(member, {}))] == own for member, own in pairs
    )
    members = tuple(
        member
        for typed in branches
        for member in _members(typed.type if holds_for_all and typed.description is None else typed.whole)
    )
    return Typed(
        members[0] if len(members) == 1 else Union(members), tuple(together) if holds_for_all else ()
    )


def _members(expr: TypeExpr) -> tuple[TypeExpr, ...]:
    return expr.members if isinstance(expr, Union) else (expr,)


def _choice(said: Schema, path: str) -> TypeExpr:
    keyword = "const" if "const" in said else "enum"
    _only(said, {keyword, "type"}, path)
    values = [said["const"]] if keyword == "const" else said["enum"]
    if not isinstance(values, list) or not values:
        refuse(within(path, keyword), "these are not values", values, "a list of some")
    types = said.get("type", list(_KEYWORDS))
    types = types if isinstance(types, list) else [types]
    for value in values:
        if not isinstance(value, str | int | float | bool | None):
            refuse(
                within(path, keyword),
                "this is not a literal",
                value,
                "strings, numbers, true, false, null",
            )
        if not {json_type(value), _broad(json_type(value))} & set(
            types if isinstance(types, list) else [types]
        ):
            refuse(within(path, "type"), f"{value!r} has none of these types", types)
    members = tuple(Scalar("null") if value is None else Literal(value) for value in values)
    return members[0] if len(members) == 1 else Union(members)


def _types_of(expr: TypeExpr) -> list[str]:
    """The types of JSON that values of a type have, but for literals."""
    match expr:
        case Scalar("any"):
            return ["any"]
        case Scalar(name):
            types = SCALARS[name]["type"]
            return [_broad(one) for one in (types if isinstance(types, list) else [types])]
        case ListOf():
            return ["array"]
        case Literal():
            return []
    return ["object"]


def _broad(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _constraints(said: Schema, kind: str, path: str) -> tuple[Constraint, ...]:
    made = []
    for name, constraint in KINDS.items():
        keywords = [one for one in constraint.keywords.get(kind, ()) if one in said]
        if not keywords:
            continue
        arguments = _arguments(name, [said.get(one) for one in constraint.keywords[kind]])
        if arguments is None:
            continue
        if not constraint.takes(arguments):
            found = said[keywords[0]]
            refuse(within(path, keywords[0]), f"@{name} cannot express this", found, constraint.example)
        made.append(Constraint(name, arguments))
    return tuple(made)


def _arguments(name: str, values: list[Any]) -> tuple[Any, ...] | None:
    """The arguments of a constraint; None where it says nothing."""
    if name == "unique":
        return None if values[0] is False else () if values[0] is True else (values[0],)
    if name == "from" and isinstance(values[0], list):
        return tuple(values[0])
    if name != "length":
        return tuple(values)
    least, most = (int(one) if isinstance(one, float) and one.is_integer() else one for one in values)
    least = 0 if least is None else least
    if (least, most) == (0, None):
        return None
    return (least,) if least == most else (least, most)
