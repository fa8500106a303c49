"""The canonical form of schemas that accept the same values: for fingerprints, and to show to a model.

Dataclasses, Pydantic models, authors of JSON Schema and the schema language write the same schema in
different ways: with or without titles, `const` or `enum`, a list of types or an `anyOf` of them, with or
without references.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from trustgraph_prompt.contract.alternatives import branches_of, exclude_each_other
from trustgraph_prompt.contract.references import BY_NAME, ONE_OR_MORE, References, types_in, values_in
from trustgraph_prompt.json_text.values import type_of

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
"""Keywords by which a second subschema, beside the one that declares the keys, applies to a value."""

_KEPT, _KEPT_SIZE = 512, 16_384
"""How many digests are cached, and for schemas of how many characters: the same schemas come again."""

_MOST_STEPS, _MOST_LEVELS, _MOST_WRITTEN = 5_000, 100, 20_000_000
"""Limits of one digest: subschemas, levels, characters. Recursive schemas can unfold to any number."""


def digest(schema: JsonSchema | None, *, extra: str | None, coerce: bool) -> str:
    """Return a hash (SHA-256, hex) that is the same for schemas known to accept the same values.

    If finding out takes too much, or the verdicts depend on how the schema is written, it is the hash of the
    schema as it is.
    """
    text = json.dumps(schema)
    digest_of = _digest.__wrapped__ if len(text) > _KEPT_SIZE else _digest
    return digest_of(text, extra, coerce)


@lru_cache(_KEPT)
def _digest(text: str, extra: str | None, coerce: bool) -> str:
    schema = json.loads(text)
    if isinstance(schema, dict) and _may_be_rewritten(schema):
        try:
            root = _Rewriter(References(schema), extra, coerce, described=False).of(schema)
            chooses = extra is not None or coerce
            return _Unfolding(root, chooses).of(root)[0] if isinstance(root, dict) else _hash(root)
        except _TooLarge:
            pass
    return _hash(schema)


def shown(schema: JsonSchema, *, extra: str | None, coerce: bool) -> JsonSchema:
    """Return the schema to show to a model: it accepts the same values under these options.

    It keeps the author's descriptions and the order of properties and values, and drops what has no effect.
    """
    if not isinstance(schema, Mapping) or not _may_be_rewritten(schema):
        return schema
    made: JsonSchema = _Rewriter(References(schema), extra, coerce, described=True).of(schema)
    return made


def _may_be_rewritten(schema: Mapping[str, Any]) -> bool:
    """Whether subschemas may be rewritten one by one.

    Not if a reference points into another subschema than a definition, or a keyword depends on what others
    have evaluated (`unevaluatedProperties`).
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
    """Whether a single subschema declares the keys of each object.

    Else closing one of several would reject keys that the others declare, or change which branch applies.
    """
    for _, part in references.subschemas():
        keywords = part.keys() - _BESIDE
        if not keywords.isdisjoint(_TOGETHER) or (len(keywords) > 1 and not keywords.isdisjoint(_REFERENCES)):
            return False
        if "allOf" in part and (len(keywords) > 1 or len(part["allOf"]) > 1):
            return False
        if keywords & {"anyOf", "oneOf"} and not _tells_containers_apart(part, keywords, references):
            return False
        closed = part.get("additionalProperties") is False
        if closed and not part.get("properties", {}).keys() >= set(part.get("required", ())):
            return False
    return True


def _tells_containers_apart(part: Mapping[str, Any], keywords: Iterable[str], references: References) -> bool:
    """Whether no object, and no array, can meet two of the alternatives."""
    keyword, *others = sorted(set(keywords) - {"type"})
    branches = branches_of(part, references)
    if others or not branches:
        return False
    containers = [kind for branch in branches for kind in ("object", "array") if _may_be(kind, branch)]
    return len(containers) == len(set(containers)) or exclude_each_other(part[keyword], references)


def _may_be(kind: str, branch: Mapping[str, Any]) -> bool:
    values = values_in(branch)
    return kind in types_in(branch, kind) and (values is None or kind in map(type_of, values))


class _TooLarge(Exception):
    """The schema unfolds to more than the limits."""


