"""The constraints of the language: what they are called, what they take, what they are in JSON Schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.language.nodes import Constraint, ListOf, MapOf, Name, Scalar, TypeExpr

POLICIES = ("refuse", "strict", "mark")
"""What becomes of a value that does not stand in the terms it is from."""

Keywords = dict[str, Any]
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class ConstraintKind:
    """A constraint as such. `keywords` are those that its arguments stand for in turn, by type of JSON."""

    keywords: Mapping[str, tuple[str, ...]]
    takes: Callable[[Arguments], bool]
    example: str
    holds: Callable[[Any, Arguments], bool] = lambda value, arguments: True

    @property
    def about(self) -> str:
        """The types that may have it, in words."""
        return " or ".join(dict.fromkeys(_TYPES[one] for one in self.keywords))


_TYPES = {
    "integer": "a number",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "a map",
    "boolean": "true or false",
    "null": "null",
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _one_number(arguments: Arguments) -> bool:
    return len(arguments) == 1 and _is_number(arguments[0])


def _of_numbers(keyword: str) -> Mapping[str, tuple[str, ...]]:
    return {"integer": (keyword,), "number": (keyword,)}


def _is_length(arguments: Arguments) -> bool:
    ends = (*arguments, *arguments)[:2]
    if len(arguments) not in (1, 2) or not isinstance(ends[0], int) or not isinstance(ends[1], int | None):
        return False
    if any(isinstance(end, bool) or (end is not None and end < 0) for end in ends):
        return False
    return ends[0] > 0 if ends[1] is None else ends[0] <= ends[1]


def _has_length(value: Any, arguments: Arguments) -> bool:
    least, most = (*arguments, *arguments)[:2]
    return len(value) >= least and (most is None or len(value) <= most)


def _one_text(arguments: Arguments) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], str) and arguments[0] != ""


def _are_names(arguments: Arguments) -> bool:
    return all(isinstance(one, str) and one != "" for one in arguments)


def _of_texts(keyword: str) -> Mapping[str, tuple[str, ...]]:
    return dict.fromkeys(("string", "integer", "number", "array"), (keyword,))


KINDS: Mapping[str, ConstraintKind] = {
    "min": ConstraintKind(
        _of_numbers("minimum"), _one_number, "@min(0)", lambda value, given: value >= given[0]
    ),
    "above": ConstraintKind(
        _of_numbers("exclusiveMinimum"), _one_number, "@above(0)", lambda value, given: value > given[0]
    ),
    "max": ConstraintKind(
        _of_numbers("maximum"), _one_number, "@max(10)", lambda value, given: value <= given[0]
    ),
    "below": ConstraintKind(
        _of_numbers("exclusiveMaximum"), _one_number, "@below(10)", lambda value, given: value < given[0]
    ),
    "multiple": ConstraintKind(
        _of_numbers("multipleOf"), lambda given: _one_number(given) and given[0] > 0, "@multiple(5)"
    ),
    "length": ConstraintKind(
        {
            "string": ("minLength", "maxLength"),
            "array": ("minItems", "maxItems"),
            "object": ("minProperties", "maxProperties"),
        },
        _is_length,
        "@length(5), @length(1, 80) or @length(1, any)",
        _has_length,
    ),
    "pattern": ConstraintKind({"string": ("pattern",)}, _one_text, '@pattern("^[a-z]+$")'),
    "format": ConstraintKind({"string": ("format",)}, _one_text, '@format("email")'),
    "unique": ConstraintKind({"array": ("uniqueItems",)}, lambda given: not given, "@unique"),
    "from": ConstraintKind(
        _of_texts("x-from"), lambda given: given != () and _are_names(given), "@from(text)"
    ),
    "grounding": ConstraintKind(
        _of_texts("x-grounding"),
        lambda given: len(given) == 1 and given[0] in POLICIES,
        " or ".join(f"@grounding({policy})" for policy in POLICIES),
    ),
}
"""In the order in which they are written."""

BY_WORDS = ("from", "grounding")
"""Constraints whose arguments are words."""

ORDER = {name: place for place, name in enumerate(KINDS)}

_FREE_SCALARS = {"string": "string", "int": "integer", "float": "number"}


def type_of(expr: TypeExpr, types: Mapping[str, Mapping[str, Any]]) -> str | None:
    """What a type is in JSON that may have constraints; None for one that has none."""
    match expr:
        case Scalar(name):
            return _FREE_SCALARS.get(name)
        case ListOf():
            return "array"
        case MapOf():
            return "object"
        case Name(name) if isinstance(given := types.get(name, {}).get("type"), str):
            return given
    return None


def keywords_of(constraint: Constraint, kind_of_json: str | None) -> Keywords | None:
    """The keywords of a constraint for a type of JSON, None where it cannot have it."""
    kind = KINDS[constraint.name]
    if kind_of_json is None or kind_of_json not in kind.keywords:
        return None
    if constraint.name == "unique":
        return {"uniqueItems": True}
    if constraint.name == "from":
        first, *others = constraint.arguments
        return {"x-from": [first, *others] if others else first}
    names = kind.keywords[kind_of_json]
    given = (*constraint.arguments, *constraint.arguments)[: len(names)]
    return {name: value for name, value in zip(names, given, strict=True) if not _says_nothing(name, value)}


def _says_nothing(keyword: str, value: Any) -> bool:
    return value is None or (value == 0 and keyword in ("minLength", "minItems", "minProperties"))


def json_type(value: Any) -> str:
    """What a value is in JSON; "" for one that is not."""
    return _JSON_TYPES.get(type(value), "")


_JSON_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
