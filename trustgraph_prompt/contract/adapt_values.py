"""Conforms values to a schema: drops undeclared keys, converts scalars, decodes lists and objects in strings.

The branch of an `anyOf`, `oneOf` or `if` that applies is found by the discriminator, else by trying them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trustgraph_prompt.contract.alternatives import picked
from trustgraph_prompt.contract.applicable_schemas import Branching, Schema, SchemaMap, SchemasAt
from trustgraph_prompt.contract.limits import VALUE, StepMeter, TooCostly
from trustgraph_prompt.contract.validator import Validator
from trustgraph_prompt.json_text.values import levels, type_of

_LOOK = 800  # steps of a look at a value or a schema, which takes a microsecond or two
_TRY = 4  # looks to try a branch, whatever the value
_MOST_PLACES = 20_000  # in a map that is kept; the combinations of branches have no limit

Decode = Callable[[str], Any]
"""Decodes a JSON text; raises `ValueError` if it is invalid."""


class Conformer:
    """Conforms values: `drop` removes undeclared keys, `coerce` converts scalars."""

    def __init__(self, validator: Validator, *, drop: bool = False, coerce: bool = False) -> None:
        self._drop = drop
        self._coerce = coerce
        self._validator = validator
        self._free: list[SchemaMap] = []  # idle ones: answers may be read in several threads

    def of(self, value: Any, meter: StepMeter, decode: Decode | None = None) -> Any:
        """Return the conformed value, without changing it: the same object if there is nothing to change.

        With `decode`, strings that hold a list or an object are decoded where the schema expects one. Raises
        `TooCostly`.
        """
        try:
            schema_map = self._free.pop()
        except IndexError:
            schema_map = SchemaMap(self._validator)
        walk = _Adaptation(schema_map, self._drop, self._coerce, decode, meter)
        try:
            return walk.of(value, schema_map.root)
        except RecursionError:
            raise TooCostly("nested too deep to be held against this schema") from None
        finally:
            if len(schema_map) <= _MOST_PLACES:
                self._free.append(schema_map)
            meter.spend(walk.steps)


class _Adaptation:
    """Conforms one value."""

    def __init__(
        self, schema_map: SchemaMap, drop: bool, coerce: bool, decode: Decode | None, meter: StepMeter
    ) -> None:
        self._map = schema_map
        self._drop = drop
        self._coerce = coerce
        self._decode = decode
        self._looks = -schema_map.work
        self._most = meter.left // _LOOK
        self._verdict = 1 + VALUE * schema_map.widest // _LOOK  # looks to validate a value against a branch
        self._made: dict[tuple[int, int], Any] = {}

    def of(self, value: Any, place: SchemasAt) -> Any:
        """Conform a value to the schemas at its place."""
        if not isinstance(value, dict | list):
            if isinstance(value, str) and self._decode is not None:
                inner = decoded(value, self._decode)
                if inner is not None and place.must_be(type_of(inner)):
                    return self.of(inner, place)
            if not self._coerce or place.takes_scalars_as_they_are:
                return value
            return self._apply(value, self._decided(value, place, self._map.nowhere))
        self._spend(1 + len(value))
        if not place.choices:
            return self._object(value, place) if isinstance(value, dict) else self._array(value, place)
        key = (id(value), id(place))
        if key not in self._made:
            self._made[key] = self._apply(value, self._decided(value, place, self._map.nowhere))
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
            self._spend(0)  # checks the work of the map, such as matching patterns
            if member is None and self._coerce:
                declared = place.in_other_case(name)
                if declared is not None and declared not in value and declared not in made:
                    name, member, changed = declared, place.member(declared), True
            if member is not None:
                made[name] = new = self.of(item, member)
                changed |= new is not item
            elif drop:
                changed = True
            else:
                made[name] = item
        return made if changed else value

    def _decided(self, value: Any, place: SchemasAt, base: SchemasAt) -> SchemasAt:
        """Join the place with `base` and with the branches that apply to the value."""
        joined = self._map.join(base, place)
        for choice in place.choices:
            for schema in self._applicable(choice, value, joined):
                joined = self._decided(value, self._map.place((schema,)), joined)
        return joined

    def _applicable(self, choice: Branching, value: Any, base: SchemasAt) -> list[Schema]:
        match choice.keyword:
            case "if":
                fits = self._map.accepts(*self._try(choice.branches[0], value, base))
                keywords = ("if", "then") if fits else ("else",)
                found = [choice.holder.get(keyword) for keyword in keywords]
            case "dependentSchemas" | "dependencies":
                named = choice.holder[choice.keyword].items() if isinstance(value, dict) else ()
                found = [schema for name, schema in named if name in value]
            case _:
                return self._branches(choice, value, base)
        return [schema for schema in found if isinstance(schema, dict)]

    def _branches(self, choice: Branching, value: Any, base: SchemasAt) -> list[Schema]:
        """The branches of an `anyOf` or `oneOf` that apply: all if the value fits them together, else one."""
        possible = self._possible(choice, value)
        if choice.is_open or len(possible) < 2:
            return [] if choice.is_open else possible
        tried = [self._try(branch, value, base) for branch in possible]
        fitting = [(branch, made) for branch, made in tried if self._map.accepts(branch, made)]
        if not fitting:
            return [min(tried, key=lambda pair: (self._map.distance(*pair), -_size(pair[1])))[0]]
        together = [branch for branch, _ in fitting]
        if choice.keyword == "anyOf" and len(together) > 1 and self._fit_together(together, value, base):
            return together
        return [min(fitting, key=lambda pair: (self._rank(value, *pair), -_size(pair[1])))[0]]

    def _possible(self, choice: Branching, value: Any) -> list[Schema]:
        name = choice.discriminator
        if name is not None and isinstance(value, dict) and name in value:
            branch = picked(value[name], choice.branches, choice.named)
            if branch is not None:
                return [branch]
        return [branch for branch in choice.branches if self._may_be(branch, value)]

    def _may_be(self, branch: Schema, value: Any) -> bool:
        types = self._map.place((branch,)).target.types
        if types is None:
            return True
        if isinstance(value, dict | list):
            return ("object" if isinstance(value, dict) else "array") in types
        return not types <= {"object", "array"}

    def _try(self, branch: Schema, value: Any, base: SchemasAt) -> tuple[Schema, Any]:
        made = self._apply(value, self._decided(value, self._map.place((branch,)), base))
        self._spend(_TRY)
        for level in levels(made):
            self._spend(len(level) * self._verdict)
        return branch, made

    def _fit_together(self, branches: list[Schema], value: Any, base: SchemasAt) -> bool:
        if not isinstance(value, dict | list):
            return False
        for branch in branches:
            base = self._decided(value, self._map.place((branch,)), base)
        made = self._apply(value, base)
        return all(self._map.accepts(branch, made) for branch in branches)

    def _rank(self, value: Any, branch: Schema, made: Any) -> int:
        """Prefers a branch that has the value as a literal, then one that reads "null" as null."""
        if made is value:
            return 0 if value in self._map.place((branch,)).target.literals else 2
        return 1 if made is None else 3

    def _spend(self, looks: int) -> None:
        self._looks += looks
        if self._looks + self._map.work > self._most:
            raise TooCostly("too large to be held against this schema")

    @property
    def steps(self) -> int:
        """The steps so far, with the work of the map."""
        return _LOOK * (self._looks + self._map.work)


def decoded(text: str, decode: Decode) -> dict[str, Any] | list[Any] | None:
    """Decode the object or list that a string holds; None if it holds none."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    try:
        value: dict[str, Any] | list[Any] = decode(stripped)
    except ValueError:
        return None
    return value


def _size(value: Any) -> int:
    """The number of values in a value, itself included."""
    return sum(map(len, levels(value)))
