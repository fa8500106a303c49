"""Converts the JSON Schema of a value to a type of the language."""

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

MAX_SUBSCHEMAS = 10_000
"""Subschemas that are read of one schema; one that several references lead to counts each time."""

MAX_DEPTH = 50
"""Levels of nested subschemas."""

Schema = Mapping[str, Any]

_IGNORED = frozenset(("title", "$comment"))
_ALTERNATIVES = ("anyOf", "oneOf")
_SCALAR_OF = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_OF_RECORDS = frozenset(("properties", "required"))
_MORE_KEYWORDS: Mapping[str, Iterable[str]] = {
    "array": ("items",),
    "object": ("additionalProperties", *_OF_RECORDS),
}
_KEYWORDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(_MORE_KEYWORDS.get(kind, ())).union(
        *(constraint.keywords.get(kind, ()) for constraint in KINDS.values())
    )
    for kind in (*_SCALAR_OF, "array", "object")
}
"""The keywords that the language can express, by JSON type."""


def refuse(path: str, message: str, found: Any = None, expected: str | None = None) -> NoReturn:
    """Raise `LanguageError`; `path` is the JSON Pointer to what the language cannot express."""
    raise LanguageError(message, path=path, found=found, expected=expected)


def within(path: str, *steps: str | int) -> str:
    """The JSON Pointer to a part of what is at `path`."""
    return path + pointer(steps)


def description_of(schema: Schema, path: str) -> str | None:
    """The description of the schema at `path`. Raises `LanguageError` if it is not a string."""
    description = schema.get("description")
    if not isinstance(description, str | None):
        refuse(within(path, "description"), "this is not a description", description, "a string")
    return description


def is_record(schema: Schema) -> bool:
    """Whether it is the schema of an object with properties, be they valid or not."""
    return schema.get("type") == "object" and bool(schema.get("properties"))


class Typed(NamedTuple):
    """A type with its constraints and description, which belong to the field if the type is a field's."""

    type: TypeExpr
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None

    @property
    def whole(self) -> TypeExpr:
        """The type within another one: annotated, if it has constraints or a description."""
        if not self.constraints and self.description is None:
            return self.type
        return Annotated(self.type, self.constraints, self.description)


