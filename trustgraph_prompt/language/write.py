"""How types, constraints, values and texts are written in the language, and what a quoted text says."""

from __future__ import annotations

import json
import re
from os.path import commonprefix
from typing import Any

from trustgraph_prompt.language import nodes
from trustgraph_prompt.language.constraints import TAKE_BARE_WORDS

NAME = re.compile(r"[^\W\d][\w-]*")
"""A name that needs no quotes."""

TRIPLE_QUOTES = ('"""', "'''")

QUOTED = r'"""(?s:.)*?"""' r"|'''(?s:.)*?'''" r'|"(?:[^"\\\n]++|\\.)*+"' r"|'(?:[^'\\\n]++|\\.)*+'"
"""A quoted text in a source, as a regular expression."""

_JSON_LITERALS = ("true", "false", "null")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}


def spell_type(expr: nodes.TypeExpr) -> str:
    """A type, on one line."""
    match expr:
        case nodes.Scalar(name) | nodes.Name(name):
            return name
        case nodes.Literal(value):
            return spell_value(value)
        case nodes.ListOf(item):
            return f"{_in_brackets(item)}[]"
        case nodes.MapOf(value):
            return f"map[{_annotated(value) if isinstance(value, nodes.Annotated) else spell_type(value)}]"
        case nodes.Optional(inner):
            return f"{_in_brackets(inner)}?"
        case nodes.Union(members):
            return " | ".join(map(spell_type, members))
        case nodes.Annotated():
            return f"({_annotated(expr)})"
    raise TypeError(f"{expr!r} is not a type")


def _in_brackets(expr: nodes.TypeExpr) -> str:
    """A type before `[]` or `?`: a union needs brackets there."""
    text = spell_type(expr)
    return f"({text})" if isinstance(expr, nodes.Union) else text


def _annotated(expr: nodes.Annotated) -> str:
    parts = [spell_type(expr.type), *map(spell_constraint, expr.constraints)]
    return " ".join(parts if expr.description is None else [*parts, spell_value(expr.description)])


def spell_constraint(constraint: nodes.Constraint) -> str:
    """A constraint with its arguments."""

    def argument(value: Any) -> str:
        if value is None:
            return "any"
        if isinstance(value, dict):
            return ", ".join(f"{spell_key(name)}: {argument(each)}" for name, each in value.items())
        takes_words = constraint.name in TAKE_BARE_WORDS
        is_bare = (
            takes_words and isinstance(value, str) and NAME.fullmatch(value) and value not in _JSON_LITERALS
        )
        return str(value) if is_bare else spell_value(value)

    arguments = ", ".join(map(argument, constraint.arguments))
    return f"@{constraint.name}({arguments})" if arguments else f"@{constraint.name}"


def spell_field(field: nodes.SchemaField) -> str:
    """A field, on one line."""
    name = spell_key(field.name) + ("?" if field.may_be_missing else "")
    parts = [f"{name}: {spell_type(field.type)}", *map(spell_constraint, field.constraints)]
    if field.default is not None:
        parts.append(f"= {spell_value(field.default.value)}")
    if field.description is not None:
        parts.append(f" {spell_value(field.description)}")
    return " ".join(parts)


def spell_value(value: Any) -> str:
    """A JSON value, on one line; the keys of objects are bare where possible."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{spell_key(key)}: {spell_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(spell_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def spell_key(name: str) -> str:
    """The name of a field or a key, in quotes where it cannot be bare."""
    return name if NAME.fullmatch(name) else spell_value(name)


def unquote(token: str) -> str:
    """The text that a quoted token says. Raises `ValueError`, whose message is for an author."""
    if token.startswith(TRIPLE_QUOTES):
        return dedent_block(token[3:-3])
    text = _ESCAPE.sub(_unescape, token[1:-1])
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("unpaired surrogate: \\ud800 to \\udfff must come in pairs") from None


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code not in _ESCAPES:
        raise ValueError(f"unknown escape \\{code}; a backslash is written \\\\")
    return _ESCAPES[code]


def dedent_block(inside: str) -> str:
    """The text between triple quotes.

    Without the line break after the opening quotes, the common indentation, and white space in empty lines
    and before the closing quotes.
    """
    lines = inside.removeprefix("\n").split("\n")
    lines = [line if line.strip(" \t") else "" for line in lines]
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line]
    margin = len(commonprefix(indents))  # noqa: RUF071
    return "\n".join(line[margin:] for line in lines)
