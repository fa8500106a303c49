"""One form for all schemas that judge alike, however they were written: for a fingerprint, and to be shown.

A dataclass, a Pydantic model, an author of JSON Schema and the schema language say the same thing in several
ways: with titles or without, `const` or `enum`, a list of types or an `anyOf` of them, references or none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trustgraph_prompt.contract.branches import branches_of, discriminator_of
from trustgraph_prompt.contract.coerce import type_of
from trustgraph_prompt.contract.references import BY_NAME, ONE_OR_MORE, References

JsonSchema = Mapping[str, Any] | bool

_REMARKS = frozenset(
    (
        *("title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"),
        "discriminator",  # OpenAPI's
    )
)
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_DEFINITIONS = ("$defs", "definitions")
_FROM_NOTHING = ("minItems", "minLength", "minProperties", "uniqueItems")
_UNORDERED = ("allOf", "anyOf", "oneOf")
_ORDER = ("$schema", "description", "type", "enum", "", "required", "additionalProperties", *_DEFINITIONS)
_RANK = {keyword: rank for rank, keyword in enumerate(_ORDER)}

_MOST_STEPS, _MOST_LEVELS = 5_000, 100
"""Subschemas that are looked at for one digest, and how many of them within each other: schemas that refer to
themselves in many ways unfold to more."""


def digest(schema: JsonSchema | None, *, extra: str | None, coerce: bool) -> str:
    """A hash (sha256, hex) that is the same for schemas that are known to judge alike under these options.

    Where it takes too much to tell, it is that of the schema as it is written.
    """
    if isinstance(schema, Mapping) and not References(schema).are_old:
        try:
            root = _Normal(References(schema), extra, coerce, described=False).of(schema)
            return _Unfolding(root).of(root)[0] if isinstance(root, dict) else _hash(root)
        except _TooMuch:
            pass
    return _hash(schema)


def shown(schema: JsonSchema, *, extra: str | None, coerce: bool) -> JsonSchema:
    """The schema as a model should see it, which judges alike under these options.

    With the author's descriptions, in the author's order of properties and values, without what is noise.
    """
    if not isinstance(schema, Mapping) or References(schema).are_old:
        return schema
    made: JsonSchema = _Normal(References(schema), extra, coerce, described=True).of(schema)
    return made


class _TooMuch(Exception):
    """It takes too much to tell."""


class _Normal:
    """Writes each subschema in one way."""

    def __init__(self, references: References, extra: str | None, coerce: bool, *, described: bool) -> None:
        self._references = references
        self._is_settled = extra is not None  # what becomes of extra keys, whatever the schema says of them
        self._coerce = coerce
        self._dropped = _REMARKS - {"description"} if described else _REMARKS
        self._arranged: Callable[[Iterable[str]], Iterable[str]] = dict.fromkeys if described else _sorted

    def of(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        made = {
            keyword: self._parts(keyword, value)
            for keyword, value in schema.items()
            if keyword not in self._dropped and (keyword, value) != ("$schema", _DRAFT)
        }
        self._keys(made)
        self._values(made)
        self._alternatives(made)
        for keyword in _UNORDERED:
            if made.keys() == {keyword} and len(made[keyword]) == 1:
                return made[keyword][0]
        return {keyword: made[keyword] for keyword in sorted(made, key=_rank)}

    def _parts(self, keyword: str, value: Any) -> Any:
        if keyword in BY_NAME and isinstance(value, dict):
            names = sorted(value) if keyword == "$defs" else value  # nobody wrote these in an order
            return {name: self.of(value[name]) for name in names}
        if keyword in ONE_OR_MORE and isinstance(value, list):
            return [self.of(part) for part in value]
        return self.of(value) if keyword in ONE_OR_MORE else value

    def _keys(self, made: dict[str, Any]) -> None:
        """Which keys an object has, and which it may have."""
        others = made.get("additionalProperties")
        closed_anyhow = self._is_settled and ("properties" in made or "patternProperties" in made)
        if others in (True, {}) or (others is False and closed_anyhow):
            del made["additionalProperties"]
        if isinstance(made.get("required"), list):
            made["required"] = sorted(set(made["required"]))
            if not made["required"]:
                del made["required"]
        if made.get("items") in (True, {}) and "prefixItems" not in made:
            del made["items"]
        for keyword in _FROM_NOTHING:
            if made.get(keyword) == 0:
                del made[keyword]

    def _values(self, made: dict[str, Any]) -> None:
        """Which types and values there may be."""
        if "const" in made and "enum" not in made:
            made["enum"] = [made.pop("const")]
        types = made.get("type")
        if isinstance(types, list):
            made["type"] = types[0] if len(types) == 1 else sorted(set(types))
        if isinstance(made.get("enum"), list):
            made["enum"] = self._distinct(made["enum"])
            if {type_of(value) for value in made["enum"]} == set(_listed(made.get("type", ()))):
                del made["type"]

    def _alternatives(self, made: dict[str, Any]) -> None:
        """What stands in `anyOf` and its like, where that can be said without."""
        self._any_of(made)
        if "oneOf" in made and "anyOf" not in made and self._exclude_each_other(made["oneOf"]):
            made["anyOf"] = made.pop("oneOf")
            self._any_of(made)

    def _any_of(self, made: dict[str, Any]) -> None:
        if "anyOf" not in made:
            return
        branches = made["anyOf"] = _flat(made["anyOf"])
        if all(isinstance(one, dict) and one.keys() == {"type"} for one in branches):
            if "type" not in made:
                types = {name for one in branches for name in _listed(one["type"])}
                made["type"] = sorted(types) if len(types) > 1 else next(iter(types))
                del made["anyOf"]
        elif not self._coerce and "enum" not in made and all(map(_lists, branches)):
            made["enum"] = self._distinct(value for one in branches for value in one.get("enum", [None]))
            del made["anyOf"]

    def _distinct(self, values: Iterable[Any]) -> list[Any]:
        return [json.loads(text) for text in self._arranged(map(_text, values))]

    def _exclude_each_other(self, alternatives: list[Any]) -> bool:
        """Whether no value can meet two of them: they are of different types, or kinds."""
        branches = branches_of({"oneOf": alternatives}, self._references)
        if not branches:  # of true or false
            return False
        types = [name for branch in branches for name in _listed(branch.get("type", "any"))]
        if len(types) == len(set(types)) and not {"integer", "number"} <= set(types) and "any" not in types:
            return True
        name = discriminator_of(branches)
        return name is not None and all(
            branch.get("type") == "object" and name in branch.get("required", ()) for branch in branches
        )


def _flat(branches: list[Any]) -> list[Any]:
    """The branches, those of a branch that is nothing but branches among them."""
    flat: list[Any] = []
    for branch in branches:
        flat += branch["anyOf"] if isinstance(branch, dict) and branch.keys() == {"anyOf"} else [branch]
    return flat


def _lists(branch: Any) -> bool:
    return isinstance(branch, dict) and (branch.keys() == {"enum"} or branch == {"type": "null"})


def _listed(types: Any) -> Iterable[str]:
    return [types] if isinstance(types, str) else types


class _Unfolding:
    """A normal schema without references: each leads to what it means, or back to where that is already.

    Subschemas count as the same where they are written alike: that of a class, and its copy at the root.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._references = References(root)
        self._steps = 0
        self._known: dict[str, str] = {}

    def of(self, schema: Any, above: tuple[str, ...] = ()) -> tuple[str, int]:
        """The digest of a subschema, and how far up it leads back; `above` is all that it stands in.

        One that leads back to none but itself is the same wherever it stands.
        """
        schema = _alone(schema)
        if isinstance(schema, dict) and schema.keys() == {"$ref"}:
            schema = _alone(self._references.followed(schema))
        if not isinstance(schema, dict):
            return _hash(schema), len(above)
        written = _text(schema)
        self._steps += 1
        if self._steps > _MOST_STEPS or len(above) > _MOST_LEVELS:
            raise _TooMuch
        if written in above:
            level = above.index(written)
            return _hash(["back", len(above) - level]), level
        if written not in self._known:
            parts = [self._part(keyword, schema[keyword], (*above, written)) for keyword in sorted(schema)]
            made = _hash([part for part, _ in parts])
            level = min((level for _, level in parts), default=len(above))
            if level < len(above):
                return made, level
            self._known[written] = made
        return self._known[written], len(above)

    def _part(self, keyword: str, value: Any, above: tuple[str, ...]) -> tuple[Any, int]:
        """What a keyword says, with digests for its subschemas."""
        if keyword == "$ref":
            value = {"$ref": value}
        elif keyword not in BY_NAME | ONE_OR_MORE:
            return [keyword, value], len(above)
        by_name = keyword in BY_NAME and isinstance(value, dict)
        listed = value if isinstance(value, list) else [value]
        held = {name: value[name] for name in sorted(value)} if by_name else dict(enumerate(listed))
        found = {name: self.of(part, above) for name, part in held.items()}
        digests = [[name, made] if by_name else made for name, (made, _) in found.items()]
        if keyword in _UNORDERED:
            digests.sort()
        level = min((level for _, level in found.values()), default=len(above))
        return [keyword, isinstance(value, list), digests], level


def _alone(schema: Any) -> Any:
    """A subschema without the definitions that it holds for others."""
    if not isinstance(schema, dict):
        return schema
    return {keyword: value for keyword, value in schema.items() if keyword not in _DEFINITIONS}


def _rank(keyword: str) -> tuple[int, str]:
    """Where a keyword stands among those of its subschema, whoever wrote it."""
    return _RANK.get(keyword, _RANK[""]), keyword


def _sorted(texts: Iterable[str]) -> Iterable[str]:
    return sorted(set(texts))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _hash(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