class Types:
    """Converts types.

    `follow` resolves a reference: to the name of a schema, or to a JSON Schema and its path. `record` gives a
    name to an object with properties.
    """

    def __init__(
        self,
        follow: Callable[[str, str], str | tuple[Any, str]],
        record: Callable[[Schema, str], str],
    ) -> None:
        self._follow = follow
        self._record = record
        self._subschemas = 0
        self.exclusive: list[tuple[list[str], str]] = []
        """Names of schemas that are alternatives of a `oneOf`, and the path of that."""

    def of(self, schema: Any, path: str, depth: int = 0) -> Typed:
        """The type of the subschema at `path`. Raises `LanguageError` for what cannot be expressed."""
        self._subschemas += 1
        if self._subschemas > MAX_SUBSCHEMAS or depth > MAX_DEPTH:
            refuse(path, "the schema is too large or refers to itself")
        if schema is True:
            return Typed(Scalar("any"))
        if not isinstance(schema, Mapping):
            refuse(path, "the language cannot express this schema", schema, "an object, or true")
        description = description_of(schema, path)
        if description is None or is_record(schema):  # a record becomes a schema with its own description
            return self._of(schema, path, depth)
        bare = {key: value for key, value in schema.items() if key != "description"}
        return self._of(bare, path, depth)._replace(description=description)

    def _of(self, schema: Schema, path: str, depth: int) -> Typed:
        keywords = {key: value for key, value in schema.items() if key not in _IGNORED}
        for name, scalar in SCALARS.items():
            if keywords == scalar:
                return Typed(Scalar(name))
        if "$ref" in keywords:
            _allow_only(keywords, {"$ref"}, path)
            target = self._follow(keywords["$ref"], path)
            return Typed(Name(target)) if isinstance(target, str) else self.of(*target, depth + 1)
        if "const" in keywords or "enum" in keywords:
            return Typed(_literals(keywords, path))
        for keyword in _ALTERNATIVES:
            if keyword in keywords:
                return self._alternatives(keyword, keywords, path, depth)
        if isinstance(keywords.get("type"), list):
            return self._several_types(keywords, path, depth)
        return self._one_type(schema, keywords, path, depth)

    def _alternatives(self, keyword: str, keywords: Schema, path: str, depth: int) -> Typed:
        _allow_only(keywords, {keyword, "discriminator"}, path)
        path = within(path, keyword)
        branches = keywords[keyword]
        if not isinstance(branches, list) or not branches:
            refuse(path, "these are not alternatives", branches, "a list of schemas")
        union = _union(
            [self.of(branch, within(path, index), depth + 1) for index, branch in enumerate(branches)]
        )
        if keyword == "oneOf":
            self._check_exclusive(union.type, path)
        return union

    def _check_exclusive(self, expr: TypeExpr, path: str) -> None:
        """Refuse alternatives that a value may match two of: a union allows that, `oneOf` does not."""
        members = alternatives(expr)
        types = [json_type for member in members for json_type in _json_types(member)]
        if types.count("object") > 1:
            names = [member.name for member in members if isinstance(member, Name)]
            if len(names) == types.count("object"):
                self.exclusive.append((names, path))
                types = [*dict.fromkeys(types)]
        literals = {_broad(json_type(member.value)) for member in members if isinstance(member, Literal)}
        if len(types) != len(set(types)) or "any" in types or literals & set(types):
            refuse(path, "the alternatives of oneOf overlap", expected="anyOf, or alternatives that differ")

    def _several_types(self, keywords: Schema, path: str, depth: int) -> Typed:
        """A union of the types in a list, each with the keywords that apply to it."""
        types, rest = keywords["type"], {key: value for key, value in keywords.items() if key != "type"}
        if not types or not all(isinstance(kind, str) and kind in _KEYWORDS for kind in types):
            refuse(within(path, "type"), "these are not types", types, ", ".join(_KEYWORDS))
        _allow_only(rest, set().union(*(_KEYWORDS[kind] for kind in types)), path)
        parts = [
            {"type": kind, **{key: value for key, value in rest.items() if key in _KEYWORDS[kind]}}
            for kind in types
        ]
        return _union([self.of(part, path, depth + 1) for part in parts])

    def _one_type(self, schema: Schema, keywords: Schema, path: str, depth: int) -> Typed:
        kind = keywords.get("type")
        if not keywords:
            return Typed(Scalar("any"))
        if kind is None:
            _allow_only(keywords, set().union(*_KEYWORDS.values()), path)
            first = next(iter(keywords))
            refuse(within(path, first), "this keyword needs a type beside it", first, "a type")
        if not isinstance(kind, str) or kind not in _KEYWORDS:
            refuse(within(path, "type"), "this is not a type", kind, ", ".join(_KEYWORDS))
        if is_record(keywords):
            properties = keywords["properties"]
            if not isinstance(properties, Mapping):
                refuse(within(path, "properties"), "these are not properties", properties, "schemas by name")
            return Typed(Name(self._record(schema, path)))
        keywords = {key: value for key, value in keywords.items() if (key, value) != ("properties", {})}
        _allow_only(keywords, {"type", *_KEYWORDS[kind]} - _OF_RECORDS, path)
        constraints = _constraints(keywords, kind, path)
        if kind == "array":
            item = self.of(keywords.get("items", True), within(path, "items"), depth + 1)
            return Typed(ListOf(nullable(item.whole)), constraints)
        if kind == "object":
            values = keywords.get("additionalProperties", True)
            value = self.of(values, within(path, "additionalProperties"), depth + 1)
            return Typed(MapOf(nullable(value.whole)), constraints)
        return Typed(Scalar(_SCALAR_OF[kind]), constraints)


def _allow_only(keywords: Schema, known: Iterable[str], path: str) -> None:
    for keyword in keywords:
        if keyword not in known:
            refuse(within(path, keyword), "the language cannot express this keyword here", keyword)


