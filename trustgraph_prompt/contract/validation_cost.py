"""What it takes to hold a value against a schema: by references, a small schema may ask for a lot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

from trustgraph_prompt.contract.alternatives import have_string_tag
from trustgraph_prompt.contract.limits import MAX_CALL, MAX_STEPS, VALUE
from trustgraph_prompt.contract.references import BY_NAME, References, within
from trustgraph_prompt.errors import ContractError

_SMALL = 1_000  # subschemas to each value: no reason to measure values

# What a subschema applies. Of those `apart`, no two meet the same member or element; those `together` may.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_MEMBERS_APART = ("properties", "additionalProperties", "unevaluatedProperties")
_MEMBERS_TOGETHER = ("patternProperties", "propertyNames")
_ELEMENTS_APART = ("prefixItems", "items", "additionalItems", "unevaluatedItems")
_ELEMENTS_TOGETHER = ("contains",)
_APPLIES = {
    keyword: group
    for group, keywords in (
        ("in_place", _IN_PLACE),
        ("members_apart", _MEMBERS_APART),
        ("members_together", _MEMBERS_TOGETHER),
        ("elements_apart", _ELEMENTS_APART),
        ("elements_together", _ELEMENTS_TOGETHER),
    )
    for keyword in keywords
}
_REFERS = ("$ref", "$dynamicRef", "$recursiveRef")
_COUNTS = frozenset((*_APPLIES, *_REFERS))
_LEAF = 0  # no object has this id

# What takes longer than other keywords, and how many times as long.
_MULTIPLE = 100  # `multipleOf`
_COMPARED = 6  # each part of a container that a value is compared with


class ValidationCost:
    """How many subschemas meet a value and what is within it, at most.

    `has_alternatives` is whether there is an `anyOf` or `oneOf` in the schema, `rules_out` whether there is
    one where a look at a property rules out all branches but one. A branch that is ruled out counts as one
    look. With `explained` it counts in full, as an error comes with those of all branches. `part` is the
    subschema that is asked alone, in place of the whole schema.

    Raises `ContractError` where it takes more than `MAX_CALL` steps for every value, unless `explained`, and
    where a reference leads back to itself or names its target by anything but a JSON Pointer or an anchor.
    """

    def __init__(
        self,
        references: References,
        depth: int,
        *,
        part: Mapping[str, Any] | None = None,
        explained: bool = False,
    ) -> None:
        graph = _Graph(references, references.root if part is None else part, rules_out=not explained)
        self.has_alternatives = graph.has_alternatives
        self.rules_out = any(node.one_of for node in graph.nodes)
        self._depth = depth
        self._levels = _levels(graph.nodes, depth)
        if not explained and self._levels[0] * VALUE > MAX_CALL:
            raise ContractError("the schema is too large once its references are followed")

    @property
    def is_small(self) -> bool:
        """Whether it is little for every value, but for its depth."""
        return max(self._levels) <= _SMALL

    @property
    def has_end(self) -> bool:
        """Whether the schema asks nothing of what is nested deep enough; a recursive one has no end."""
        return self._levels[-1] == 0

    @property
    def widest(self) -> int:
        """How many subschemas meet one value at most, whatever its depth: steps for each character."""
        return max(self._levels)

    def of(self, value: object, most: int) -> int:
        """How many steps it takes to judge `value`, counted up to `most`. One nested deeper than the contract
        allows has more.
        """
        steps, depth, level = 0, 0, [value]
        while level and steps <= most:
            each = self._levels[min(depth, len(self._levels) - 1)]
            if not each:  # nor is anything asked of what is within
                break
            if depth > self._depth:
                return most + 1
            steps += each * (VALUE * len(level) + sum(map(_length, level)))
            level = list(chain.from_iterable(map(within, level)))
            depth += 1
        return steps


def _length(value: object) -> int:
    """Characters of a string, or of the keys of an object."""
    if isinstance(value, str):
        return len(value)
    return sum(map(len, value)) if isinstance(value, dict) else 0


@dataclass
class _Node:
    """The numbers of what a subschema applies: to the value itself, to its members, to its elements.

    `own` is what it takes without them. Of each group of `one_of` it applies only one.
    """

    own: int = 1
    in_place: list[int] = field(default_factory=list)
    one_of: list[list[int]] = field(default_factory=list)
    members_apart: list[int] = field(default_factory=list)
    members_together: list[int] = field(default_factory=list)
    elements_apart: list[int] = field(default_factory=list)
    elements_together: list[int] = field(default_factory=list)


def _levels(nodes: list[_Node], depth: int) -> list[int]:
    """How many subschemas meet a value, by its depth; the last number stands for all that are deeper."""
    order = _each_after_what_it_applies(nodes)
    levels: list[int] = []
    level: list[int] | None = None
    while len(levels) < depth:
        above, level = level, [0] * len(nodes)
        for index in order:
            node = nodes[index]
            met = node.own if above is None else _within_reach(node, above)
            met += sum(level[other] for other in node.in_place)
            met += sum(max(level[other] for other in group) for group in node.one_of)
            level[index] = min(met, MAX_STEPS + 1)
        if level == above:
            break
        levels.append(level[0])
    return levels


def _own(schema: Mapping[str, Any]) -> int:
    """The subschema itself, what of it takes long, and the containers that a value is compared with."""
    level = [one for one in schema.get("enum", ()) if isinstance(one, dict | list)]
    level += within(schema.get("const"))
    count = 1 + (_MULTIPLE if "multipleOf" in schema else 0)
    while level:
        count += _COMPARED * len(level)
        level = list(chain.from_iterable(map(within, level)))
    return count


def _within_reach(node: _Node, counts: list[int]) -> int:
    def most(apart: list[int], together: list[int]) -> int:
        if not apart and not together:  # as in most of them
            return 0
        count = counts.__getitem__
        return max(map(count, apart), default=0) + sum(map(count, together))

    return max(
        most(node.members_apart, node.members_together), most(node.elements_apart, node.elements_together)
    )


def _each_after_what_it_applies(nodes: list[_Node]) -> list[int]:
    try:
        before = {i: chain(node.in_place, *node.one_of) for i, node in enumerate(nodes)}
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        raise ContractError("a reference leads back to itself") from None


class _Graph:
    """The subschemas that count, `first` as the first; those that apply no others are all the same one."""

    def __init__(self, references: References, first: Mapping[str, Any], *, rules_out: bool) -> None:
        self.nodes: list[_Node] = []
        self.has_alternatives = False
        self._references = references
        self._rules_out = rules_out and references.know_const
        self._numbers: dict[int, int] = {}
        self._schemas: list[Mapping[str, Any]] = []
        self._enter(first, id(first))
        for subschema in self._schemas:  # grows on the way
            self.nodes.append(self._node(subschema))

    def _number(self, schema: Any) -> list[int]:
        """The number of a subschema; none for true and false, which cost nothing."""
        if not isinstance(schema, dict):
            return []
        key = _LEAF if _COUNTS.isdisjoint(schema) and _own(schema) == 1 else id(schema)
        if key == _LEAF:
            self._check_base(schema)
        if key not in self._numbers:
            self._enter(schema, key)
        return [self._numbers[key]]

    def _enter(self, schema: Mapping[str, Any], key: int) -> None:
        self._numbers[key] = len(self._schemas)
        self._schemas.append(schema)

    def _node(self, schema: Mapping[str, Any]) -> _Node:
        self._check_base(schema)
        node = _Node(own=_own(schema))
        for keyword in _APPLIES.keys() & schema.keys():
            target = getattr(node, _APPLIES[keyword])
            held = schema[keyword]
            if self._tells_one(keyword, held):
                node.own += len(held)
                node.one_of.append(target := [])
            one_or_more = within(held) if keyword in BY_NAME or isinstance(held, list) else (held,)
            for subschema in one_or_more:
                is_pattern = keyword == "patternProperties"  # which is held against each name
                target += self._number({} if is_pattern and isinstance(subschema, bool) else subschema)
        for _, subschema in self._references.of(schema):
            node.in_place += self._number(subschema)
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.in_place *= 3  # the validator asks them again what they looked at, up to twice
            node.one_of *= 3
        return node

    def _tells_one(self, keyword: str, held: Any) -> bool:
        return self._rules_out and keyword in ("anyOf", "oneOf") and have_string_tag(held, self._references)

    def _check_base(self, schema: Mapping[str, Any]) -> None:
        base = self._references.base_of(schema)
        if base is not None and schema is not self._references.root:
            raise ContractError("an $id within a schema", found=base, expected="one of the whole schema only")
