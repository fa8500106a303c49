"""The constraints of the language: their names, their arguments and their keywords in JSON Schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.language.nodes import Constraint, ListOf, MapOf, Name, Scalar, TypeExpr

POLICIES = ("refuse", "strict", "mark")
"""What happens to a value that is not found in the terms it should come from."""

Keywords = dict[str, Any]
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class ConstraintKind:
    """A kind of constraint.

    `keywords` are the JSON Schema keywords of its arguments, in order, by JSON type. `takes` says whether
    arguments are valid, `holds` whether a value meets the constraint.
    """

    keywords: Mapping[str, tuple[str, ...]]
    takes: Callable[[Arguments], bool]
    example: str
    holds: Callable[[Any, Arguments], bool] = lambda value, arguments: True

    @property
    def about(self) -> str:
        """The types that it applies to, for a message."""
        return " or ".join(dict.fromkeys(_TYPES[json_type] for json_type in self.keywords))


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
    return all(isinstance(name, str) and name != "" for name in arguments)


def _of_texts(keyword: str) -> Mapping[str, tuple[str, ...]]:
    return dict.fromkeys(("string", "integer", "number", "array"), (keyword,))


def _is_said_of(argument: Mapping[str, Any]) -> bool:
    return argument.keys() == {"of"} and _one_text((argument["of"],))


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
    "quote": ConstraintKind(
        {"string": ("x-quote",)}, lambda given: given != () and _are_names(given), "@quote(text)"
    ),
    "supported": ConstraintKind(
        dict.fromkeys(("string", "integer", "number"), ("x-supported",)),
        lambda given: len(given) == 1 and isinstance(given[0], dict) and _is_said_of(given[0]),
        "@supported(of: name)",
    ),
}
"""In the order in which they are formatted."""

TAKE_BARE_WORDS = ("from", "grounding", "quote", "supported")
"""Constraints whose arguments need no quotes."""

ORDER = {name: place for place, name in enumerate(KINDS)}

_FREE_SCALARS = {"string": "string", "int": "integer", "float": "number"}


def type_of(expr: TypeExpr, types: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The JSON type whose constraints apply to a type; None where no constraint does."""
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


def keywords_of(constraint: Constraint, json_type: str | None) -> Keywords | None:
    """The JSON Schema keywords of a constraint on a JSON type; None where it does not apply."""
    kind = KINDS[constraint.name]
    if json_type is None or json_type not in kind.keywords:
        return None
    if constraint.name == "unique":
        return {"uniqueItems": True}
    if constraint.name == "supported":
        return {"x-supported": constraint.arguments[0]["of"]}
    if constraint.name in ("from", "quote"):
        first, *others = constraint.arguments
        return {f"x-{constraint.name}": [first, *others] if others else first}
    names = kind.keywords[json_type]
    given = (*constraint.arguments, *constraint.arguments)[: len(names)]
    return {name: value for name, value in zip(names, given, strict=True) if not _is_default(name, value)}


def keywords_named(name: str) -> frozenset[str]:
    """The JSON Schema keywords that a constraint of that name may become."""
    return frozenset(keyword for keywords in KINDS[name].keywords.values() for keyword in keywords)


def _is_default(keyword: str, value: Any) -> bool:
    return value is None or (value == 0 and keyword in ("minLength", "minItems", "minProperties"))
