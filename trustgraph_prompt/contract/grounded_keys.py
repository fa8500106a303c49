"""The keys of a schema whose values stand in a text that was asked about: `x-from`, `x-grounding`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

from trustgraph_prompt.contract.coerce import type_of
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.contract.versions import PROPERTY, Version, nearest
from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.pointer import pointer

FROM, GROUNDING = "x-from", "x-grounding"
"""Keywords of ours: the terms in which a value stands, and what becomes of one that does not."""

Policy = Literal["refuse", "strict", "mark"]
"""What becomes of a value that does not stand there: refused where not one word of it does, refused where
not all of it does, or published, and marked."""

_CHOICES = ("anyOf", "oneOf")
_LOOKED_INTO = "properties, additionalProperties, items, prefixItems, allOf, anyOf or oneOf"
_DEFINITIONS = frozenset(("$defs", "definitions"))
_HOLDERS = frozenset(("string", "integer", "number", "array"))
_NUMBERS = frozenset(("integer", "number"))


class Source(NamedTuple):
    """The terms of which one holds a value, and what becomes of a value that none of them holds."""

    terms: tuple[str, ...]
    policy: Policy


@dataclass(slots=True)
class _Node:
    """What a subschema says of a value, and of its parts."""

    schema: Mapping[str, Any]
    source: Source | None = None
    properties: dict[str, _Node] = field(default_factory=dict)
    others: _Node | None = None  # properties that are not among these
    first_items: list[_Node] = field(default_factory=list)
    items: _Node | None = None  # those behind them
    also: list[_Node] = field(default_factory=list)  # what it refers to, or has in an allOf
    choices: list[list[_Node]] = field(default_factory=list)  # of which one or more apply
    is_useful: bool = False  # it leads to a source
    is_leaf: bool = False  # it has one, and no parts

    @property
    def parts(self) -> list[_Node]:
        single = [part for part in (self.others, self.items) if part is not None]
        alternatives = chain.from_iterable(self.choices)
        return [*self.properties.values(), *self.first_items, *single, *self.also, *alternatives]

    def means(self, value: Any) -> bool:
        """Whether it may be meant by a value, which meets the schema as a whole."""
        said = self.schema
        if "type" in said and not _is_of(value, said["type"]):
            return False
        values = [said["const"]] if "const" in said else said.get("enum")
        if isinstance(values, list) and not _is_among(value, values):
            return False
        if isinstance(value, dict):
            if not value.keys() >= set(_list(said.get("required", []))):
                return False
            named = ((part, value[name]) for name, part in self.properties.items() if name in value)
            if not all(part.means(found) for part, found in named):
                return False
        return all(part.means(value) for part in self.also if part is not self)

    def below(self, name: str | int) -> _Node | None:
        """What says something of a property, or of an element."""
        if isinstance(name, str):
            return self.properties.get(name, self.others)
        return self.first_items[name] if name < len(self.first_items) else self.items


class Sources:
    """Those of a schema, or of the schemas of several versions. `said` is what they say, for a hash."""

    def __init__(self, roots: Mapping[Version | None, _Node], said: list[list[Any]]) -> None:
        self._roots = roots
        self.said = said
        self.terms = frozenset(term for _, source in said for term in source[0])

    @classmethod
    def take(cls, schemas: Mapping[Version | None, dict[str, Any]]) -> Sources | None:
        """Take the sources out of schemas; None where there are none.

        The schemas are by version, and None is that of values without one. What judges form, and what a
        model or a server is shown, knows nothing of sources. Raises `ContractError` for one that is written
        wrongly, or stands where no value is looked for.
        """
        if not any(map(_speaks_of_sources, schemas.values())):
            return None
        places: dict[Version | None, Path] = {
            each: () if each is None else ("versions", str(each)) for each in schemas
        }
        parts = [
            ((*places[version], *path), part)
            for version, schema in schemas.items()
            for path, part in References(schema).subschemas()
            if FROM in part or GROUNDING in part
        ]
        builder, said = _Builder(), []
        roots = {version: builder.of(schema, References(schema)) for version, schema in schemas.items()}
        for path, part in parts:
            source, node = _source(part, path), builder.nodes.get(id(part))
            if node is None and _DEFINITIONS.isdisjoint(path):
                raise ContractError(
                    "no value is looked for here",
                    path=pointer((*path, FROM)),
                    found=part[FROM],
                    expected=f"below {_LOOKED_INTO}",
                )
            if node is not None:
                node.source = source
                said.append([pointer(path), [list(source.terms), source.policy]])
        for _, part in parts:
            assert isinstance(part, dict)
            part.pop(FROM, None)
            part.pop(GROUNDING, None)
        builder.find_useful()
        return cls(roots, sorted(said)) if said else None

    def values(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        """The strings and numbers that have sources, as texts, each with its path; of lists each one."""
        seen: set[Path] = set()
        for path, source, said in _found([self._root_of(value)], value, ()):
            if path not in seen:
                seen.add(path)
                yield path, source, said

    def _root_of(self, value: Any) -> _Node:
        named = Version.parse(value[PROPERTY]) if isinstance(value, dict) and PROPERTY in value else None
        versions = (version for version in self._roots if version is not None)
        return self._roots[nearest(named, versions) if named and len(self._roots) > 1 else None]


class _Builder:
    """Makes nodes of subschemas, each once: a schema may lead back to itself."""

    def __init__(self) -> None:
        self.nodes: dict[int, _Node] = {}

    def of(self, schema: Mapping[str, Any], references: References) -> _Node:
        root = self._node(schema)
        open_ = [schema]
        while open_:
            part = open_.pop()
            node = self.nodes[id(part)]

            def within(one: Any) -> _Node:
                if isinstance(one, dict) and id(one) not in self.nodes:
                    open_.append(one)
                return self._node(one) if isinstance(one, dict) else _ANYTHING

            node.properties = {name: within(one) for name, one in _mapping(part.get("properties")).items()}
            node.others = within(part["additionalProperties"]) if "additionalProperties" in part else None
            items = part.get("items")
            first = items if isinstance(items, list) else part.get("prefixItems")
            node.first_items = list(map(within, _list(first)))
            behind = part.get("additionalItems") if isinstance(items, list) else items
            node.items = within(behind) if behind is not None else None
            referred = [place for _, place in references.of(part)]
            node.also = [within(one) for one in (*_list(part.get("allOf")), *referred)]
            node.choices = [list(map(within, _list(part[name]))) for name in _CHOICES if name in part]
        return root

    def _node(self, schema: Mapping[str, Any]) -> _Node:
        return self.nodes.setdefault(id(schema), _Node(schema))

    def find_useful(self) -> None:
        """Mark what leads to a source."""
        above: dict[int, list[_Node]] = {}
        for node in self.nodes.values():
            for part in node.parts:
                above.setdefault(id(part), []).append(node)
        open_ = [node for node in self.nodes.values() if node.source]
        while open_:
            node = open_.pop()
            if not node.is_useful:
                node.is_useful = True
                node.is_leaf = node.source is not None and not node.parts
                open_ += above.get(id(node), ())


_ANYTHING = _Node({})


def _speaks_of_sources(schema: Mapping[str, Any]) -> bool:
    text = json.dumps(schema)
    return any(f'"{keyword}"' in text for keyword in (FROM, GROUNDING))


def _found(nodes: list[_Node], value: Any, path: Path) -> Iterator[tuple[Path, Source, str]]:
    said = _all_that_apply(nodes, value)
    for node in said:
        if node.source is not None:
            yield from _texts(node.source, value, path)
    if isinstance(value, dict):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        return
    for name, part in parts:
        about = [below for node in said if (below := node.below(name)) is not None and below.is_useful]
        if len(about) == 1 and about[0].is_leaf and type(part) is str:  # as of nearly all
            if part.strip():
                yield (*path, name), about[0].source, part  # type: ignore[misc]
        elif about:
            yield from _found(about, part, (*path, name))


def _all_that_apply(nodes: list[_Node], value: Any) -> list[_Node]:
    """These nodes, and what a value means of their choices, each once.

    Of a choice nothing applies where the value may be one that needs no source.
    """
    if not any(node.also or node.choices for node in nodes):
        return nodes
    found: dict[int, _Node] = {}
    open_ = list(nodes)
    while open_:
        node = open_.pop()
        if id(node) not in found:
            found[id(node)] = node
            open_ += node.also
            for choice in node.choices:
                meant = [branch for branch in choice if branch.means(value)]
                open_ += meant if all(branch.is_useful for branch in meant) else ()
    return list(found.values())


def _texts(source: Source, value: Any, path: Path) -> Iterator[tuple[Path, Source, str]]:
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(source, part, (*path, index))
    elif isinstance(value, str) and value.strip():
        yield path, source, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, source, format(Decimal(repr(value)), "f")


def _source(schema: Mapping[str, Any], path: Path) -> Source:
    if FROM not in schema:
        raise ContractError(
            f"`{GROUNDING}` says nothing without `{FROM}`", path=pointer((*path, GROUNDING)), expected=FROM
        )
    types = schema.get("type", "string")
    if _HOLDERS.isdisjoint([types] if isinstance(types, str) else types):
        raise ContractError(
            "this holds no strings and no numbers",
            path=pointer((*path, FROM)),
            found=types,
            expected=f"`{FROM}` beside a type of {', '.join(sorted(_HOLDERS))}",
        )
    said, policy = schema[FROM], schema.get(GROUNDING, "refuse")
    terms = [said] if isinstance(said, str) else said
    if not isinstance(terms, list) or not terms or not all(isinstance(term, str) and term for term in terms):
        raise ContractError(
            f"`{FROM}` names no term",
            path=pointer((*path, FROM)),
            found=said,
            expected="the name of a term, or a list of names",
        )
    if policy not in get_args(Policy):
        raise ContractError(
            f"unknown `{GROUNDING}`",
            path=pointer((*path, GROUNDING)),
            found=policy,
            expected="refuse, strict or mark",
        )
    return Source(tuple(dict.fromkeys(terms)), policy)


def _is_of(value: Any, types: Any) -> bool:
    """Whether a value is of one of the types of JSON; 1.0 may be an integer."""
    name = type_of(value)
    return any(one in types for one in (_NUMBERS if name in _NUMBERS else (name,)))


def _is_among(value: Any, values: list[Any]) -> bool:
    """As JSON has it: true is not 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
