"""What a schema makes of a value: undeclared keys are dropped, scalars converted, strings opened that hold
a list or an object.

Which branch of an `anyOf`, `oneOf` or `if` a value means is found by the discriminator, else by trying.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from trustgraph_prompt.contract.coerce import type_of
from trustgraph_prompt.contract.limits import VALUE, StepMeter, TooCostly
from trustgraph_prompt.contract.references import within
from trustgraph_prompt.contract.schema_map import Branching, Schema, SchemaMap, SchemasAt
from trustgraph_prompt.contract.validator import Validator

_LOOK = 800  # steps of a look at a value or a schema, a microsecond or two
_TRY = 4  # looks that it takes to try a branch, whatever the value
_PLACES = 20_000  # kept; the branches of a schema may be combined without end


Decode = Callable[[str], Any]
"""What a JSON text says; raises `ValueError` for one that is none."""


class Conformer:
    """Makes values conform: with `drop`, without the keys that are not declared; with `coerce`, converted."""

    def __init__(self, validator: Validator, *, drop: bool = False, coerce: bool = False) -> None:
        self._drop = drop
        self._coerce = coerce
        self._validator = validator
        self._layouts: list[SchemaMap] = []  # that nobody uses: answers may be read in several threads

    def of(self, value: Any, meter: StepMeter, decode: Decode | None = None) -> Any:
        """What is made of a value: the very same where there is nothing to change. The value stays as it is.

        With `decode`, a string becomes the list or object that it says where there must be one. Raises
        `TooCostly` where that takes too much.
        """
        try:
            layout = self._layouts.pop()
        except IndexError:
            layout = SchemaMap(self._validator)
        walk = _Walk(layout, self._drop, self._coerce, decode, meter)
        try:
            return walk.of(value, layout.root)
        except RecursionError:
            raise TooCostly("nested too deep to be held against this schema") from None
        finally:
            if len(layout) <= _PLACES:
                self._layouts.append(layout)
            meter.spend(walk.steps)


class _Walk:
    """One value on its way through a schema."""

    def __init__(
        self, layout: SchemaMap, drop: bool, coerce: bool, decode: Decode | None, meter: StepMeter
    ) -> None:
        self._layout = layout
        self._drop = drop
        self._coerce = coerce
        self._decode = decode
        self._looks = -layout.work
        self._most = meter.left // _LOOK
        self._judged = 1 + VALUE * layout.widest // _LOOK  # looks that a branch's verdict on a value takes
        self._made: dict[tuple[int, int], Any] = {}

    def of(self, value: Any, place: SchemasAt) -> Any:
        """What is made of a value at a place."""
        if not isinstance(value, dict | list):
            if isinstance(value, str) and self._decode is not None:
                inner = decoded(value, self._decode)
                if inner is not None and place.must_be(type_of(inner)):
                    return self.of(inner, place)
            if not self._coerce or place.takes_scalars_as_they_are:
                return value
            return self._apply(value, self._decided(value, place, self._layout.nowhere))
        self._spend(1 + len(value))
        if not place.choices:
            return self._object(value, place) if isinstance(value, dict) else self._array(value, place)
        key = (id(value), id(place))
        if key not in self._made:
            self._made[key] = self._apply(value, self._decided(value, place, self._layout.nowhere))
        return self._made[key]

    def _apply(self, value: Any, place: SchemasAt) -> Any:
        if isinstance(value, dict):
            return self._object(value, place)
        if isinstance(value, list):
            return self._array(value, place)
        return place.target.convert(value) if self._coerce else value

    def _array(self, value: list[Any], place: SchemasAt) -> Any:
        changed = False
        made = []
        for index, item in enumerate(value):
            new = self.of(item, place.element(index))
            changed |= new is not item
            made.append(new)
        return made if changed else value

    def _object(self, value: dict[str, Any], place: SchemasAt) -> Any:
        drop = self._drop and place.is_closed
        changed = False
        made = {}
        for name, item in value.items():
            member = place.member(name)
            self._spend(0)  # but for what the layout took, as by patterns
            if member is not None:
                made[name] = new = self.of(item, member)
                changed |= new is not item
            elif drop:
                changed = True
            else:
                made[name] = item
        return made if changed else value

    def _decided(self, value: Any, place: SchemasAt, base: SchemasAt) -> SchemasAt:
        """The place together with `base`, and with the branches that the value means."""
        joined = self._layout.join(base, place)
        for choice in place.choices:
            for schema in self._meant(choice, value, joined):
                joined = self._decided(value, self._layout.place((schema,)), joined)
        return joined

    def _meant(self, choice: Branching, value: Any, base: SchemasAt) -> list[Schema]:
        match choice.keyword:
            case "if":
                fits = self._layout.accepts(*self._try(choice.branches[0], value, base))
                keywords = ("if", "then") if fits else ("else",)
                found = [choice.holder.get(keyword) for keyword in keywords]
            case "dependentSchemas" | "dependencies":
                named = choice.holder[choice.keyword].items() if isinstance(value, dict) else ()
                found = [schema for name, schema in named if name in value]
            case _:
                return self._branches(choice, value, base)
        return [schema for schema in found if isinstance(schema, dict)]

    def _branches(self, choice: Branching, value: Any, base: SchemasAt) -> list[Schema]:
        """The branches of an `anyOf` or `oneOf` that are meant: all that fit together, else one."""
        possible = self._possible(choice, value)
        if choice.is_open or len(possible) < 2:
            return [] if choice.is_open else possible
        tried = [self._try(branch, value, base) for branch in possible]
        fitting = [(branch, made) for branch, made in tried if self._layout.accepts(branch, made)]
        if not fitting:
            return [min(tried, key=lambda one: (self._layout.distance(*one), -_size(one[1])))[0]]
        together = [branch for branch, _ in fitting]
        if choice.keyword == "anyOf" and len(together) > 1 and self._fit_together(together, value, base):
            return together
        return [min(fitting, key=lambda one: (self._rank(value, *one), -_size(one[1])))[0]]

    def _possible(self, choice: Branching, value: Any) -> list[Schema]:
        name = choice.discriminator
        if name is not None and isinstance(value, dict) and name in value:
            for branch, values in zip(choice.branches, choice.named, strict=True):
                if value[name] in values:
                    return [branch]
        return [branch for branch in choice.branches if self._may_be(branch, value)]

    def _may_be(self, branch: Schema, value: Any) -> bool:
        types = self._layout.place((branch,)).target.types
        if types is None:
            return True
        if isinstance(value, dict | list):
            return ("object" if isinstance(value, dict) else "array") in types
        return not types <= {"object", "array"}

    def _try(self, branch: Schema, value: Any, base: SchemasAt) -> tuple[Schema, Any]:
        made = self._apply(value, self._decided(value, self._layout.place((branch,)), base))
        self._spend(_TRY)
        self._spend_on(made)
        return branch, made

    def _fit_together(self, branches: list[Schema], value: Any, base: SchemasAt) -> bool:
        if not isinstance(value, dict | list):
            return False
        for branch in branches:
            base = self._decided(value, self._layout.place((branch,)), base)
        made = self._apply(value, base)
        return all(self._layout.accepts(branch, made) for branch in branches)

    def _rank(self, value: Any, branch: Schema, made: Any) -> int:
        """What is meant rather: the branch that names the value, one that takes "null" by its word, any."""
        if made is value:
            return 0 if value in self._layout.place((branch,)).target.literals else 2
        return 1 if made is None else 3

    def _spend_on(self, value: Any) -> None:
        level = [value]
        while level:
            self._spend(len(level) * self._judged)
            level = list(chain.from_iterable(map(within, level)))

    def _spend(self, looks: int) -> None:
        self._looks += looks
        if self._looks + self._layout.work > self._most:
            raise TooCostly("too large to be held against this schema")

    @property
    def steps(self) -> int:
        """What has been taken so far, the work of the layout included."""
        return _LOOK * (self._looks + self._layout.work)


def decoded(text: str, decode: Decode) -> dict[str, Any] | list[Any] | None:
    """The object or the list that a string says; None where it says none."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    try:
        value: dict[str, Any] | list[Any] = decode(stripped)
    except ValueError:
        return None
    return value


def _size(value: Any) -> int:
    """How many values there are: the value, and what is within it."""
    size, level = 0, [value]
    while level:
        size += len(level)
        level = list(chain.from_iterable(map(within, level)))
    return size
