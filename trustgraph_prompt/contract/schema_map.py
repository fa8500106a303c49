"""What a schema says at each place of a value: of members, of elements, of scalars; and its branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import jsonschema_rs

from trustgraph_prompt.contract.alternatives import chosen_by, discriminator_of
from trustgraph_prompt.contract.coerce import Target, alternative_types
from trustgraph_prompt.contract.validator import Validator, surrogate_safe

Schema = Mapping[str, Any]
Schemas = tuple[Schema, ...]

_COMPILED = 3  # work for each subschema, as the one that is compiled may refer to all
_COUNTED = 20  # errors of a branch; which of two is nearer shows before


class Branching(NamedTuple):
    """What of a schema applies to some values only: the branches of `keyword`.

    `named` holds, for each branch, the values of the property `discriminator` that mean it.
    """

    keyword: str  # anyOf, oneOf, if, dependentSchemas
    holder: Schema
    branches: Schemas
    discriminator: str | None = None
    named: tuple[list[Any], ...] = ()
    is_open: bool = False  # one of the branches is simply true


class SchemaMap:
    """The places of a schema, each made when a value first gets there; `work` is what that has taken."""

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
        """Where all of the schemas apply, which are parts of this one."""
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
        """Where both apply, with their choices made."""
        key = (id(one), id(other))
        if key not in self._joined:
            self._joined[key] = SchemasAt(self, (*one.nodes, *other.nodes), ())
        return self._joined[key]

    def accepts(self, schema: Schema, value: Any) -> bool:
        """The verdict of one subschema alone."""
        try:
            return surrogate_safe(self._test(schema).is_valid, value)
        except ValueError:
            return False

    def distance(self, schema: Schema, value: Any) -> int:
        """How many errors one subschema finds."""
        test = self._test(schema)
        try:
            return surrogate_safe(lambda one: sum(1 for _ in islice(test.iter_errors(one), _COUNTED)), value)
        except ValueError:
            return _COUNTED

    def matches(self, pattern: str, name: str) -> bool:
        """Whether a name meets a pattern."""
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
        """The schemas, and what they apply by reference or `allOf`; and the choices among all that."""
        nodes: list[Schema] = []
        choices: list[Branching] = []
        seen: set[int] = set()
        todo = [*schemas]
        for schema in todo:  # grows on the way
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
    """What `nodes` say together about the value at one place, and the choices that are still to be made."""

    def __init__(self, layout: SchemaMap, nodes: Schemas, choices: tuple[Branching, ...]) -> None:
        self.nodes = nodes
        self.choices = choices
        self.target = Target.of(nodes)
        self.takes_scalars_as_they_are = not choices and not self.target.converts
        self._layout = layout
        layout.work += len(nodes)
        self._names = frozenset(name for node in nodes for name in node.get("properties", ()))
        self._required = frozenset(name for node in nodes for name in _required(node))
        self._members: dict[str, SchemasAt | None] = {}
        self._elements: dict[int, SchemasAt] = {}

    @cached_property
    def is_closed(self) -> bool:
        """Whether anything is said about which keys there are; where nothing is, all of them are meant."""
        return any(
            "properties" in node
            or "patternProperties" in node
            or node.get("additionalProperties") is False
            or node.get("unevaluatedProperties") is False
            for node in self.nodes
        )

    @cached_property
    def _numbered(self) -> int:
        """How many elements may have a schema of their own."""
        return max((len(_numbered(node)) for node in self.nodes), default=0)

    def must_be(self, container: str) -> bool:
        """Whether a value may be a `container`, "array" or "object", and may not be a string."""
        return self._may_be(container) and not self._may_be("string")

    def _may_be(self, kind: str) -> bool:
        if self.target.types is not None and kind not in self.target.types:
            return False
        return all(
            any(self._layout.place((branch,))._may_be(kind) for branch in choice.branches)
            for choice in self.choices
            if choice.keyword in ("anyOf", "oneOf") and not choice.is_open
        )

    def member(self, name: str) -> SchemasAt | None:
        """The place of the member `name`; None where nothing declares it."""
        try:
            return self._members[name]
        except KeyError:
            found = self._member(name)
            if name in self._names:
                self._members[name] = found
            return found

    def element(self, index: int) -> SchemasAt:
        """The place of an element."""
        index = min(index, self._numbered)
        if index not in self._elements:
            self._elements[index] = self._layout.place(_element(node, index) for node in self.nodes)
        return self._elements[index]

    def _member(self, name: str) -> SchemasAt | None:
        schemas: list[Any] = []
        self._layout.work += len(self.nodes)
        for node in self.nodes:
            here = [node["properties"][name]] if name in node.get("properties", ()) else []
            for pattern, schema in node.get("patternProperties", {}).items():
                if self._layout.matches(pattern, name):
                    here.append(schema)
            rest = node.get("additionalProperties", node.get("unevaluatedProperties"))
            if not here and isinstance(rest, dict) and rest:
                here.append(rest)
            schemas += here
        return self._layout.place(schemas) if schemas or name in self._required else None


def _required(node: Schema) -> Iterator[str]:
    """The names that a schema asks for, be it only beside others; those are named as well."""
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
