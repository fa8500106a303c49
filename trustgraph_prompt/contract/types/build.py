"""Instances out of values that a contract has accepted: each builder turns JSON into what a type says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from trustgraph_prompt.contract.explain import MAX_ISSUES, show
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text.pointer import pointer

Build = Callable[[Any], Any]
Part = tuple[str | int, Build, Any]  # a step of the path, what builds there, of which value

_MAX_MESSAGE = 200  # characters of what a class says about a value


class Refused(Exception):
    """A value that meets its schema, and that its type does not take."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(map(str, self.issues)))

    @classmethod
    def because(cls, reason: Reason, message: object, path: str = "") -> Refused:
        """Refused with one issue."""
        return cls([Issue(reason, excerpt(str(message), _MAX_MESSAGE), path)])

    @classmethod
    def by_code(cls, error: Exception) -> Refused:
        """Refused by an author's own code: in its words, and with the kind of an error that may be a bug."""
        said, kind = str(error), type(error).__name__
        if not said or not isinstance(error, ValueError | AssertionError):
            said = f"{kind}: {said}" if said else kind
        return cls.because(Reason.INVARIANT_VIOLATION, said)

    def within(self, step: str | int) -> list[Issue]:
        """The issues, seen from the value that holds this one at `step`."""
        return [replace(issue, path=pointer((step,)) + issue.path) for issue in self.issues]


def as_it_is(value: Any) -> Any:
    """The value, where the type is JSON's own."""
    return value


def parts(these: Iterable[Part]) -> list[Any]:
    """What is built of the parts of a value.

    Raises `Refused` with the issues of all parts together, of `MAX_ISSUES` and a few more at most.
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
    """None, or what `build` makes."""
    return lambda value: None if value is None else build(value)


def converted(convert: Build, expected: str) -> Build:
    """What `convert` makes of a scalar; where it cannot, the value is not what was expected."""

    def build(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError, TypeError):
            raise Refused.because(
                Reason.SCHEMA_VALUE_ERROR, f"expected {expected}, found {show(value)}"
            ) from None

    return build


def one_value_of(values: tuple[Any, ...]) -> Build:
    """Of values that JSON Schema takes for the same, 1 and 1.0, the one that is written."""
    written = {(isinstance(value, bool), value): value for value in values}
    return lambda value: written.get((isinstance(value, bool), value), value)


def elements(build: Build, container: Callable[[list[Any]], Any]) -> Build:
    """A container with what `build` makes of each element."""

    def make(values: Any) -> Any:
        made = parts((index, build, value) for index, value in enumerate(values))
        try:
            return container(made)
        except TypeError as error:  # a set of what cannot be in one
            raise Refused.because(Reason.SCHEMA_VALUE_ERROR, error) from error

    return make


def positions(builds: list[Build]) -> Build:
    """A tuple with a builder for each position."""

    def build(values: Any) -> Any:
        return tuple(parts((index, *pair) for index, pair in enumerate(zip(builds, values, strict=True))))

    return build


def members(build: Build) -> Build:
    """A dict with what `build` makes of each value."""

    def make(value: Any) -> Any:
        made = parts((name, build, item) for name, item in value.items())
        return dict(zip(value, made, strict=True))

    return make


class Instance:
    """Builds instances of a dataclass; keys that are no fields are let go.

    `fields` are set later, as they may build the same. What the class itself has against them violates an
    invariant, whatever it raises.
    """

    def __init__(self, cls: type) -> None:
        self.fields: dict[str, Build] = {}
        self._cls = cls

    def build(self, value: Any) -> Any:
        present = [name for name in self.fields if name in value]
        made = parts((name, self.fields[name], value[name]) for name in present)
        try:
            return self._cls(**dict(zip(present, made, strict=True)))
        except RecursionError:
            raise
        except Exception as error:
            raise Refused.by_code(error) from error


def one_of(branches: Callable[[], Iterable[tuple[Callable[[Any], bool], Build]]]) -> Build:
    """What the first of several branches makes that accepts the value."""

    def build(value: Any) -> Any:
        for accepts, make in branches():
            if accepts(value):
                return make(value)
        raise Refused.because(Reason.SCHEMA_TYPE_ERROR, f"fits none of the alternatives: {show(value)}")

    return build