def _union(branches: Iterable[Typed]) -> Typed:
    """A union of all members.

    The constraints belong to the union if each branch has all of them that can apply to it; otherwise, and if
    it has a description, a branch keeps its own.
    """
    branches = list(branches)
    pairs = [
        (member, [constraint for constraint in typed.constraints if _applies(constraint, member)])
        for typed in branches
        if typed.description is None
        for member in _members(typed.type)
    ]
    shared = sorted(
        dict.fromkeys(constraint for _, own in pairs for constraint in own),
        key=lambda constraint: ORDER[constraint.name],
    )
    holds_for_all = all(
        [constraint for constraint in shared if _applies(constraint, member)] == own for member, own in pairs
    )
    members = tuple(
        member
        for typed in branches
        for member in _members(typed.type if holds_for_all and typed.description is None else typed.whole)
    )
    constraints = tuple(shared) if holds_for_all else ()
    return Typed(members[0] if len(members) == 1 else Union(members), constraints)


def _applies(constraint: Constraint, member: TypeExpr) -> bool:
    return bool(keywords_of(constraint, type_of(member, {})))


def _members(expr: TypeExpr) -> tuple[TypeExpr, ...]:
    return expr.members if isinstance(expr, Union) else (expr,)


def _literals(keywords: Schema, path: str) -> TypeExpr:
    """The type of the values of `const` or `enum`."""
    keyword = "const" if "const" in keywords else "enum"
    _allow_only(keywords, {keyword, "type"}, path)
    values = [keywords["const"]] if keyword == "const" else keywords["enum"]
    if not isinstance(values, list) or not values:
        refuse(within(path, keyword), "these are not values", values, "a list of values")
    types = keywords.get("type", list(_KEYWORDS))
    types = types if isinstance(types, list) else [types]
    if not all(isinstance(name, str) for name in types):
        refuse(within(path, "type"), "this is not a type", types, "names of types")
    for value in values:
        if not isinstance(value, str | int | float | bool | None):
            expected = "strings, numbers, true, false, null"
            refuse(within(path, keyword), "this is not a literal", value, expected)
        if not {json_type(value), _broad(json_type(value))} & set(types):
            refuse(within(path, "type"), f"{value!r} has none of these types", types)
    members = tuple(Scalar("null") if value is None else Literal(value) for value in values)
    return members[0] if len(members) == 1 else Union(members)


def _json_types(expr: TypeExpr) -> list[str]:
    """The JSON types of the values of a type; none for literals, which are compared by their values."""
    match expr:
        case Scalar("any"):
            return ["any"]
        case Scalar(name):
            types = SCALARS[name]["type"]
            return [_broad(kind) for kind in (types if isinstance(types, list) else [types])]
        case ListOf():
            return ["array"]
        case Literal():
            return []
    return ["object"]


def _broad(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _constraints(keywords: Schema, kind: str, path: str) -> tuple[Constraint, ...]:
    constraints = []
    for name, constraint in KINDS.items():
        present = [keyword for keyword in constraint.keywords.get(kind, ()) if keyword in keywords]
        if not present:
            continue
        arguments = _arguments(name, [keywords.get(keyword) for keyword in constraint.keywords[kind]])
        if arguments is None:
            continue
        if not constraint.takes(arguments):
            found = keywords[present[0]]
            refuse(within(path, present[0]), f"@{name} cannot express this", found, constraint.example)
        constraints.append(Constraint(name, arguments))
    return tuple(constraints)


def _arguments(name: str, values: list[Any]) -> tuple[Any, ...] | None:
    """The arguments of a constraint; None where it would limit nothing."""
    if name == "unique":
        return None if values[0] is False else () if values[0] is True else (values[0],)
    if name == "from" and isinstance(values[0], list):
        return tuple(values[0])
    if name != "length":
        return tuple(values)
    least, most = (
        int(value) if isinstance(value, float) and value.is_integer() else value for value in values
    )
    least = 0 if least is None else least
    if (least, most) == (0, None):
        return None
    return (least,) if least == most else (least, most)
