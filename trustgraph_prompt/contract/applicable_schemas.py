"""Finds the subschemas that apply at each place of a value, and the branches to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import jsonschema_rs

from trustgraph_prompt.contract.alternatives import chosen_by, discriminator_of
from trustgraph_prompt.contract.coerce_scalars import Target, alternative_types
from trustgraph_prompt.contract.validator import Validator, surrogate_safe

Schema = Mapping[str, Any]
Schemas = tuple[Schema, ...]

_COMPILED = 3  # work for each subschema of the schema, as a compiled one may refer to all of them
_COUNTED = 20  # errors of a branch at most; enough to compare two branches


class Branching(NamedTuple):
    """Subschemas that apply only to some values: the branches of `keyword`.

    `named` holds, for each branch, the values of the property `discriminator` that pick it.
    """

    keyword: str  # anyOf, oneOf, if, dependentSchemas
    holder: Schema
    branches: Schemas
    discriminator: str | None = None
    named: tuple[list[Any], ...] = ()
    is_open: bool = False  # one of the branches is true


class SchemaMap:
    """The places of a schema, made when they are first needed; `work` counts the effort of making them."""

    def __init__(self, validator: Validator) -> None:
        self.work = 0
        self.references = validator.references
        self.widest = validator.widest_explained
        self._validator = validator
        self._places: dict[tuple[int, ...], SchemasAt] = {}
        self._asked: dict[tuple[int, ...], SchemasAt] = {}
        self._joined: dict[tuple[int, int], SchemasAt] = {}
        self._tests: dict[int, jsonschema_rs.Validator] = {}
        self._patterns: dict[str, jsonschema_rs.Validator] = {}
        self.root = self.place((self.references.root,))
        self.nowhere = self.place(())

    def __len__(self) -> int:
        return len(self._asked) + len(self._joined)

    def place(self, schemas: Iterable[Any]) -> SchemasAt:
        """The place to which all of these subschemas apply."""
        schemas = tuple(schemas)
        asked = tuple(map(id, schemas))
        if asked not in self._asked:
            nodes, choices = self._flat(schemas)
            key = tuple(map(id, nodes))
            if key not in self._places:
                self._places[key] = SchemasAt(self, nodes, choices)
            self._asked[asked] = self._places[key]
        return self._asked[asked]

    def join(self, one: SchemasAt, other: SchemasAt) -> SchemasAt:
        """The place to which both apply, with their choices made."""
        key = (id(one), id(other))
        if key not in self._joined:
            self._joined[key] = SchemasAt(self, (*one.nodes, *other.nodes), ())
        return self._joined[key]

    def accepts(self, schema: Schema, value: Any) -> bool:
        """Whether a value meets a subschema."""
        try:
            return surrogate_safe(self._test(schema).is_valid, value)
        except ValueError:
            return False

    def distance(self, schema: Schema, value: Any) -> int:
        """The number of errors of a value in a subschema."""
        test = self._test(schema)
        try:
            return surrogate_safe(lambda one: sum(1 for _ in islice(test.iter_errors(one), _COUNTED)), value)
        except ValueError:
            return _COUNTED

    def matches(self, pattern: str, name: str) -> bool:
        """Whether a name matches a pattern."""
        self.work += 1
        if pattern not in self._patterns:
            self._patterns[pattern] = self._validator.pattern(pattern)
        return surrogate_safe(self._patterns[pattern].is_valid, name)

    def _test(self, schema: Schema) -> jsonschema_rs.Validator:
        if id(schema) not in self._tests:
            paths = self._validator.paths
            self.work += _COMPILED * len(paths)
            self._tests[id(schema)] = self._validator.part(paths[id(schema)])
        return self._tests[id(schema)]

    def _flat(self, schemas: Iterable[Any]) -> tuple[Schemas, tuple[Branching, ...]]:
        """The schemas, those that they include by reference or `allOf`, and the choices in all of them."""
        nodes: list[Schema] = []
        choices: list[Branching] = []
        seen: set[int] = set()
        todo = [*schemas]
        for schema in todo:  # which grows in the loop
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            todo += [target for _, target in self.references.of(schema)]
            if not self.references.stands_alone(schema):
                todo += schema.get("allOf", ())
                nodes.append(schema)
                choices += self._choices(schema)
        self.work += len(todo)
        return tuple(nodes), tuple(choices)

    def _choices(self, schema: Schema) -> Iterator[Branching]:
        for keyword in ("oneOf", "anyOf"):
            branches = schema.get(keyword, ())
            found = tuple(branch for branch in branches if isinstance(branch, dict))
            if found and alternative_types(branches) is None:
                followed = [self.references.seen_through(branch) or {} for branch in found]
                name = discriminator_of(followed)
                named = tuple(chosen_by(branch, name) for branch in followed) if name else ()
                yield Branching(keyword, schema, found, name, named, True in branches)
        if isinstance(schema.get("if"), dict):
            yield Branching("if", schema, (schema["if"],))
        for keyword in ("dependentSchemas", "dependencies"):
            if keyword in schema:
                yield Branching(keyword, schema, ())


class SchemasAt:
    """All subschemas (`nodes`) that apply to the value at a place, and the choices that are left."""

    def __init__(self, schema_map: SchemaMap, nodes: Schemas, choices: tuple[Branching, ...]) -> None:
        self.nodes = nodes
        self.choices = choices
        self.target = Target.of(nodes)
        self.takes_scalars_as_they_are = not choices and not self.target.converts
        self._map = schema_map
        schema_map.work += len(nodes)
        self._names = frozenset(name for node in nodes for name in node.get("properties", ()))
        self._required = frozenset(name for node in nodes for name in _required(node))
        self._members: dict[str, SchemasAt | None] = {}
        self._elements: dict[int, SchemasAt] = {}

    @cached_property
    def is_closed(self) -> bool:
        """Whether the schemas declare the keys; if they declare nothing, all keys are allowed."""
        return any(
            "properties" in node
            or "patternProperties" in node
            or node.get("additionalProperties") is False
            or node.get("unevaluatedProperties") is False
            for node in self.nodes
        )

    @cached_property
    def _numbered(self) -> int:
        """How many elements may have their own schema."""
        return max((len(_numbered(node)) for node in self.nodes), default=0)

    def must_be(self, container: str) -> bool:
        """Whether the schemas accept a `container` ("array" or "object"), and no string."""
        return self._may_be(container) and not self._may_be("string")

    def _may_be(self, kind: str) -> bool:
        if self.target.types is not None and kind not in self.target.types:
            return False
        return all(
            any(self._map.place((branch,))._may_be(kind) for branch in choice.branches)
            for choice in self.choices
            if choice.keyword in ("anyOf", "oneOf") and not choice.is_open
        )

    def member(self, name: str) -> SchemasAt | None:
        """The place of the member `name`; None if it is not declared."""
        try:
            return self._members[name]
        except KeyError:
            found = self._member(name)
            if name in self._names:
                self._members[name] = found
            return found

    def in_other_case(self, name: str) -> str | None:
        """The declared member whose name differs from this one only in the case of its letters."""
        return self._by_folded.get(name.casefold())

    @cached_property
    def _by_folded(self) -> dict[str, str]:
        return {name.casefold(): name for name in self._names | self._required}

    def element(self, index: int) -> SchemasAt:
        """The place of the element at `index`."""
        index = min(index, self._numbered)
        if index not in self._elements:
            self._elements[index] = self._map.place(_element(node, index) for node in self.nodes)
        return self._elements[index]

    def _member(self, name: str) -> SchemasAt | None:
        schemas: list[Any] = []
        self._map.work += len(self.nodes)
        for node in self.nodes:
            here = [node["properties"][name]] if name in node.get("properties", ()) else []
            for pattern, schema in node.get("patternProperties", {}).items():
                if self._map.matches(pattern, name):
                    here.append(schema)
            rest = node.get("additionalProperties", node.get("unevaluatedProperties"))
            if not here and isinstance(rest, dict) and rest:
                here.append(rest)
            schemas += here
        return self._map.place(schemas) if schemas or name in self._required else None


def _required(node: Schema) -> Iterator[str]:
    """The names that a schema requires, also if only together with others, and those others."""
    yield from node.get("required", ())
    for keyword in ("dependentRequired", "dependencies"):
        for name, others in node.get(keyword, {}).items():
            if isinstance(others, list):
                yield from (name, *others)


def _numbered(node: Schema) -> list[Any]:
    items = node.get("items")
    first: list[Any] = node.get("prefixItems", items if isinstance(items, list) else [])
    return first


def _element(node: Schema, index: int) -> Any:
    items, first = node.get("items"), _numbered(node)
    if index < len(first):
        return first[index]
    rest = node.get("additionalItems") if isinstance(items, list) else items
    return node.get("unevaluatedItems") if rest is None else rest
