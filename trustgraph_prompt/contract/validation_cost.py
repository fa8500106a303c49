"""The cost of validating a value: with references, even a small schema can take very long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

from trustgraph_prompt.contract.alternatives import have_string_tag
from trustgraph_prompt.contract.limits import MAX_CALL, MAX_STEPS, VALUE
from trustgraph_prompt.contract.references import BY_NAME, References
from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.values import levels, within

_SMALL = 1_000  # subschemas that apply to a value; with fewer, values are not measured

_APPLIES = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"), "in_place"),
    **dict.fromkeys(("dependentSchemas", "dependencies"), "in_place"),
    **dict.fromkeys(("properties", "additionalProperties", "unevaluatedProperties"), "members_apart"),
    **dict.fromkeys(("patternProperties", "propertyNames"), "members_together"),
    **dict.fromkeys(("prefixItems", "items", "additionalItems", "unevaluatedItems"), "elements_apart"),
    "contains": "elements_together",
}
"""Keywords that apply subschemas, and to what: of those `apart`, one applies to a member or an element, while
`together` all of them may. The names are attributes of `_Applied`."""

_REFERS = ("$ref", "$dynamicRef", "$recursiveRef")
_COUNTS = frozenset((*_APPLIES, *_REFERS))
_LEAF = 0  # no object has this id

# Keywords that take longer than others, and how many times as long.
_MULTIPLE = 100  # `multipleOf`
_COMPARED = 6  # for each part of a container in `enum` or `const`


class ValidationCost:
    """The maximum number of subschemas that apply to a value and to its parts.

    `has_alternatives`: the schema has an `anyOf` or `oneOf`. `rules_out`: it has one with a string tag, which
    rules out all branches but one. A branch that is ruled out counts as one step; with `explained` it counts
    in full, as an error contains those of all branches. `part` is a subschema to validate against instead of
    the whole schema.

    Raises `ContractError` if every value takes more than `MAX_CALL` steps, unless `explained`, and if a
    reference is circular or is neither a JSON Pointer nor an anchor.
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
        """Whether the cost is small for every value, apart from its depth."""
        return max(self._levels) <= _SMALL

    @property
    def has_end(self) -> bool:
        """Whether nothing applies to values from some depth on; a recursive schema has no end."""
        return self._levels[-1] == 0

    @property
    def widest(self) -> int:
        """The maximum number of subschemas for one value at any depth: steps for each character."""
        return max(self._levels)

    def of(self, value: object, most: int) -> int:
        """The steps to validate `value`; more than `most` if it exceeds that or the depth of the contract."""
        steps, depth, level = 0, 0, [value]
        while level and steps <= most:  # not `levels`: it is called for each value of an array
            each = self._levels[min(depth, len(self._levels) - 1)]
            if not each:  # nothing applies to the parts either
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
class _Applied:
    """The numbers of the subschemas that a subschema applies to the value, its members and its elements.

    `own` is its cost without them. Of each group in `one_of`, only one applies.
    """

    own: int = 1
    in_place: list[int] = field(default_factory=list)
    one_of: list[list[int]] = field(default_factory=list)
    members_apart: list[int] = field(default_factory=list)
    members_together: list[int] = field(default_factory=list)
    elements_apart: list[int] = field(default_factory=list)
    elements_together: list[int] = field(default_factory=list)


def _levels(nodes: list[_Applied], depth: int) -> list[int]:
    """The number of subschemas that apply to a value, by its depth; the last one for all greater depths."""
    try:
        applied = {i: chain(node.in_place, *node.one_of) for i, node in enumerate(nodes)}
        order = list(TopologicalSorter(applied).static_order())
    except CycleError:
        raise ContractError("circular reference") from None
    levels: list[int] = []
    level: list[int] | None = None
    while len(levels) < depth:
        above, level = level, [0] * len(nodes)
        for index in order:
            node = nodes[index]
            met = node.own if above is None else _in_parts(node, above)
            met += sum(level[other] for other in node.in_place)
            met += sum(max(level[other] for other in group) for group in node.one_of)
            level[index] = min(met, MAX_STEPS + 1)
        if level == above:
            break
        levels.append(level[0])
    return levels


def _own(schema: Mapping[str, Any]) -> int:
    """The cost of a subschema without those that it applies; with slow keywords and containers in `enum`."""
    containers = [value for value in schema.get("enum", ()) if isinstance(value, dict | list)]
    containers += within(schema.get("const"))
    compared = sum(map(len, chain.from_iterable(map(levels, containers))))
    return 1 + (_MULTIPLE if "multipleOf" in schema else 0) + _COMPARED * compared


def _in_parts(node: _Applied, counts: list[int]) -> int:
    def most(apart: list[int], together: list[int]) -> int:
        if not apart and not together:  # the usual case
            return 0
        count = counts.__getitem__
        return max(map(count, apart), default=0) + sum(map(count, together))

    return max(
        most(node.members_apart, node.members_together), most(node.elements_apart, node.elements_together)
    )


class _Graph:
    """The nodes of the subschemas, beginning with `first`; all that apply no others share one node."""

    def __init__(self, references: References, first: Mapping[str, Any], *, rules_out: bool) -> None:
        self.nodes: list[_Applied] = []
        self.has_alternatives = False
        self._references = references
        self._rules_out = rules_out and references.know_const
        self._numbers: dict[int, int] = {}
        self._schemas: list[Mapping[str, Any]] = []
        self._enter(first, id(first))
        for subschema in self._schemas:  # which grows in the loop
            self.nodes.append(self._node(subschema))

    def _number(self, schema: Any) -> list[int]:
        """The number of a subschema in a list; [] for true and false, which cost nothing."""
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

    def _node(self, schema: Mapping[str, Any]) -> _Applied:
        self._check_base(schema)
        node = _Applied(own=_own(schema))
        for keyword in _APPLIES.keys() & schema.keys():
            target = getattr(node, _APPLIES[keyword])
            held = schema[keyword]
            may_rule_out = self._rules_out and keyword in ("anyOf", "oneOf")
            if may_rule_out and have_string_tag(held, self._references):
                node.own += len(held)
                node.one_of.append(target := [])
            one_or_more = within(held) if keyword in BY_NAME or isinstance(held, list) else (held,)
            for subschema in one_or_more:
                is_pattern = keyword == "patternProperties"  # matched against each name
                target += self._number({} if is_pattern and isinstance(subschema, bool) else subschema)
        for _, subschema in self._references.of(schema):
            node.in_place += self._number(subschema)
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.in_place *= 3  # the validator evaluates them up to two times more
            node.one_of *= 3
        return node

    def _check_base(self, schema: Mapping[str, Any]) -> None:
        base = self._references.base_of(schema)
        if base is not None and schema is not self._references.root:
            raise ContractError("a nested $id is not supported", found=base, expected="$id at the root only")
