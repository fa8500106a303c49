"""Which keys of an object make its statement: `x-supported`, or what a clause or an ontology says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from trustgraph_prompt.contract.compile_schema import Schema
from trustgraph_prompt.contract.references import Path, References, values_in
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
    """Remove `x-supported` from schemas, by version, and return what it says.

    A key that is said of one that is itself supported has that one as its relation: what was painted, of
    *painted*, of a painter. Raises `ContractError` for a keyword that names no other key, or that is not on a
    key of the objects that the schemas describe.
    """
    found: dict[Role, None] = {}
    for version, schema in schemas.items():
        if not isinstance(schema, dict) or f'"{SUPPORTED}"' not in json.dumps(schema):
            continue
        references = References(schema)
        within = () if version is None else ("versions", str(version))
        marked = [(path, part) for path, part in references.subschemas() if SUPPORTED in part]
        places = {id(part): (*within, *path, SUPPORTED) for path, part in marked}
        useless = dict(places)
        for properties, when in _kinds(references):
            holders = dict(_marked(properties))
            of = {key: part[SUPPORTED] for key, part in holders.items()}
            for key, part in holders.items():
                _check(key, of, properties, places[id(part)])
                useless.pop(id(part), None)
            found |= dict.fromkeys(_roles(of, when))
        if useless:
            expected = "it on a key of the object, or of a branch of its oneOf or anyOf"
            _refuse("has no effect here", next(iter(useless.values())), None, expected)
        for _, part in marked:
            assert isinstance(part, dict)
            del part[SUPPORTED]
    return tuple(found)


def _roles(of: Mapping[str, str], when: tuple[tuple[str, Any], ...]) -> Iterator[Role]:
    relations = set(of.values())
    for key, named in of.items():
        if key not in relations:
            yield Role(of[named], named, key, when) if named in of else Role(named, None, key, when)


def _check(key: str, of: Mapping[str, Any], properties: Mapping[str, Any], place: Path) -> None:
    """Raise `ContractError` for a key that cannot be said of what it names."""
    named = of[key]
    if not isinstance(named, str) or named not in properties or named == key:
        near = suggestion(named, properties.keys() - {key}) if isinstance(named, str) else ""
        _refuse(f"names no other key of the object{near}", place, named, "the key that this one is said of")
    if named in of and any(of[named] == other for other in of):
        _refuse("makes too long a chain", place, named, "a value, its relation, and the key they are said of")


def _kinds(references: References) -> Iterator[tuple[Mapping[str, Any], tuple[tuple[str, Any], ...]]]:
    """The properties of each kind of object, with the values by which a branch of a union is known."""
    top = references.followed(references.root) or {}
    for branch in list(map(references.seen_through, _branches(top))) or [{}]:
        own = _properties(branch)
        fixed = ((key, values_in(each)) for key, each in own.items() if isinstance(each, dict))
        when = ((key, values[0]) for key, values in fixed if isinstance(values, list) and len(values) == 1)
        yield (
            {**_properties(top), **own},
            tuple(pair for pair in when if isinstance(pair[1], str | int | float)),
        )


def _marked(properties: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The keys with the keyword, and their subschema that has it: that of a type which may be null, too."""
    for key, schema in properties.items():
        for part in (schema, *_branches(schema)):
            if isinstance(part, dict) and SUPPORTED in part:
                yield key, part


def _branches(schema: Any) -> list[Any]:
    held = [schema.get(name) for name in ("anyOf", "oneOf")] if isinstance(schema, dict) else []
    return [branch for branches in held if isinstance(branches, list) for branch in branches]


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _refuse(message: str, place: Path, found: object, expected: str) -> NoReturn:
    raise ContractError(f"`{SUPPORTED}` {message}", path=pointer(place), found=found, expected=expected)
