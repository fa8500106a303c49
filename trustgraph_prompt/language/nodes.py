"""The syntax tree of the schema language. Positions do not count when nodes are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from typing import Literal as OneOf

__all__ = [
    "Annotated",
    "Constraint",
    "Default",
    "EscalationCondition",
    "ExampleDef",
    "File",
    "ListOf",
    "Literal",
    "MapOf",
    "Name",
    "Node",
    "Optional",
    "Position",
    "PromptDef",
    "Scalar",
    "SchemaDef",
    "SchemaField",
    "TypeExpr",
    "Union",
]


class Position(NamedTuple):
    """A place in a text; the first character has line 1 and column 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Node:
    """A part of a file; `at` is its position, None for a node that was not parsed."""

    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class TypeExpr(Node):
    """A type: one of the kinds below."""

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        """The types that it consists of."""
        match self:
            case Union(members):
                return members
            case ListOf(inner) | MapOf(inner) | Optional(inner) | Annotated(inner):
                return (inner,)
        return ()


@dataclass(frozen=True)
class Scalar(TypeExpr):
    """A built-in type: string, int, float, bool, any, null, bytes, date, time, datetime, uuid,
    decimal."""

    name: str


@dataclass(frozen=True)
class Name(TypeExpr):
    """A schema of the file, or a further type that the caller supplies."""

    name: str


@dataclass(frozen=True)
class ListOf(TypeExpr):
    """`T[]` or `list[T]`."""

    item: TypeExpr


@dataclass(frozen=True)
class MapOf(TypeExpr):
    """`map[T]`: an object with any keys."""

    value: TypeExpr


@dataclass(frozen=True)
class Optional(TypeExpr):
    """`T?`: T or null. A field of this type may also be missing."""

    type: TypeExpr


@dataclass(frozen=True)
class Literal(TypeExpr):
    """A single value: a string, a number, true or false. (null is a `Scalar`.)"""

    value: str | int | float | bool

    @property
    def as_json(self) -> tuple[bool, str | int | float]:
        """A key that compares as JSON does: 1 equals 1.0, but not true."""
        return isinstance(self.value, bool), self.value


@dataclass(frozen=True)
class Union(TypeExpr):
    """`A | B`: at least two members, none of them a union; null is a member only in the type of a field."""

    members: tuple[TypeExpr, ...]


@dataclass(frozen=True)
class Annotated(TypeExpr):
    """`(T @constraints "description")`: a type within another, with constraints or a description of its own.

    Those of a field's type belong to the field.
    """

    type: TypeExpr
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None


def bare(expr: TypeExpr) -> TypeExpr:
    """A type without its constraints and description."""
    return bare(expr.type) if isinstance(expr, Annotated) else expr


def alternatives(expr: TypeExpr) -> tuple[TypeExpr, ...]:
    """The members of a union, or the type itself, without constraints and descriptions."""
    expr = bare(expr)
    if not isinstance(expr, Union):
        return (expr,)
    return tuple(bare_member for member in expr.members for bare_member in alternatives(member))


def nullable(expr: TypeExpr) -> TypeExpr:
    """`A | null` as `A?`, which means the same except for a field; any other type unchanged."""
    if isinstance(expr, Annotated):
        return replace(expr, type=nullable(expr.type))
    null = Scalar("null")
    if not isinstance(expr, Union) or expr.members.count(null) != 1:
        return expr
    others = tuple(member for member in expr.members if member != null)
    return Optional(others[0] if len(others) == 1 else Union(others, at=expr.at), at=expr.at)


@dataclass(frozen=True)
class Constraint(Node):
    """`@name(arguments)`. In `@length(1, any)` the upper bound is None."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Default(Node):
    """`= value`, any JSON."""

    value: Any


@dataclass(frozen=True)
class SchemaField(Node):
    """`name: type @constraints = default "description"`; with a default or a type `T?` it is not required.

    `name?: type` may be missing, but not null; it has no default, and its type is not a `T?`.
    """

    name: str
    type: TypeExpr
    constraints: tuple[Constraint, ...] = ()
    default: Default | None = None
    description: str | None = None
    may_be_missing: bool = False

    @property
    def is_required(self) -> bool:
        """Whether an object without the field is invalid."""
        return not (self.may_be_missing or self.default is not None or isinstance(self.type, Optional))


@dataclass(frozen=True)
class SchemaDef(Node):
    """`schema name extends bases closed:` with the fields that it adds to those of its bases, or replaces.

    Objects of a `closed` schema have no other keys. A schema that extends a closed one is not closed itself.
    """

    name: str
    fields: tuple[SchemaField, ...]
    bases: tuple[Name, ...] = ()
    description: str | None = None
    closed: bool = False


@dataclass(frozen=True)
class EscalationCondition(Node):
    """`escalate if op "value"`; `~` ignores case, white space, punctuation and markdown."""

    op: OneOf["~", "==", "!=", "contains"]
    value: str


@dataclass(frozen=True)
class ExampleDef(Node):
    """`example "name":` and its settings; `places` are their positions by JSON Pointer (`/reads/0`)."""

    name: str | None
    settings: Mapping[str, Any]
    places: Mapping[str, Position] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class PromptDef(Node):
    """`prompt name using model "m" expecting T as jsonl:`.

    `expecting` is the type of the answer, None for a text; `layout` is the format of any other answer. `text`
    is the template of the question; of several declarations of a prompt, one has it. `settings` are the other
    keys of the prompt's entry; `places` are their positions by JSON Pointer (`/model/temperature`), and that
    of the text (`/text`).
    """

    name: str
    text: str
    model: str | None = None
    expecting: TypeExpr | None = None
    layout: OneOf["json", "jsonl"] = "json"
    settings: Mapping[str, Any] = field(default_factory=dict)
    escalation: EscalationCondition | None = None
    examples: tuple[ExampleDef, ...] = ()
    places: Mapping[str, Position] = field(default_factory=dict, compare=False, repr=False)
    model_at: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class File:
    """The declarations of a file, in order. `system` is the system message of the workspace."""

    schemas: tuple[SchemaDef, ...] = ()
    prompts: tuple[PromptDef, ...] = ()
    system: str | None = None
    system_at: Position | None = field(default=None, compare=False, repr=False)
