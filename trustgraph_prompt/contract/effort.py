"""What it takes to hold a value against a schema: by references, a small schema may ask for a lot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any
from urllib.parse import unquote

from trustgraph_prompt.contract.pointer import follow
from trustgraph_prompt.errors import ContractError

MAX_EFFORT = 50_000_000  # about a second
_SMALL = 1_000  # subschemas to each value: no reason to measure values
_LEVELS = 200  # the reader refuses deeper values

# What a subschema applies. Of those `apart`, no two meet the same member or element; those `together` may.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_MEMBERS_APART = ("properties", "additionalProperties", "unevaluatedProperties")
_MEMBERS_TOGETHER = ("patternProperties", "propertyNames")
_ELEMENTS_APART = ("prefixItems", "items", "additionalItems", "unevaluatedItems")
_ELEMENTS_TOGETHER = ("contains",)
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_ANCHORS = ("$anchor", "$dynamicAnchor")


class Effort:
    """How many subschemas meet a value and what is within it, at most.

    `has_alternatives` is whether there is an `anyOf` or `oneOf` in the schema. Raises `ContractError` where
    it asks more than `MAX_EFFORT` of every value, and where a reference leads back to itself or names its
    target by anything but a JSON Pointer or an anchor.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        graph = _Graph(schema)
        self.has_alternatives = graph.has_alternatives
        self._levels = _levels(graph.nodes)
        if self._levels[0] > MAX_EFFORT:
            raise ContractError("the schema is too large once its references are followed")

    @property
    def is_small(self) -> bool:
        """Whether it is so for every value."""
        return max(self._levels) <= _SMALL

    def exceeds(self, limit: int, value: object) -> bool:
        """Whether it takes more than `limit` to judge `value`."""
        effort, depth, level = 0, 0, [value]
        while level and effort <= limit:
            effort += len(level) * self._levels[min(depth, len(self._levels) - 1)]
            level = list(chain.from_iterable(map(_within, level)))
            depth += 1
        return effort > limit


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


@dataclass
class _Node:
    """The numbers of what a subschema applies: to the value itself, to its members, to its elements."""

    in_place: list[int]
    members_apart: list[int]
    members_together: list[int]
    elements_apart: list[int]
    elements_together: list[int]


def _levels(nodes: list[_Node]) -> list[int]:
    """How many subschemas meet a value, by its depth; the last number stands for all that are deeper."""
    order = _each_after_what_it_applies(nodes)
    levels: list[int] = []
    level: list[int] | None = None
    while len(levels) < _LEVELS:
        above, level = level, [0] * len(nodes)
        for index in order:
            node = nodes[index]
            met = 1 if above is None else _within_reach(node, above)
            level[index] = min(met + sum(level[other] for other in node.in_place), MAX_EFFORT + 1)
        if level == above:
            break
        levels.append(level[0])
    return levels


def _within_reach(node: _Node, counts: list[int]) -> int:
    def most(apart: list[int], together: list[int]) -> int:
        return max((counts[i] for i in apart), default=0) + sum(counts[i] for i in together)

    return max(
        most(node.members_apart, node.members_together), most(node.elements_apart, node.elements_together)
    )


def _each_after_what_it_applies(nodes: list[_Node]) -> list[int]:
    try:
        return list(TopologicalSorter({i: node.in_place for i, node in enumerate(nodes)}).static_order())
    except CycleError:
        raise ContractError("a reference leads back to itself") from None


class _Graph:
    """The subschemas that count, the whole schema first."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.nodes: list[_Node] = []
        self._schema = schema
        self.has_alternatives = False
        self._numbers: dict[int, int] = {}
        self._schemas: list[Mapping[str, Any]] = []
        self._base = _base_of(schema, schema)
        self._anchors: dict[str, Mapping[str, Any]] = {}
        for name, subschema in _anchors(schema):
            if name in self._anchors:
                raise ContractError("an anchor is there twice", found=name)
            self._anchors[name] = subschema
        self._number(schema)
        for subschema in self._schemas:  # grows on the way
            self.nodes.append(self._node(subschema))

    def _number(self, schema: Any) -> list[int]:
        """The number of a subschema; none for true and false, which cost nothing."""
        if not isinstance(schema, dict):
            return []
        if id(schema) not in self._numbers:
            self._numbers[id(schema)] = len(self._schemas)
            self._schemas.append(schema)
        return [self._numbers[id(schema)]]

    def _held(self, schema: Mapping[str, Any], keywords: Iterable[str]) -> list[int]:
        """The numbers of the subschemas that `keywords` hold: one, a list of them, or some by name."""
        numbers: list[int] = []
        for keyword in keywords:
            held = schema.get(keyword)
            one_or_more = _within(held) if keyword in _BY_NAME or isinstance(held, list) else (held,)
            for subschema in one_or_more:
                numbers += self._number(subschema)
        return numbers

    def _node(self, schema: Mapping[str, Any]) -> _Node:
        base = _base_of(schema, self._schema)
        if schema is not self._schema and base is not None:
            raise ContractError("an $id within a schema", found=base, expected="one of the whole schema only")
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        in_place = self._held(schema, _IN_PLACE)
        in_place += self._target(schema.get("$ref")) + self._target(schema.get("$dynamicRef"))
        if "$recursiveRef" in schema:
            in_place += self._number(self._schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            in_place *= 3  # the validator asks them again what they looked at, up to twice
        return _Node(
            in_place,
            self._held(schema, _MEMBERS_APART),
            self._held(schema, _MEMBERS_TOGETHER),
            self._held(schema, _ELEMENTS_APART),
            self._held(schema, _ELEMENTS_TOGETHER),
        )

    def _target(self, reference: Any) -> list[int]:
        if reference is None:
            return []
        base, _, fragment = reference.partition("#")
        target: Any = None
        if base in ("", self._base):
            target = self._schema if not fragment else self._anchors.get(fragment)
            if fragment.startswith("/"):
                target = follow(self._schema, unquote(fragment))
        if not isinstance(target, dict | bool):
            raise ContractError(
                "unknown reference", found=reference, expected="a JSON Pointer or an anchor within the schema"
            )
        return self._number(target)


def _base_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str | None:
    key = "id" if "draft-04" in root.get("$schema", "") else "$id"
    base = schema.get(key)
    return base.rstrip("#") if isinstance(base, str) else None


def _anchors(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, dict):
        for key in _ANCHORS:
            if isinstance(value.get(key), str):
                yield value[key], value
    for inner in _within(value):
        yield from _anchors(inner)
