"""Builders: functions that make instances of a type from accepted JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from trustgraph_prompt.contract.explain import MAX_ISSUES, show
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text.pointer import pointer

Build = Callable[[Any], Any]
Part = tuple[str | int, Build, Any]  # a step of the path, the builder of that part, its value


class TypeSchema(NamedTuple):
    """The JSON Schema of a type, and the builder of its instances."""

    schema: dict[str, Any]
    build: Build


_MAX_MESSAGE = 200  # characters of the message of a class about a value


class Refused(Exception):
    """A value meets its schema, but its type rejects it."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(map(str, self.issues)))

    @classmethod
    def because(cls, reason: Reason, message: object) -> Refused:
        """Make one with a single issue."""
        return cls([Issue(reason, excerpt(str(message), _MAX_MESSAGE))])

    @classmethod
    def by_code(cls, error: Exception) -> Refused:
        """Make one from an error of the author's code; the message names the type of an unexpected error."""
        message, kind = str(error), type(error).__name__
        if not message or not isinstance(error, ValueError | AssertionError):
            message = f"{kind}: {message}" if message else kind
        return cls.because(Reason.INVARIANT_VIOLATION, message)

    def within(self, step: str | int) -> list[Issue]:
        """The issues, with paths from the value that holds this one at `step`."""
        return [replace(issue, path=pointer((step,)) + issue.path) for issue in self.issues]


def as_it_is(value: Any) -> Any:
    """The builder of types that are JSON types."""
    return value


def parts(these: Iterable[Part]) -> list[Any]:
    """Build the parts of a value.

    Raises `Refused` with the issues of all parts, up to those with which there are `MAX_ISSUES`.
    """
    made: list[Any] = []
    issues: list[Issue] = []
    for step, build, value in these:
        try:
            made.append(build(value))
        except Refused as refused:
            issues += refused.within(step)
            if len(issues) >= MAX_ISSUES:
                break
    if issues:
        raise Refused(issues)
    return made


def optional(build: Build) -> Build:
    """The builder of an optional type."""
    return lambda value: None if value is None else build(value)


def converted(convert: Build, expected: str) -> Build:
    """The builder of a scalar type; `expected` describes it if `convert` fails."""

    def build(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError, TypeError):
            raise Refused.because(
                Reason.SCHEMA_VALUE_ERROR, f"expected {expected}, found {show(value)}"
            ) from None

    return build


def one_value_of(values: tuple[Any, ...]) -> Build:
    """The builder of a Literal: picks the declared value, as 1 and 1.0 are the same in JSON Schema."""
    written = {(isinstance(value, bool), value): value for value in values}
    return lambda value: written.get((isinstance(value, bool), value), value)


def elements(build: Build, container: Callable[[list[Any]], Any]) -> Build:
    """The builder of a container of elements."""

    def make(values: Any) -> Any:
        made = parts((index, build, value) for index, value in enumerate(values))
        try:
            return container(made)
        except TypeError as error:  # unhashable elements of a set
            raise Refused.because(Reason.SCHEMA_VALUE_ERROR, error) from error

    return make


def positions(builds: list[Build]) -> Build:
    """The builder of a tuple, with a builder for each position."""

    def build(values: Any) -> Any:
        return tuple(parts((index, *pair) for index, pair in enumerate(zip(builds, values, strict=True))))

    return build


def members(build: Build) -> Build:
    """The builder of a dict."""

    def make(value: Any) -> Any:
        made = parts((name, build, item) for name, item in value.items())
        return dict(zip(value, made, strict=True))

    return make


def instance(cls: type, fields: Mapping[str, Build]) -> Build:
    """The builder of a dataclass; ignores keys that are not fields.

    `fields` may be filled in later, as they may refer to the same class. Any error of the class counts as the
    violation of an invariant.
    """

    def build(value: Any) -> Any:
        present = [name for name in fields if name in value]
        made = parts((name, fields[name], value[name]) for name in present)
        try:
            return cls(**dict(zip(present, made, strict=True)))
        except RecursionError:
            raise
        except Exception as error:
            raise Refused.by_code(error) from error

    return build


def one_of(branches: Callable[[], Iterable[tuple[Callable[[Any], bool], Build]]]) -> Build:
    """The builder of a union: uses the first branch that accepts the value."""

    def build(value: Any) -> Any:
        for accepts, make in branches():
            if accepts(value):
                return make(value)
        raise Refused.because(Reason.SCHEMA_TYPE_ERROR, f"fits none of the alternatives: {show(value)}")

    return build