class _Rewriter:
    """Rewrites each subschema to its canonical form."""

    def __init__(self, references: References, extra: str | None, coerce: bool, *, described: bool) -> None:
        self._references = references
        # extra keys are handled by the option, whatever the schema says
        self._ignores_closed = extra is not None and _declares_objects_once(references)
        self._chooses = extra is not None or coerce  # one of the alternatives, when values are conformed
        self._coerce = coerce
        self._dropped = _REMARKS - {"description"} if described else _REMARKS
        self._keeps_order = described

    def of(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        made = {
            keyword: self._parts(keyword, value)
            for keyword, value in schema.items()
            if keyword not in self._dropped and (keyword, value) != ("$schema", _DRAFT)
        }
        if self._chooses and made.get("additionalProperties") == {}:
            made["additionalProperties"] = schema["additionalProperties"]  # not {}, which declares all keys
        self._keys(made)
        self._values(made)
        self._alternatives(made)
        for keyword in ("allOf",) if self._chooses else _UNORDERED:
            if made.keys() == {keyword} and len(made[keyword]) == 1 and isinstance(made[keyword][0], dict):
                return made[keyword][0]
        return {
            keyword: made[keyword]
            for keyword in sorted(made, key=lambda name: (_RANK.get(name, _RANK[""]), name))
        }

    def _parts(self, keyword: str, value: Any) -> Any:
        if keyword in BY_NAME and isinstance(value, dict):
            names = sorted(value) if keyword == "$defs" else value  # their order is not the author's
            return {name: self.of(value[name]) for name in names}
        if keyword in ONE_OR_MORE and isinstance(value, list):
            return [self.of(part) for part in value]
        return self.of(value) if keyword in ONE_OR_MORE else value

    def _keys(self, made: dict[str, Any]) -> None:
        """Simplify the keywords about keys and sizes."""
        others = made.get("additionalProperties")
        without_effect = self._ignores_closed and "properties" in made
        if others in (True, {}) or (others is False and without_effect):
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
        """Simplify `const`, `enum` and `type`."""
        if "const" in made and "enum" not in made:
            made["enum"] = [made.pop("const")]
        types = made.get("type")
        if isinstance(types, list):
            made["type"] = types[0] if len(types) == 1 else sorted(set(types))
        if isinstance(made.get("enum"), list):
            made["enum"] = self._distinct(made["enum"])
            if "type" in made and {type_of(value) for value in made["enum"]} == set(types_in(made)):
                del made["type"]

    def _alternatives(self, made: dict[str, Any]) -> None:
        """Replace `anyOf` and `oneOf` by simpler keywords if possible."""
        self._any_of(made)
        if "oneOf" in made and "anyOf" not in made and exclude_each_other(made["oneOf"], self._references):
            made["anyOf"] = made.pop("oneOf")
            self._any_of(made)

    def _any_of(self, made: dict[str, Any]) -> None:
        if "anyOf" not in made:
            return
        flat: list[Any] = []
        for branch in made["anyOf"]:
            is_nested = isinstance(branch, dict) and branch.keys() == {"anyOf"}
            flat += branch["anyOf"] if is_nested else [branch]
        if not self._chooses or self._is_chosen_by_type(flat):
            made["anyOf"] = flat
        branches = made["anyOf"]
        if all(isinstance(branch, dict) and branch.keys() == {"type"} for branch in branches):
            if "type" not in made and not (self._coerce and "enum" in made):
                types = {name for branch in branches for name in types_in(branch)}
                made["type"] = sorted(types) if len(types) > 1 else next(iter(types))
                del made["anyOf"]
        elif not self._coerce and "enum" not in made and all(map(_is_enum, branches)):
            made["enum"] = self._distinct(
                value for branch in branches for value in branch.get("enum", [None])
            )
            del made["anyOf"]

    def _distinct(self, values: Iterable[Any]) -> list[Any]:
        texts = dict.fromkeys(map(_text, values))
        return [json.loads(text) for text in (texts if self._keeps_order else sorted(texts))]

    def _is_chosen_by_type(self, alternatives: list[Any]) -> bool:
        """Whether the same branch applies to a value, however the alternatives are grouped."""
        return exclude_each_other(alternatives, self._references) and not any(
            branch.keys() & {"const", "enum"}
            for branch in branches_of({"anyOf": alternatives}, self._references)
        )


def _is_enum(branch: Any) -> bool:
    return isinstance(branch, dict) and (branch.keys() == {"enum"} or branch == {"type": "null"})


class _Unfolding:
    """Hashes a rewritten schema with its references unfolded; a recursive one becomes the distance back.

    Subschemas with the same text are the same: that of a class, and its copy at the root. The order of
    alternatives counts if the first one that fits is chosen.
    """

    def __init__(self, root: dict[str, Any], chooses: bool) -> None:
        self._references = References(root)
        self._trail = self._references.trail(
            lambda schema: schema["$ref"] if schema.keys() - _DEFINITIONS == {"$ref"} else None
        )
        self._chooses = chooses
        self._steps = self._written = 0
        self._known: dict[str, str] = {}

    def of(self, schema: Any, above: tuple[str, ...] = ()) -> tuple[str, int]:
        """The digest of a subschema, and the lowest level of `above`, its parents, that it refers back to.

        The digest of one that refers back to none of its parents does not depend on them, and is kept.
        """
        schema, original = self._trail.end(schema), schema
        if not isinstance(schema, dict):  # false closes an object, and a reference to false does not
            return _hash([isinstance(original, dict), schema]), len(above)
        schema = {keyword: value for keyword, value in schema.items() if keyword not in _DEFINITIONS}
        text = _text(schema)
        self._steps += 1
        self._written += len(text)
        if self._steps > _MOST_STEPS or self._written > _MOST_WRITTEN or len(above) > _MOST_LEVELS:
            raise _TooLarge
        if text in above:
            level = above.index(text)
            return _hash(["back", len(above) - level]), level
        if text not in self._known:
            parts = [self._part(keyword, schema[keyword], (*above, text)) for keyword in sorted(schema)]
            made = _hash([part for part, _ in parts])
            level = min((level for _, level in parts), default=len(above))
            if level < len(above):
                return made, level
            self._known[text] = made
        return self._known[text], len(above)

    def _part(self, keyword: str, value: Any, above: tuple[str, ...]) -> tuple[Any, int]:
        """A keyword with the digests of its subschemas."""
        if keyword in _REFERENCES:  # a name is unique, as duplicate anchors are rejected
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


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _hash(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
