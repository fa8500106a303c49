"""The keys of a schema whose values stand in a text that was asked about: `x-from`, `x-grounding`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from trustgraph_prompt.contract.pointer import pointer
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.language.constraints import FROM, GROUNDING

Policy = Literal["refuse", "strict", "mark"]
"""What becomes of a value that does not stand there: refused where not one word of it does, refused where
not all of it does, or published, and marked."""

_BRANCHES = ("allOf", "anyOf", "oneOf")


class Source(NamedTuple):
    """The terms of which one holds a value, and what becomes of a value that none of them holds."""

    terms: tuple[str, ...]
    policy: Policy


@dataclass(slots=True)
class _Node:
    """What a subschema says of a value, and of its parts."""

    source: Source | None = None
    properties: dict[str, _Node] = field(default_factory=dict)
    others: _Node | None = None  # properties that are not among these
    items: _Node | None = None
    branches: list[_Node] = field(default_factory=list)
    chosen_by: dict[str, list[Any]] = field(default_factory=dict)  # the values of properties that mean it

    @property
    def parts(self) -> list[_Node]:
        single = [part for part in (self.others, self.items) if part is not None]
        return [*self.properties.values(), *single, *self.branches]

    def keep(self, useful: set[int]) -> None:
        """Drop the parts that lead to no source."""
        self.properties = {name: part for name, part in self.properties.items() if id(part) in useful}
        self.branches = [part for part in self.branches if id(part) in useful]
        self.others = self.others if id(self.others) in useful else None
        self.items = self.items if id(self.items) in useful else None

    def means(self, value: Any) -> bool:
        """Whether, as a branch, it may be meant by a value."""
        if not isinstance(value, dict):
            return True
        return all(value[name] in chosen for name, chosen in self.chosen_by.items() if name in value)


class Sources:
    """Those of a schema, or of several of which any may be meant. `said` is what they say, for a hash."""

    def __init__(self, root: _Node, said: list[list[Any]]) -> None:
        self._root = root
        self.said = said
        self.terms = frozenset(term for _, source in said for term in source[0])

    @classmethod
    def take(cls, schemas: Mapping[Path, dict[str, Any]]) -> Sources | None:
        """Take the sources out of schemas, each at its path; None where there are none.

        What judges form, and what a model or a server is shown, knows nothing of them. Raises
        `ContractError` for a source that is written wrongly, or stands where no value is looked for.
        """
        if not any(_speaks_of_sources(schema) for schema in schemas.values()):
            return None
        parts = [
            ((*begin, *path), part)
            for begin, schema in schemas.items()
            for path, part in References(schema).subschemas()
            if FROM in part or GROUNDING in part
        ]
        builder, said = _Builder(), []
        roots = [builder.of(schema, References(schema)) for schema in schemas.values()]
        for path, part in parts:
            source = _source(part, path)
            if id(part) not in builder.nodes:
                raise ContractError(
                    "no value is looked for here",
                    path=pointer((*path, FROM)),
                    found=part[FROM],
                    expected="below properties, additionalProperties, items, allOf, anyOf and oneOf",
                )
            builder.nodes[id(part)].source = source
            said.append([pointer(path), [list(source.terms), source.policy]])
        for _, part in parts:
            assert isinstance(part, dict)
            part.pop(FROM, None)
            part.pop(GROUNDING, None)
        if not said:  # of properties that are called so
            return None
        builder.prune()
        return cls(roots[0] if len(roots) == 1 else _Node(branches=roots), sorted(said))

    def values(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        """The strings and numbers that have sources, as texts, each with its path; of lists each one."""
        seen: set[Path] = set()
        for path, source, said in _found([self._root], value, ()):
            if path not in seen:
                seen.add(path)
                yield path, source, said


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
            for name, one in _mapping(part.get("properties")).items():
                node.properties[name] = self._part(one, open_)
            node.others = self._part(part.get("additionalProperties"), open_)
            node.items = self._part(part.get("items"), open_)
            alternatives = [one for keyword in _BRANCHES for one in _list(part.get(keyword))]
            referred = [place for _, place in references.of(part)]
            node.branches = [self._part(one, open_) for one in (*alternatives, *referred)]
        return root

    def _part(self, schema: Any, open_: list[Mapping[str, Any]]) -> _Node:
        if not isinstance(schema, dict):
            return _NOTHING
        if id(schema) not in self.nodes:
            open_.append(schema)
        return self._node(schema)

    def _node(self, schema: Mapping[str, Any]) -> _Node:
        return self.nodes.setdefault(id(schema), _Node(chosen_by=_chosen_by(schema)))

    def prune(self) -> None:
        """Keep what leads to a source."""
        above: dict[int, list[_Node]] = {}
        for node in self.nodes.values():
            for part in node.parts:
                above.setdefault(id(part), []).append(node)
        useful = {id(node) for node in self.nodes.values() if node.source}
        open_ = list(useful)
        while open_:
            fresh = [id(node) for node in above.get(open_.pop(), ()) if id(node) not in useful]
            useful.update(fresh)
            open_ += fresh
        for node in self.nodes.values():
            node.keep(useful)


_NOTHING = _Node()


def _speaks_of_sources(schema: Mapping[str, Any]) -> bool:
    text = json.dumps(schema)
    return any(f'"{keyword}"' in text for keyword in (FROM, GROUNDING))


def _found(nodes: Iterable[_Node], value: Any, path: Path) -> Iterator[tuple[Path, Source, str]]:
    said = _all_that_apply(nodes, value)
    for node in said:
        if node.source is not None:
            yield from _texts(node.source, value, path)
    if isinstance(value, dict):
        for name, part in value.items():
            below = (node.properties.get(name) or node.others for node in said)
            if about_part := [node for node in below if node]:
                yield from _found(about_part, part, (*path, name))
    elif isinstance(value, list) and (about_items := [node.items for node in said if node.items]):
        for index, part in enumerate(value):
            yield from _found(about_items, part, (*path, index))


def _all_that_apply(nodes: Iterable[_Node], value: Any) -> list[_Node]:
    """These nodes and the branches that a value may mean, each once: branches may lead in a circle."""
    found: dict[int, _Node] = {}
    open_ = list(nodes)
    while open_:
        node = open_.pop()
        if id(node) not in found:
            found[id(node)] = node
            open_ += (branch for branch in node.branches if branch.means(value))
    return list(found.values())


def _texts(source: Source, value: Any, path: Path) -> Iterator[tuple[Path, Source, str]]:
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(source, part, (*path, index))
    elif isinstance(value, str) and value.strip():
        yield path, source, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, source, str(value)


def _source(schema: Mapping[str, Any], path: Path) -> Source:
    if FROM not in schema:
        raise ContractError(
            f"`{GROUNDING}` says nothing without `{FROM}`", path=pointer((*path, GROUNDING)), expected=FROM
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


def _chosen_by(schema: Mapping[str, Any]) -> dict[str, list[Any]]:
    chosen = {}
    for name, one in _mapping(schema.get("properties")).items():
        if isinstance(one, dict) and ("const" in one or isinstance(one.get("enum"), list)):
            chosen[name] = [one["const"]] if "const" in one else one["enum"]
    return chosen


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
