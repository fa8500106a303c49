"""What a schema makes of a value: keys that it does not declare are dropped, scalars converted.

Which branch of an `anyOf`, `oneOf` or `if` a value means is found by the discriminator, else by trying.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

import jsonschema_rs

from trustgraph_prompt.contract.branches import chosen_by
from trustgraph_prompt.contract.coerce import Target
from trustgraph_prompt.contract.layout import Choice, Layout, Schema, Schemas, flat
from trustgraph_prompt.contract.references import Path, within
from trustgraph_prompt.contract.validator import TooMuchError, Validator

_STEPS = 1_000_000  # values looked at, about a second
_COUNTED = 20  # errors of a branch; which of two is nearer shows before
_CACHED = 1_000  # places; the branches of a schema may be combined without end

_Flat = tuple[Schemas, tuple[Choice, ...]]


class Conformer:
    """Makes values conform: with `drop`, without the keys that are not declared; with `coerce`, converted."""

    def __init__(self, validator: Validator, *, drop: bool, coerce: bool) -> None:
        self.drop = drop
        self.coerce = coerce
        self._validator = validator
        self.references = validator.references
        self._flat: dict[tuple[int, ...], _Flat] = {}
        self._layouts: dict[tuple[int, ...], Layout] = {}
        self._tests: dict[int, jsonschema_rs.Validator] = {}
        self._patterns: dict[str, jsonschema_rs.Validator] = {}
        self._paths: dict[int, Path] = {}

    def of(self, value: Any) -> Any:
        """What is made of a value: the very same where there is nothing to change. The value stays as it is.

        Raises `TooMuchError` where that takes too much.
        """
        try:
            return _Walk(self).of(value, (self.references.root,))
        except RecursionError:
            raise TooMuchError("nested too deep to be held against this schema") from None

    def flat(self, schemas: Schemas) -> _Flat:
        """The schemas that apply together, and the choices among them."""
        key = _ids(schemas)
        if key not in self._flat:
            self._flat[key] = flat(schemas, self.references)
        return self._flat[key]

    def layout(self, nodes: Schemas) -> Layout:
        """What schemas say together."""
        key = _ids(nodes)
        if key not in self._layouts:
            if len(self._layouts) > _CACHED:
                self._layouts.clear()
            self._layouts[key] = Layout(nodes, self._matches)
        return self._layouts[key]

    def accepts(self, schema: Schema, value: Any) -> bool:
        """The verdict of one subschema alone."""
        try:
            return self._test(schema).is_valid(value)
        except ValueError:
            return False

    def distance(self, schema: Schema, value: Any) -> int:
        """How many errors one subschema finds."""
        try:
            return sum(1 for _ in islice(self._test(schema).iter_errors(value), _COUNTED))
        except ValueError:
            return _COUNTED

    def _test(self, schema: Schema) -> jsonschema_rs.Validator:
        if id(schema) not in self._tests:
            if not self._paths:
                self._paths = {id(part): path for path, part in self.references.subschemas()}
            self._tests[id(schema)] = self._validator.part(self._paths[id(schema)])
        return self._tests[id(schema)]

    def _matches(self, pattern: str, name: str) -> bool:
        if pattern not in self._patterns:
            self._patterns[pattern] = self._validator.pattern(pattern)
        return self._patterns[pattern].is_valid(name)


class _Walk:
    """One value on its way."""

    def __init__(self, conformer: Conformer) -> None:
        self._conformer = conformer
        self._steps = _STEPS
        self._made: dict[tuple[int, ...], Any] = {}

    def of(self, value: Any, schemas: Schemas) -> Any:
        """What `schemas` make of a value."""
        self._spend(1)
        if not isinstance(value, dict | list):
            return self._apply(value, self._applied(value, schemas)) if self._conformer.coerce else value
        key = (id(value), *_ids(schemas))
        if key not in self._made:
            self._made[key] = self._apply(value, self._applied(value, schemas))
        return self._made[key]

    def _apply(self, value: Any, nodes: Schemas) -> Any:
        layout = self._conformer.layout(nodes)
        if isinstance(value, dict):
            drop = self._conformer.drop and layout.is_closed
            made = {}
            for name, item in value.items():
                schemas = layout.member(name)
                if schemas is not None or not drop:
                    made[name] = self.of(item, schemas) if schemas else item
            changed = len(made) < len(value) or any(made[name] is not value[name] for name in made)
            return made if changed else value
        if isinstance(value, list):
            items = []
            for index, item in enumerate(value):
                items.append(self.of(item, layout.element(index)))
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return layout.target.convert(value) if self._conformer.coerce else value

    def _applied(self, value: Any, schemas: Schemas, nodes: Schemas = ()) -> Schemas:
        """All that applies to a value: `nodes`, `schemas`, and of their branches those that are meant."""
        own, choices = self._conformer.flat(schemas)
        nodes = (*nodes, *own)
        for choice in choices:
            for schema in self._meant(choice, value, nodes):
                nodes = self._applied(value, (schema,), nodes)
        return nodes

    def _meant(self, choice: Choice, value: Any, nodes: Schemas) -> Iterable[Schema]:
        match choice.keyword:
            case "if":
                fits = self._conformer.accepts(*self._try(choice.branches[0], value, nodes))
                keywords = ("if", "then") if fits else ("else",)
                found = [choice.holder.get(keyword) for keyword in keywords]
            case "dependentSchemas" | "dependencies":
                named = choice.holder[choice.keyword].items() if isinstance(value, dict) else ()
                found = [schema for name, schema in named if name in value]
            case _:
                return self._branches(choice, value, nodes)
        return [schema for schema in found if isinstance(schema, dict)]

    def _branches(self, choice: Choice, value: Any, nodes: Schemas) -> Schemas:
        """The branches of an `anyOf` or `oneOf` that are meant: all that fit together, else one."""
        possible = self._possible(choice, value)
        if choice.is_open or len(possible) < 2:
            return () if choice.is_open else possible
        tried = [self._try(branch, value, nodes) for branch in possible]
        fitting = [(branch, made) for branch, made in tried if self._conformer.accepts(branch, made)]
        if not fitting:
            return (min(tried, key=lambda one: self._conformer.distance(*one))[0],)
        together = tuple(branch for branch, _ in fitting)
        if choice.keyword == "anyOf" and len(together) > 1 and self._fit_together(together, value, nodes):
            return together
        return (min(fitting, key=lambda one: self._rank(value, *one))[0],)

    def _possible(self, choice: Choice, value: Any) -> Schemas:
        possible = tuple(branch for branch in choice.branches if self._may_be(branch, value))
        name = choice.discriminator
        if name is None or not isinstance(value, dict) or name not in value:
            return possible
        followed = self._conformer.references.followed
        named = [branch for branch in possible if value[name] in chosen_by(followed(branch) or {}, name)]
        return tuple(named) or possible

    def _may_be(self, branch: Schema, value: Any) -> bool:
        types = self._target(branch).types
        if types is None:
            return True
        if isinstance(value, dict | list):
            return ("object" if isinstance(value, dict) else "array") in types
        return not types <= {"object", "array"}

    def _try(self, branch: Schema, value: Any, nodes: Schemas) -> tuple[Schema, Any]:
        made = self._apply(value, self._applied(value, (branch,), nodes))
        self._spend_on(made)
        return branch, made

    def _fit_together(self, branches: Schemas, value: Any, nodes: Schemas) -> bool:
        if not isinstance(value, dict | list):
            return False
        for branch in branches:
            nodes = self._applied(value, (branch,), nodes)
        made = self._apply(value, nodes)
        return all(self._conformer.accepts(branch, made) for branch in branches)

    def _rank(self, value: Any, branch: Schema, made: Any) -> int:
        """What is meant rather: the branch that names the value, one that takes "null" by its word, any."""
        if made is value:
            return 0 if value in self._target(branch).literals else 2
        return 1 if made is None else 3

    def _target(self, branch: Schema) -> Target:
        nodes, _ = self._conformer.flat((branch,))
        return self._conformer.layout(nodes).target

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise TooMuchError("too large to be held against this schema")

    def _spend_on(self, value: Any) -> None:
        level = [value]
        while level:
            self._spend(len(level))
            level = list(chain.from_iterable(map(within, level)))


def _ids(schemas: Iterable[Schema]) -> tuple[int, ...]:
    return tuple(map(id, schemas))
