"""The keys of a schema whose values must occur in the terms: `x-from`, `x-grounding`, `x-quote`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from trustgraph_prompt.contract.compile_schema import Schema
from trustgraph_prompt.contract.references import Path, References, values_in
from trustgraph_prompt.contract.schema_versions import PROPERTY, Version, nearest
from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import is_one_of, type_of

FROM, GROUNDING, QUOTE = "x-from", "x-grounding", "x-quote"
"""Our keywords: the terms in which a value must occur, what to do if it does not, and the terms that a value
is copied from, as the evidence of its object."""

Policy = Literal["refuse", "strict", "mark"]
"""How a value that does not occur there is handled.

refuse: rejected if none of its words occurs. strict: rejected unless all of it occurs. mark: accepted, and
marked.
"""

_KEYWORDS = frozenset((FROM, GROUNDING, QUOTE))
_CHOICES = ("anyOf", "oneOf")
_LOOKED_INTO = "properties, additionalProperties, items, prefixItems, allOf, anyOf or oneOf"
_DEFINITIONS = frozenset(("$defs", "definitions"))
_HOLDERS = frozenset(("string", "integer", "number", "array"))
_NUMBERS = frozenset(("integer", "number"))


class Source(NamedTuple):
    """The terms of which one must hold a value, and the policy for a value that none of them holds.

    A "quote" must be copied from a term. `keyword` is the JSON Pointer of the source in the contract, as in
    `Issue`. A value that `may_be_null` can be left out without its object.
    """

    terms: tuple[str, ...]
    policy: Policy | Literal["quote"]
    keyword: str
    may_be_null: bool = False


@dataclass(slots=True)
class _Subschema:
    """A subschema: its source, and the nodes of the parts of a value."""

    schema: Mapping[str, Any]
    source: Source | None = None
    properties: dict[str, _Subschema] = field(default_factory=dict)
    others: _Subschema | None = None  # of other properties
    first_items: list[_Subschema] = field(default_factory=list)
    items: _Subschema | None = None  # of the elements after them
    also: list[_Subschema] = field(default_factory=list)  # of its references and its allOf
    choices: list[list[_Subschema]] = field(default_factory=list)  # of which one or more branches apply
    is_useful: bool = False  # it, or a node below it, has a source
    is_leaf: bool = False  # it has a source and no parts

    @property
    def parts(self) -> list[_Subschema]:
        single = [part for part in (self.others, self.items) if part is not None]
        alternatives = chain.from_iterable(self.choices)
        return [*self.properties.values(), *self.first_items, *single, *self.also, *alternatives]

    def accepts(self, value: Any) -> bool:
        """Whether this branch may apply to a value that is valid as a whole."""
        schema = self.schema
        if "type" in schema and not _has_type(value, schema["type"]):
            return False
        values = values_in(schema)
        if isinstance(values, list) and not is_one_of(value, values):
            return False
        if isinstance(value, dict):
            if not value.keys() >= set(_list(schema.get("required", []))):
                return False
            members = ((part, value[name]) for name, part in self.properties.items() if name in value)
            if not all(part.accepts(member) for part, member in members):
                return False
        return all(part.accepts(value) for part in self.also if part is not self)

    def below(self, name: str | int) -> _Subschema | None:
        """The node of a property or of an element, if any."""
        if isinstance(name, str):
            return self.properties.get(name, self.others)
        return self.first_items[name] if name < len(self.first_items) else self.items


class Sources:
    """The sources in a schema, or in the schemas of several versions; `said` lists them for a hash.

    `quotes` are the sources of the quotes of an object, by key.
    """

    def __init__(
        self,
        roots: Mapping[Version | None, _Subschema],
        said: list[list[Any]],
        quotes: Mapping[str, Source],
    ) -> None:
        self._roots = roots
        self.said = said
        self.quotes = quotes
        self.terms = frozenset(term for _, source in said for term in source[0])

    @classmethod
    def take(cls, schemas: Mapping[Version | None, Schema | None]) -> Sources | None:
        """Remove the sources from schemas and return them; None if there are none.

        `schemas` are by version, with the key None for values without a version. They lose the keywords
        because the validator, the model and the server must not see them. Raises `ContractError` for an
        invalid source, or one at a place where values are not checked.
        """
        texts = map(json.dumps, schemas.values())
        if not any(f'"{keyword}"' in text for text in texts for keyword in _KEYWORDS):
            return None
        objects = {version: schema for version, schema in schemas.items() if isinstance(schema, dict)}
        parts = [
            ((*(() if version is None else ("versions", str(version))), *path), part)
            for version, schema in objects.items()
            for path, part in References(schema).subschemas()
            if not _KEYWORDS.isdisjoint(part)
        ]
        builder, said = _Builder(), []
        quotes = _Quotes(objects.values() if any(QUOTE in part for _, part in parts) else ())
        marked = {version: builder.of(schema, References(schema)) for version, schema in objects.items()}
        for path, part in parts:
            if QUOTE in part:
                said.append([pointer(path), [list(quotes.take(part, path).terms), "quote"]])
                continue
            source, node = _source(part, path), builder.nodes.get(id(part))
            if node is None and _DEFINITIONS.isdisjoint(path):
                _refuse(f"`{FROM}` has no effect here", (*path, FROM), part[FROM], f"below {_LOOKED_INTO}")
            if node is not None:
                node.source = source
                said.append([pointer(path), [list(source.terms), source.policy]])
        for _, part in parts:
            assert isinstance(part, dict)
            for keyword in _KEYWORDS:
                part.pop(keyword, None)
        builder.find_useful()
        roots = {**dict.fromkeys(schemas, _ANYTHING), **marked}
        return cls(roots, sorted(said), quotes.found) if said else None

    def without_quotes(self, value: Any) -> Any:
        """An object, or the objects of a list, without their quotes; the same value if it has none."""
        if self.quotes and isinstance(value, list):
            return [self.without_quotes(item) for item in value]
        if not isinstance(value, dict) or value.keys().isdisjoint(self.quotes):
            return value
        return {name: part for name, part in value.items() if name not in self.quotes}

    def values(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        """Yield path, source and text of all strings and numbers with a source, also those in lists.

        Quotes come first.
        """
        yield from self.quotes_of(value)
        seen: set[Path] = set()
        for path, source, text in _found([self._root_of(value)], value, ()):
            if path not in seen:
                seen.add(path)
                yield path, source, text

    def quotes_of(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        """Yield path, source and text of the quotes of an object."""
        for name, source in self.quotes.items() if isinstance(value, dict) else ():
            if isinstance(quote := value.get(name), str):
                yield (name,), source, quote

    def _root_of(self, value: Any) -> _Subschema:
        named = Version.parse(value[PROPERTY]) if isinstance(value, dict) and PROPERTY in value else None
        versions = (version for version in self._roots if version is not None)
        return self._roots[nearest(named, versions) if named and len(self._roots) > 1 else None]


class _Quotes:
    """Takes the quotes of schemas: they may only be keys of the objects that the schemas describe.

    A key is the same quote in all branches and versions that declare it, so that its name alone says so.
    """

    def __init__(self, schemas: Iterable[Mapping[str, Any]]) -> None:
        self.found: dict[str, Source] = {}
        self._names: dict[int, str] = {}  # by `id()` of the subschema of a key, or of a branch of it
        self._others: set[str] = set()
        for name, parts in chain.from_iterable(map(own_keys, schemas)):
            self._names |= {id(each): name for each in parts}
            if not any(QUOTE in each for each in parts):
                self._others.add(name)

    def take(self, part: Mapping[str, Any], path: Path) -> Source:
        """The source of a quote. Raises `ContractError` if there cannot be a quote."""
        place, name = (*path, QUOTE), self._names.get(id(part))
        if name is None:
            expected = "a key of the object, or of a branch of its oneOf or anyOf"
            _refuse(f"`{QUOTE}` has no effect here", place, part[QUOTE], expected)
        if beside := part.keys() & {FROM, GROUNDING}:
            _refuse(f"`{QUOTE}` says already where it is from", place, sorted(beside), f"only `{QUOTE}`")
        if not {"string"} <= (types := _types(part)) <= {"string", "null"}:
            found = part.get("type", "no type")
            _refuse(f"`{QUOTE}` applies to strings only", place, found, f"`{QUOTE}` beside the type string")
        source = Source(_terms(part, QUOTE, path), "quote", _keyword(path, QUOTE), "null" in types)
        if name in self._others or self.found.setdefault(name, source).terms != source.terms:
            problem = f"`{name}` is something else in another branch or version"
            _refuse(problem, place, part[QUOTE], f"the same `{QUOTE}` wherever the key is declared")
        return source


def own_keys(schema: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The keys of the objects that a schema or a branch of it describes, with their subschemas."""
    references = References(schema)
    top = references.followed(schema) or {}
    for kind in (top, *filter(None, map(references.followed, _branches(top)))):
        for name, part in _pairs(kind.get("properties")):
            yield name, [each for each in (part, *_branches(part)) if isinstance(each, dict)]


