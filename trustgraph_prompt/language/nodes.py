"""What a file of the schema language says, as a tree. Positions are where it was read; they compare equal."""

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
    """A part of a file, and where it stands; None for one that was not read."""

    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class TypeExpr(Node):
    """A type: one of the kinds below."""

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        """The types that it is made of."""
        return ()


@dataclass(frozen=True)
class Scalar(TypeExpr):
    """A type that the language has: string, int, float, bool, any, null, bytes, date, time, datetime, uuid,
    decimal."""

    name: str


@dataclass(frozen=True)
class Name(TypeExpr):
    """A schema of the file, or a type that was given beside it."""

    name: str


@dataclass(frozen=True)
class ListOf(TypeExpr):
    """`T[]` or `list[T]`."""

    item: TypeExpr

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        return (self.item,)


@dataclass(frozen=True)
class MapOf(TypeExpr):
    """`map[T]`: an object with any keys."""

    value: TypeExpr

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        return (self.value,)


@dataclass(frozen=True)
class Optional(TypeExpr):
    """`T?`: null, too; as the type of a field it may also be missing."""

    type: TypeExpr

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        return (self.type,)


@dataclass(frozen=True)
class Literal(TypeExpr):
    """One value: a string, a number, true or false. (null is a `Scalar`.)"""

    value: str | int | float | bool

    @property
    def as_json(self) -> tuple[bool, str | int | float]:
        """What JSON compares: 1 is 1.0, and not true."""
        return isinstance(self.value, bool), self.value


@dataclass(frozen=True)
class Union(TypeExpr):
    """`A | B`: two members or more, none of them a union; null among them only as the type of a field."""

    members: tuple[TypeExpr, ...]

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        return self.members


@dataclass(frozen=True)
class Annotated(TypeExpr):
    """`(T @constraints "description")`: what is said of a type within another. Of the type of a field, the
    field says it."""

    type: TypeExpr
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None

    @property
    def parts(self) -> tuple[TypeExpr, ...]:
        return (self.type,)


def bare(expr: TypeExpr) -> TypeExpr:
    """A type without what is said of it."""
    return bare(expr.type) if isinstance(expr, Annotated) else expr


def alternatives(expr: TypeExpr) -> tuple[TypeExpr, ...]:
    """The types of which a value has one: the members of a union, without what is said of them."""
    expr = bare(expr)
    if not isinstance(expr, Union):
        return (expr,)
    return tuple(one for member in expr.members for one in alternatives(member))


def nullable(expr: TypeExpr) -> TypeExpr:
    """`A | null` as `A?`, which is the same but for a field; any other type as it is."""
    if isinstance(expr, Annotated):
        return replace(expr, type=nullable(expr.type))
    null = Scalar("null")
    if not isinstance(expr, Union) or expr.members.count(null) != 1:
        return expr
    others = tuple(member for member in expr.members if member != null)
    return Optional(others[0] if len(others) == 1 else Union(others, at=expr.at), at=expr.at)


@dataclass(frozen=True)
class Constraint(Node):
    """`@name(arguments)`. `@length(1, any)` has no upper end, which is None."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Default(Node):
    """`= value`, any JSON."""

    value: Any


@dataclass(frozen=True)
class SchemaField(Node):
    """`name: type @constraints = default "description"`; with a default or a type `T?` it is not required.

    As `name?: type` it may be missing, but is not null; then it has no default, and its type is no `T?`.
    """

    name: str
    type: TypeExpr
    constraints: tuple[Constraint, ...] = ()
    default: Default | None = None
    description: str | None = None
    may_be_missing: bool = False

    @property
    def is_required(self) -> bool:
        """Whether a value without it is wrong."""
        return not (self.may_be_missing or self.default is not None or isinstance(self.type, Optional))


@dataclass(frozen=True)
class SchemaDef(Node):
    """`schema name extends bases closed:` with the fields that it adds to those of its bases, or replaces.

    A `closed` one has no other keys than its fields; one that extends it is closed only if it says so itself.
    """

    name: str
    fields: tuple[SchemaField, ...]
    bases: tuple[Name, ...] = ()
    description: str | None = None
    closed: bool = False


@dataclass(frozen=True)
class EscalationCondition(Node):
    """`escalate if op "value"`; `~` is equality but for case, white space, punctuation and markdown."""

    op: OneOf["~", "==", "!=", "contains"]
    value: str


@dataclass(frozen=True)
class ExampleDef(Node):
    """`example "name":` and its settings. `places` are their positions by JSON Pointer (`/reads/0`)."""

    name: str | None
    settings: Mapping[str, Any]
    places: Mapping[str, Position] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class PromptDef(Node):
    """`prompt name using model "m" expecting T as jsonl:`.

    `expecting` is None for a text; `layout` says how the answer is laid out otherwise. `text` is the template
    of the question; of several declarations of a prompt, one has it. `settings` are the other keys of a
    prompt's entry as they are written; `places` are their positions by JSON Pointer (`/model/temperature`),
    and that of the text (`/text`).
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
    """All that a file says, each kind in its order. `system` is the system message of the workspace."""

    schemas: tuple[SchemaDef, ...] = ()
    prompts: tuple[PromptDef, ...] = ()
    system: str | None = None
    system_at: Position | None = field(default=None, compare=False, repr=False)
