"""What a schema says about the members, elements and scalars at one place of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from trustgraph_prompt.contract.branches import discriminator_of
from trustgraph_prompt.contract.coerce import Target
from trustgraph_prompt.contract.references import References

Schema = Mapping[str, Any]
Schemas = tuple[Schema, ...]

_REMARKS = frozenset(("type", "title", "description", "default", "examples", "$comment"))


class Choice(NamedTuple):
    """What of a schema applies to some values only: the branches of `keyword`."""

    keyword: str  # anyOf, oneOf, if, dependentSchemas
    holder: Schema
    branches: Schemas
    discriminator: str | None = None
    is_open: bool = False  # one of the branches is simply true


def flat(schemas: Iterable[Any], references: References) -> tuple[Schemas, tuple[Choice, ...]]:
    """The schemas, and what they apply in the same place by reference or `allOf`; and the choices therein."""
    nodes: list[Schema] = []
    choices: list[Choice] = []
    seen: set[int] = set()
    todo = [*schemas]
    while todo:
        schema = todo.pop(0)
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        todo += [target for _, target in references.of(schema)]
        if not references.stands_alone(schema):
            todo += schema.get("allOf", ())
            nodes.append(schema)
            for choice in _choices(schema, references):
                if all(_REMARKS.issuperset(branch) and "type" in branch for branch in choice.branches):
                    nodes.append({"type": [name for branch in choice.branches for name in _types(branch)]})
                else:
                    choices.append(choice)
    return tuple(nodes), tuple(choices)


def _types(schema: Schema) -> list[str]:
    return [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])


def _choices(schema: Schema, references: References) -> Iterator[Choice]:
    for keyword in ("oneOf", "anyOf"):
        if branches := schema.get(keyword):
            found = tuple(branch for branch in branches if isinstance(branch, dict))
            followed = [references.followed(branch) or {} for branch in found]
            yield Choice(keyword, schema, found, discriminator_of(followed), True in branches)
    if isinstance(schema.get("if"), dict):
        yield Choice("if", schema, (schema["if"],))
    for keyword in ("dependentSchemas", "dependencies"):
        if keyword in schema:
            yield Choice(keyword, schema, ())


class Layout:
    """What `nodes` together say: schemas that all apply to the same value.

    `matches` tells whether a name meets a pattern.
    """

    def __init__(self, nodes: Schemas, matches: Callable[[str, str], bool]) -> None:
        self._nodes = nodes
        self._matches = matches
        self._names = frozenset(name for node in nodes for name in node.get("properties", ()))
        self._required = frozenset(name for node in nodes for name in _required(node))
        self._members: dict[str, Schemas | None] = {}

    @cached_property
    def target(self) -> Target:
        """What scalars are to become."""
        return Target.of(self._nodes)

    @cached_property
    def is_closed(self) -> bool:
        """Whether anything is said about which keys there are; where nothing is, all of them are meant."""
        return any(
            "properties" in node
            or "patternProperties" in node
            or node.get("additionalProperties") is False
            or node.get("unevaluatedProperties") is False
            for node in self._nodes
        )

    def member(self, name: str) -> Schemas | None:
        """What applies to the member `name`; None where nothing declares it."""
        if name not in self._names:
            return self._look(name)
        if name not in self._members:
            self._members[name] = self._look(name)
        return self._members[name]

    def element(self, index: int) -> Schemas:
        """What applies to an element."""
        found = (_element(node, index) for node in self._nodes)
        return tuple(schema for schema in found if isinstance(schema, dict))

    def _look(self, name: str) -> Schemas | None:
        schemas: list[Any] = []
        for node in self._nodes:
            here = [node["properties"][name]] if name in node.get("properties", ()) else []
            for pattern, schema in node.get("patternProperties", {}).items():
                if self._matches(pattern, name):
                    here.append(schema)
            rest = node.get("additionalProperties", node.get("unevaluatedProperties"))
            if not here and isinstance(rest, dict) and rest:
                here.append(rest)
            schemas += here
        if not schemas and name not in self._required:
            return None
        return tuple(schema for schema in schemas if isinstance(schema, dict))


def _required(node: Schema) -> list[str]:
    required = node.get("required", [])
    return required if isinstance(required, list) else []  # draft 3 had a truth value there


def _element(node: Schema, index: int) -> Any:
    items = node.get("items")
    first = node.get("prefixItems", items if isinstance(items, list) else [])
    if index < len(first):
        return first[index]
    rest = node.get("additionalItems") if isinstance(items, list) else items
    return node.get("unevaluatedItems") if rest is None else rest
