"""One form for all schemas that judge alike, however they were written: for a fingerprint, and to be shown.

A dataclass, a Pydantic model, an author of JSON Schema and the schema language say the same thing in several
ways: with titles or without, `const` or `enum`, a list of types or an `anyOf` of them, references or none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from trustgraph_prompt.contract.alternatives import branches_of, exclude_each_other
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

_REFERENCES = frozenset(("$ref", "$dynamicRef"))
_DEPENDS_ON_FORM = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_BESIDE = frozenset(("$schema", "$id", "$anchor", "$dynamicAnchor", *_DEFINITIONS, *_REMARKS))
_TOGETHER = frozenset(
    (
        *("not", "if", "then", "else", "contains", "patternProperties", "propertyNames", "$recursiveRef"),
        *("dependentSchemas", "dependentRequired", "dependencies"),
    )
)
"""Keywords that hold a value, or a name of it, against something beside what declares it."""

_KEPT, _KEPT_SIZE = 512, 16_384
"""Digests that are kept, and how long a schema may be: the same ones come again and again."""

_MOST_STEPS, _MOST_LEVELS, _MOST_WRITTEN = 5_000, 100, 20_000_000
"""Subschemas that are looked at for one digest, how many of them within each other, and of how many
characters: schemas that refer to themselves in many ways unfold to more."""


def digest(schema: JsonSchema | None, *, extra: str | None, coerce: bool) -> str:
    """A hash (sha256, hex) that is the same for schemas that are known to judge alike under these options.

    Where that takes too much to tell, or depends on how it is written, it is that of the schema as it is.
    """
    text = json.dumps(schema)
    digest_of = _digest.__wrapped__ if len(text) > _KEPT_SIZE else _digest
    return digest_of(text, extra, coerce)


@lru_cache(_KEPT)
def _digest(text: str, extra: str | None, coerce: bool) -> str:
    schema = json.loads(text)
    if isinstance(schema, dict) and _may_be_rewritten(schema):
        try:
            root = _Normal(References(schema), extra, coerce, described=False).of(schema)
            chooses = extra is not None or coerce
            return _Unfolding(root, chooses).of(root)[0] if isinstance(root, dict) else _hash(root)
        except _TooMuch:
            pass
    return _hash(schema)


def shown(schema: JsonSchema, *, extra: str | None, coerce: bool) -> JsonSchema:
    """The schema as a model should see it, which judges alike under these options.

    With the author's descriptions, in the author's order of properties and values, without what is noise.
    """
    if not isinstance(schema, Mapping) or not _may_be_rewritten(schema):
        return schema
    made: JsonSchema = _Normal(References(schema), extra, coerce, described=True).of(schema)
    return made


def _may_be_rewritten(schema: Mapping[str, Any]) -> bool:
    """Whether no more depends on how a schema is put together than what each subschema says.

    Not where a reference leads into the midst of one, nor where it counts what has been looked at.
    """
    references = References(schema)
    if references.are_old:
        return False
    for _, part in references.subschemas():
        if not _DEPENDS_ON_FORM.isdisjoint(part):
            return False
        if any(path and (len(path) != 2 or path[0] not in _DEFINITIONS) for path, _ in references.of(part)):
            return False
    return True


def _declares_objects_once(references: References) -> bool:
    """Whether of each object one subschema alone says which keys it has.

    Else one that is closed says something of what the others declare, or of which branch is meant.
    """
    for _, part in references.subschemas():
        keywords = part.keys() - _BESIDE
        if not keywords.isdisjoint(_TOGETHER) or (len(keywords) > 1 and not keywords.isdisjoint(_REFERENCES)):
            return False
        if "allOf" in part and (len(keywords) > 1 or len(part["allOf"]) > 1):
            return False
        if keywords & {"anyOf", "oneOf"} and not _is_one_container_at_most(part, keywords, references):
            return False
        closed = part.get("additionalProperties") is False
        if closed and not part.get("properties", {}).keys() >= set(part.get("required", ())):
            return False
    return True


def _is_one_container_at_most(
    part: Mapping[str, Any], keywords: Iterable[str], references: References
) -> bool:
    """Whether no object, and no array, could be meant by two of the alternatives."""
    keyword, *others = sorted(set(keywords) - {"type"})
    branches = branches_of(part, references)
    if others or not branches:
        return False
    containers = [kind for branch in branches for kind in ("object", "array") if _may_be(kind, branch)]
    return len(containers) == len(set(containers)) or exclude_each_other(part[keyword], references)


def _may_be(kind: str, branch: Mapping[str, Any]) -> bool:
    values = [branch["const"]] if "const" in branch else branch.get("enum")
    return kind in _listed(branch.get("type", kind)) and (values is None or kind in map(type_of, values))


class _TooMuch(Exception):
    """It takes too much to tell."""


class _Normal:
    """Writes each subschema in one way."""

    def __init__(self, references: References, extra: str | None, coerce: bool, *, described: bool) -> None:
        self._references = references
        # what becomes of extra keys, whatever the schema says of them
        self._is_settled = extra is not None and _declares_objects_once(references)
        self._chooses = extra is not None or coerce  # which of the alternatives a value means
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
        if self._chooses and made.get("additionalProperties") == {}:
            made["additionalProperties"] = schema["additionalProperties"]  # but for {} it declares all keys
        self._keys(made)
        self._values(made)
        self._alternatives(made)
        for keyword in ("allOf",) if self._chooses else _UNORDERED:
            if made.keys() == {keyword} and len(made[keyword]) == 1 and isinstance(made[keyword][0], dict):
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
        closed_anyhow = self._is_settled and "properties" in made
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
            if "type" in made and {type_of(value) for value in made["enum"]} == set(_listed(made["type"])):
                del made["type"]

    def _alternatives(self, made: dict[str, Any]) -> None:
        """What stands in `anyOf` and its like, where that can be said without."""
        self._any_of(made)
        if "oneOf" in made and "anyOf" not in made and exclude_each_other(made["oneOf"], self._references):
            made["anyOf"] = made.pop("oneOf")
            self._any_of(made)

    def _any_of(self, made: dict[str, Any]) -> None:
        if "anyOf" not in made:
            return
        flat = _flat(made["anyOf"])
        if not self._chooses or self._is_chosen_by_type(flat):
            made["anyOf"] = flat
        branches = made["anyOf"]
        if all(isinstance(one, dict) and one.keys() == {"type"} for one in branches):
            if "type" not in made and not (self._coerce and "enum" in made):
                types = {name for one in branches for name in _listed(one["type"])}
                made["type"] = sorted(types) if len(types) > 1 else next(iter(types))
                del made["anyOf"]
        elif not self._coerce and "enum" not in made and all(map(_lists, branches)):
            made["enum"] = self._distinct(value for one in branches for value in one.get("enum", [None]))
            del made["anyOf"]

    def _distinct(self, values: Iterable[Any]) -> list[Any]:
        return [json.loads(text) for text in self._arranged(map(_text, values))]

    def _is_chosen_by_type(self, alternatives: list[Any]) -> bool:
        """Whether the branch that a value means is the same, however the alternatives are grouped."""
        return exclude_each_other(alternatives, self._references) and not any(
            branch.keys() & {"const", "enum"}
            for branch in branches_of({"anyOf": alternatives}, self._references)
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
    Alternatives have an order where a value is taken for the first of those that it may mean.
    """

    def __init__(self, root: dict[str, Any], chooses: bool) -> None:
        self._references = References(root)
        self._trail = self._references.trail(_reference_alone)
        self._chooses = chooses
        self._steps = self._written = 0
        self._known: dict[str, str] = {}

    def of(self, schema: Any, above: tuple[str, ...] = ()) -> tuple[str, int]:
        """The digest of a subschema, and how far up it leads back; `above` is all that it stands in.

        One that leads back to none but itself is the same wherever it stands.
        """
        schema, written = _alone(self._trail.end(schema)), schema
        if not isinstance(schema, dict):  # false is more than a reference to it: it closes an object
            return _hash([isinstance(written, dict), schema]), len(above)
        written = _text(schema)
        self._steps += 1
        self._written += len(written)
        if self._steps > _MOST_STEPS or self._written > _MOST_WRITTEN or len(above) > _MOST_LEVELS:
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
        if keyword in _REFERENCES:  # one name is one place, as an $anchor that is there twice is refused
            value = {"$ref": value}
        elif keyword not in BY_NAME | ONE_OR_MORE:
            return [keyword, value], len(above)
        by_name = keyword in BY_NAME and isinstance(value, dict)
        listed = value if isinstance(value, list) else [value]
        held = {name: value[name] for name in sorted(value)} if by_name else dict(enumerate(listed))
        found = {name: self.of(part, above) for name, part in held.items()}
        digests = [[name, made] if by_name else made for name, (made, _) in found.items()]
        if keyword in _UNORDERED and not (self._chooses and not exclude_each_other(listed, self._references)):
            digests.sort()
        level = min((level for _, level in found.values()), default=len(above))
        return [keyword, isinstance(value, list), digests], level


def _alone(schema: Any) -> Any:
    """A subschema without the definitions that it holds for others."""
    if not isinstance(schema, dict):
        return schema
    return {keyword: value for keyword, value in schema.items() if keyword not in _DEFINITIONS}


def _reference_alone(schema: Mapping[str, Any]) -> Any:
    return schema["$ref"] if schema.keys() - _DEFINITIONS == {"$ref"} else None


def _rank(keyword: str) -> tuple[int, str]:
    """Where a keyword stands among those of its subschema, whoever wrote it."""
    return _RANK.get(keyword, _RANK[""]), keyword


def _sorted(texts: Iterable[str]) -> Iterable[str]:
    return sorted(set(texts))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _hash(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
