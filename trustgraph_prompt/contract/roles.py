"""Which keys of an object make its statement: `x-supported`, or what a clause or an ontology says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from trustgraph_prompt.contract.compile_schema import Schema
from trustgraph_prompt.contract.grounded_keys import own_keys
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.contract.schema_versions import Version
from trustgraph_prompt.errors import ContractError, suggestion
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import is_one_of

SUPPORTED = "x-supported"
"""Our keyword on a key that says something: the key that it is said of."""


class Role(NamedTuple):
    """The key with a value, the key that it is said of, and the key with the relation, if there is one.

    `when` are the values, by key, of the objects to which it applies.
    """

    subject: str
    predicate: str | None
    value: str
    when: tuple[tuple[str, str | int | bool], ...] = ()

    def applies(self, value: Mapping[str, Any]) -> bool:
        """Whether an object has the values of `when`."""
        return all(key in value and is_one_of(value[key], (wanted,)) for key, wanted in self.when)


def take_roles(schemas: Mapping[Version | None, Schema | None]) -> tuple[Role, ...]:
    """Remove `x-supported` from schemas, by version, and return what it says in all of them.

    A key that is said of one that is itself said of a third one has that one as its relation. Raises
    `ContractError` for a keyword that names no other key, or that is not on a key of the objects.
    """
    marked = [schema for schema in schemas.values() if f'"{SUPPORTED}"' in json.dumps(schema)]
    keys = {
        id(part): key
        for schema in marked
        if isinstance(schema, dict)
        for key, parts in own_keys(schema)
        for part in parts
    }
    of: dict[str, str] = {}
    places: dict[str, Path] = {}
    for version, schema in schemas.items() if marked else ():
        within = () if version is None else ("versions", str(version))
        for path, part in References(schema).subschemas() if isinstance(schema, dict) else ():
            if SUPPORTED in part:
                assert isinstance(part, dict)
                place, named = (*within, *path, SUPPORTED), part.pop(SUPPORTED)
                key = _checked(keys.get(id(part)), named, keys.values(), place)
                if of.setdefault(key, named) != named:
                    _refuse("is something else in another branch or version", place, named, of[key])
                places[key] = place
    for key, named in of.items():
        if of.get(named) in of:
            _refuse("makes too long a chain", places[key], named, "a value, its relation, and their subject")
    return tuple(
        Role(of[named], named, key) if named in of else Role(named, None, key)
        for key, named in of.items()
        if key not in of.values()
    )


def _checked(key: str | None, named: object, keys: Iterable[str], place: Path) -> str:
    """The key that is said of another. Raises `ContractError` if it is not one of them, or names none."""
    if key is None:
        expected = "it on a key of the object, or of a branch of its oneOf or anyOf"
        _refuse("has no effect here", place, named, expected)
    others = {other for other in keys if other != key}
    if not isinstance(named, str) or named not in others:
        near = suggestion(named, others) if isinstance(named, str) else ""
        _refuse(f"names no other key of the object{near}", place, named, "the key that this one is said of")
    return key


def _refuse(message: str, place: Path, found: object, expected: str) -> NoReturn:
    raise ContractError(f"`{SUPPORTED}` {message}", path=pointer(place), found=found, expected=expected)