class _Builder:
    """Makes the nodes of subschemas, each once, as schemas may be recursive."""

    def __init__(self) -> None:
        self.nodes: dict[int, _Subschema] = {}
        self._unfinished: list[_Subschema] = []

    def of(self, schema: Mapping[str, Any], references: References) -> _Subschema:
        """The node of a schema, with those of all subschemas that it leads to."""
        root = self._node(schema)
        while self._unfinished:
            node = self._unfinished.pop()
            part = node.schema
            node.properties = {name: self._node(inner) for name, inner in _pairs(part.get("properties"))}
            if "additionalProperties" in part:
                node.others = self._node(part["additionalProperties"])
            first, rest = part.get("prefixItems"), part.get("items")
            if isinstance(rest, list):  # up to draft 2019-09
                first, rest = rest, part.get("additionalItems")
            node.first_items = list(map(self._node, _list(first)))
            node.items = None if rest is None else self._node(rest)
            referred = [target for _, target in references.of(part)]
            node.also = list(map(self._node, (*_list(part.get("allOf")), *referred)))
            node.choices = [list(map(self._node, _list(part[name]))) for name in _CHOICES if name in part]
        return root

    def _node(self, schema: Any) -> _Subschema:
        """The node of a subschema, whose parts are found later; one for all that are true or false."""
        if not isinstance(schema, dict):
            return _ANYTHING
        if id(schema) not in self.nodes:
            self.nodes[id(schema)] = _Subschema(schema)
            self._unfinished.append(self.nodes[id(schema)])
        return self.nodes[id(schema)]

    def find_useful(self) -> None:
        """Mark the nodes that have a source, or lead to one."""
        above: dict[int, list[_Subschema]] = {}
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


