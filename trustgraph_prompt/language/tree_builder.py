"""Parses a text with lark and builds its nodes.

`parse` imports this file, which loads lark, only when a text is parsed: most programs never do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

from lark import Lark, Token, Transformer_NonRecursive, UnexpectedInput, v_args

from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.language import nodes
from trustgraph_prompt.language.constraints import ORDER
from trustgraph_prompt.language.indentation import MAX_NESTING, Indentation, place
from trustgraph_prompt.language.nodes import File, Position, TypeExpr, nullable
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.scalars import SCALARS
from trustgraph_prompt.language.syntax_errors import describe_unexpected
from trustgraph_prompt.language.write import unquote

_JSON_LITERALS = {"true": True, "false": False, "null": None}

Part = TypeVar("Part")


class _PlacedValue(NamedTuple):
    """A JSON value, its position, and the positions of its parts by JSON Pointer."""

    value: Any
    at: Position
    parts: dict[str, Position]


class _Text(NamedTuple):
    """A description, the text of a prompt or a system message."""

    text: str
    at: Position


class _Pair(NamedTuple):
    """A key and its value, in an object or on a line of its own."""

    key: str
    at: Position
    value: _PlacedValue


class _Model(NamedTuple):
    name: str
    at: Position


class _Expecting(NamedTuple):
    type: TypeExpr
    layout: Literal["json", "jsonl"]
    at: Position


@v_args(inline=True)
class TreeBuilder(Transformer_NonRecursive[Token, Any]):
    """Builds one file. What is invalid is added to `problems`, and replaced by something harmless."""

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)
        self.problems: list[Problem] = []

    def start(self, *statements: Any) -> nodes.File:
        systems = _all(statements, _Text)
        for again in systems[1:]:
            self._wrong("duplicate system message", again.at)
        return nodes.File(
            tuple(_all(statements, nodes.SchemaDef)),
            tuple(_all(statements, nodes.PromptDef)),
            systems[0].text if systems else None,
            systems[0].at if systems else None,
        )

    def text(self, text: Token) -> _Text:
        return _Text(self._unquoted(text), place(text))

    system = about = text

    # ---- schemas

    def schema(
        self, name: Token, bases: tuple[nodes.Name, ...], closed: Token | None, body: tuple[Any, ...]
    ) -> nodes.SchemaDef:
        about = next(iter(_all(body, _Text)), None)
        fields = tuple(_all(body, nodes.SchemaField))
        if not fields and not bases:
            expected = "a field, as in: title: string"
            self._wrong(f"the schema {name} has no fields", place(name), "nothing", expected)
        description = None if about is None else about.text
        return nodes.SchemaDef(str(name), fields, bases, description, closed is not None, at=place(name))

    def bases(self, *names: Token | None) -> tuple[nodes.Name, ...]:
        return tuple(nodes.Name(str(name), at=place(name)) for name in names if name is not None)

    def body(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def field(self, name: Token, missing: Token | None, type: TypeExpr, *rest: Any) -> nodes.SchemaField:
        annotated = self.annotated(self._limit_depth(type), *rest)
        if not isinstance(annotated, nodes.Annotated):
            annotated = nodes.Annotated(annotated)
        return nodes.SchemaField(
            self._name(name),
            annotated.type,
            annotated.constraints,
            next(iter(_all(rest, nodes.Default)), None),
            annotated.description,
            missing is not None,
            at=place(name),
        )

    def default(self, value: _PlacedValue) -> nodes.Default:
        return nodes.Default(value.value, at=value.at)

    def constraint(self, name: Token, *arguments: _PlacedValue | None) -> nodes.Constraint:
        values = [argument.value for argument in arguments if argument is not None]
        if name == "@length":
            values = [None if value == "any" else value for value in values]
            values = values[:1] if values[1:] == values[:1] else values
        return nodes.Constraint(str(name)[1:], tuple(values), at=place(name))

    def named_argument(self, name: Token, value: _PlacedValue) -> _PlacedValue:
        return _PlacedValue({str(name): value.value}, place(name), {})

    # ---- types

    def named(self, name: Token) -> TypeExpr:
        at = place(name)
        if name in ("true", "false"):
            return nodes.Literal(name == "true", at=at)
        return nodes.Scalar(str(name), at=at) if name in SCALARS else nodes.Name(str(name), at=at)

    def annotated(self, type: TypeExpr, *rest: Any) -> TypeExpr:
        constraints = _all(rest, nodes.Constraint)
        token = next((part for part in rest if isinstance(part, Token)), None)
        if token is None and not constraints:
            return type
        description = None if token is None else self._unquoted(token)
        if isinstance(type, nodes.Annotated):  # brackets within brackets
            if token is not None and type.description is not None:
                self._wrong("duplicate description", place(token))
            constraints = [*type.constraints, *constraints]
            description = type.description if token is None else description
            type = type.type
        in_order = sorted(constraints, key=lambda constraint: ORDER.get(constraint.name, len(ORDER)))
        return nodes.Annotated(type, tuple(in_order), description, at=type.at)

    def bracketed(self, name: Token, item: TypeExpr | None) -> TypeExpr:
        at = place(name)
        if item is None:
            return nodes.ListOf(self.named(name), at=at)
        if name == "map":
            return nodes.MapOf(nullable(item), at=at)
        if name != "list":
            self._wrong("only list and map take a type in brackets", at, f"{name}[…]", "list[…] or map[…]")
        return nodes.ListOf(nullable(item), at=at)

    def many(self, item: TypeExpr) -> TypeExpr:
        return nodes.ListOf(nullable(item), at=item.at)

    def optional(self, type: TypeExpr) -> TypeExpr:
        return nodes.Optional(type, at=type.at)

    def union(self, *members: TypeExpr) -> TypeExpr:
        flat: list[TypeExpr] = []
        for member in members:
            flat += member.members if isinstance(member, nodes.Union) else (member,)
        return nodes.Union(tuple(flat), at=members[0].at)

    def literal(self, token: Token) -> TypeExpr:
        return nodes.Literal(self._scalar(token), at=place(token))

    # ---- prompts

    def prompt(self, name: Token, *parts: Any) -> nodes.PromptDef:
        pairs = _all(parts, _Pair)
        texts = _all(parts, _Text) + [self._text_of(pair) for pair in pairs if pair.key == "text"]
        text = self._at_most_one(texts, "the text")
        model = self._at_most_one(_all(parts, _Model), "the model")
        expecting = self._at_most_one(_all(parts, _Expecting), "the expected type")
        settings = self._settings([pair for pair in pairs if pair.key != "text"])
        return nodes.PromptDef(
            self._name(name),
            "" if text is None else text.text,
            None if model is None else model.name,
            None if expecting is None else expecting.type,
            "json" if expecting is None else expecting.layout,
            settings.value,
            self._at_most_one(_all(parts, nodes.EscalationCondition), "the escalation condition"),
            tuple(_all(parts, nodes.ExampleDef)),
            settings.parts if text is None else {"/text": text.at, **settings.parts},
            None if model is None else model.at,
            at=place(name),
        )

    def model(self, name: Token) -> _Model:
        return _Model(self._unquoted(name), place(name))

    def expecting(self, type: TypeExpr, layout: Token | None) -> _Expecting:
        return _Expecting(
            nullable(self._limit_depth(type)), "jsonl" if layout == "jsonl" else "json", type.at or _START
        )

    def setting(self, key: Token, value: _PlacedValue) -> _Pair:
        return _Pair(self._name(key), place(key), value)

    pair = setting

    def escalation(self, operator: Token, value: Token) -> nodes.EscalationCondition:
        return nodes.EscalationCondition(operator.value, self._unquoted(value), at=place(operator))

    def example(self, word: Token, name: Token | None, *settings: _Pair) -> nodes.ExampleDef:
        values = self._settings(settings)
        title = None if name is None else self._unquoted(name)
        return nodes.ExampleDef(title, values.value, values.parts, at=place(word))

    # ---- values

    def scalar(self, token: Token) -> _PlacedValue:
        return _PlacedValue(self._scalar(token), place(token), {})

    def array(self, bracket: Token, *items: _PlacedValue | None) -> _PlacedValue:
        parts: dict[str, Position] = {}
        values = [item for item in items if item is not None]
        for index, item in enumerate(values):
            parts |= _within(str(index), item)
        return _PlacedValue([item.value for item in values], place(bracket), parts)

    def object(self, brace: Token, *pairs: _Pair | None) -> _PlacedValue:
        return self._settings([pair for pair in pairs if pair is not None])._replace(at=place(brace))

    # ---- parts

    def _limit_depth(self, expr: TypeExpr) -> TypeExpr:
        """The type, or `any` for one that is nested too deeply to be walked recursively."""
        level, depth = [expr], 0
        while level:
            level, depth = [part for type in level for part in type.parts], depth + 1
            if depth > MAX_NESTING:
                at = expr.at or _START
                self._wrong("the type is nested too deeply", at, "more", f"at most {MAX_NESTING} levels")
                return nodes.Scalar("any", at=at)
        return expr

    def _settings(self, pairs: Iterable[_Pair]) -> _PlacedValue:
        values: dict[str, Any] = {}
        parts: dict[str, Position] = {}
        for key, at, value in pairs:
            if key in values:
                self._wrong(f"duplicate key {key}", at)
            values[key] = value.value
            parts |= _within(key, value)
        return _PlacedValue(values, _START, parts)

    def _text_of(self, pair: _Pair) -> _Text:
        text = pair.value.value
        if not isinstance(text, str):
            self._wrong("the text of a prompt must be a string", pair.value.at, text, "quotes around it")
            text = str(text)
        return _Text(text, pair.value.at)

    def _at_most_one(self, found: list[Part], what: str) -> Part | None:
        for again in found[1:]:
            self._wrong(f"{what} is given twice", getattr(again, "at", _START))
        return found[0] if found else None

    def _scalar(self, token: Token) -> Any:
        if token.type in ("STRING", "TEXT"):
            return self._unquoted(token)
        if token.type == "NUMBER":
            return self._number(token)
        return _JSON_LITERALS.get(str(token), str(token))

    def _name(self, token: Token) -> str:
        return self._unquoted(token) if token.type == "STRING" else str(token)

    def _unquoted(self, token: Token) -> str:
        try:
            return unquote(token)
        except ValueError as error:
            self._wrong(str(error), place(token))
            return ""

    def _number(self, token: Token) -> int | float:
        is_integer = not set(token) & set(".eE")
        try:
            number = int(token) if is_integer else float(token)
        except ValueError:  # int() refuses thousands of digits
            number = math.inf
        if abs(number) == math.inf:
            self._wrong("the number is too large", place(token))
            return 0
        return number

    def _wrong(self, message: str, at: Position, found: Any = None, expected: str | None = None) -> None:
        self.problems.append(Problem(message, at, found, expected))


_START = Position(1, 1)


def _all(parts: Iterable[Any], kind: type[Part]) -> list[Part]:
    return [part for part in parts if isinstance(part, kind)]


def _within(step: str, value: _PlacedValue) -> dict[str, Position]:
    """The positions of a value and its parts, by JSON Pointers from the value that contains it."""
    prefix = pointer([step])
    return {prefix: value.at, **{prefix + path: at for path, at in value.parts.items()}}


def read_tree(source: str) -> tuple[File, list[Problem]]:
    """The tree of a text, and its problems. Raises `Problem` at a syntax error."""
    try:
        tree = _lark().parse(source)
    except UnexpectedInput as error:
        raise describe_unexpected(error, source) from None
    builder = TreeBuilder()
    return builder.transform(tree), builder.problems


@cache
def _lark() -> Lark:
    return Lark.open(
        "grammar.lark", rel_to=__file__, parser="lalr", postlex=Indentation(), maybe_placeholders=True
    )