_ANYTHING = _Subschema({})


def _found(nodes: list[_Subschema], value: Any, path: Path) -> Iterator[tuple[Path, Source, str]]:
    nodes = _applicable(nodes, value)
    for node in nodes:
        if node.source is not None:
            yield from _texts(node.source, value, path)
    if isinstance(value, dict):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        return
    for name, part in parts:
        inner = [below for node in nodes if (below := node.below(name)) is not None and below.is_useful]
        if len(inner) == 1 and inner[0].is_leaf and type(part) is str:  # the usual case
            if part:
                yield (*path, name), inner[0].source, part  # type: ignore[misc]
        elif inner:
            yield from _found(inner, part, (*path, name))


def _applicable(nodes: list[_Subschema], value: Any) -> list[_Subschema]:
    """The nodes with their references and those branches that apply to the value, each once.

    No branch of a choice applies if the value may be meant for a branch without a source.
    """
    if not any(node.also or node.choices for node in nodes):
        return nodes
    found: dict[int, _Subschema] = {}
    open_ = list(nodes)
    while open_:
        node = open_.pop()
        if id(node) not in found:
            found[id(node)] = node
            open_ += node.also
            for choice in node.choices:
                branches = [branch for branch in choice if branch.accepts(value)]
                open_ += branches if all(branch.is_useful for branch in branches) else ()
    return list(found.values())


def _texts(source: Source, value: Any, path: Path) -> Iterator[tuple[Path, Source, str]]:
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(source, part, (*path, index))
    elif isinstance(value, str) and value:  # a blank one is in no text
        yield path, source, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, source, format(Decimal(repr(value)), "f")


def _source(schema: Mapping[str, Any], path: Path) -> Source:
    """The source that a subschema has. Raises `ContractError` for one that cannot mean anything."""
    policy = schema.get(GROUNDING, "refuse")
    if FROM not in schema:
        _refuse(f"`{GROUNDING}` without `{FROM}` has no effect", (*path, GROUNDING), None, FROM)
    types = schema.get("type", "string")
    if _HOLDERS.isdisjoint([types] if isinstance(types, str) else types):
        expected = f"`{FROM}` beside a type of {', '.join(sorted(_HOLDERS))}"
        _refuse(f"`{FROM}` applies to strings and numbers only", (*path, FROM), types, expected)
    terms = _terms(schema, FROM, path)
    if policy not in get_args(Policy):
        _refuse(f"unknown `{GROUNDING}`", (*path, GROUNDING), policy, "refuse, strict or mark")
    return Source(terms, policy, _keyword(path, FROM), "null" in _types(schema))


def _terms(schema: Mapping[str, Any], keyword: str, path: Path) -> tuple[str, ...]:
    """The terms that a keyword names. Raises `ContractError` if it names none."""
    names = schema[keyword]
    terms = [names] if isinstance(names, str) else _list(names)
    if not terms or not all(isinstance(term, str) and term for term in terms):
        expected = "the name of a term, or a list of names"
        _refuse(f"`{keyword}` names no term", (*path, keyword), names, expected)
    return tuple(dict.fromkeys(terms))


def _keyword(path: Path, keyword: str) -> str:
    """The JSON Pointer of a keyword in the contract."""
    return pointer((*(path if path[:1] == ("versions",) else ("schema", *path)), keyword))


def _refuse(message: str, path: Path, found: object, expected: str) -> NoReturn:
    raise ContractError(message, path=pointer(path), found=found, expected=expected)


def _branches(schema: Any) -> list[Any]:
    if not isinstance(schema, dict):
        return []
    return [*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]


def _types(schema: Any) -> set[str]:
    """The types that a subschema or its branches name."""
    if not isinstance(schema, dict):
        return set()
    types = schema.get("type")
    own = [types] if isinstance(types, str) else filter(lambda each: isinstance(each, str), _list(types))
    return set(own).union(*map(_types, _branches(schema)))


def _has_type(value: Any, types: Any) -> bool:
    """Whether a value has one of the JSON types; 1.0 may be an integer."""
    name = type_of(value)
    return any(each in types for each in (_NUMBERS if name in _NUMBERS else (name,)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pairs(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()
