"""The alternatives of a schema, and the property that picks one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from trustgraph_prompt.contract.references import References

_ASKS_NOTHING = frozenset(
    (
        *("$schema", "$id", "id", "$comment", "$defs", "definitions"),
        *("title", "description", "default", "examples", "discriminator"),
    )
)


class Alternatives(NamedTuple):
    """A schema that is nothing but alternatives, of which the property `name` picks one.

    `choices` holds, for each of the `branches`, the values of the property that mean it.
    """

    name: str
    branches: list[Mapping[str, Any]]
    choices: list[list[Any]]

    @classmethod
    def of(cls, references: References) -> Alternatives | None:
        """What the whole schema is; None where it is no union, or asks for more than one of its branches."""
        root = references.root
        top = references.followed(root) or {}
        found = branches_of(top, references)
        name = discriminator_of(found)
        keyword = "oneOf" if "oneOf" in top else "anyOf"
        asks = top.keys() - {keyword} | (set() if top is root else root.keys() - {"$ref"})
        if name is None or not asks <= _ASKS_NOTHING:
            return None
        return cls(name, top[keyword], [chosen_by(branch, name) for branch in found])

    def meant(self, value: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The branch that an object names, None where it names none."""
        if self.name not in value:
            return None
        named = value[self.name]
        pairs = zip(self.branches, self.choices, strict=True)
        return next((branch for branch, choice in pairs if named in choice), None)


def branches_of(schema: Mapping[str, Any], references: References) -> list[dict[str, Any]]:
    """The branches of a `oneOf` or `anyOf`, references followed; none where one is not an object."""
    top = references.followed(schema) or {}
    branches = [references.seen_through(branch) for branch in top.get("oneOf") or top.get("anyOf") or []]
    found = [branch for branch in branches if branch is not None]
    return found if len(found) == len(branches) else []


def discriminator_of(branches: Sequence[Mapping[str, Any]]) -> str | None:
    """The property that picks the branch: each branch names its own values by `const` or `enum`.

    Branches that take no object have no part in it.
    """
    branches = [branch for branch in branches if _takes_objects(branch)]
    if len(branches) < 2:
        return None
    return next(
        (str(name) for name in branches[0].get("properties", {}) if _tells_apart(name, branches)), None
    )


def exclude_each_other(alternatives: Sequence[Any], references: References) -> bool:
    """Whether no value can meet two of them: they are of different types, or objects of different kinds."""
    branches = branches_of({"oneOf": alternatives}, references)
    if not branches:  # of true or false
        return False
    types = [_types(branch) for branch in branches]
    objects = [branch for branch, named in zip(branches, types, strict=True) if named == ["object"]]
    name = discriminator_of(objects)
    if name is not None and all(name in branch.get("required", ()) for branch in objects):
        types = [["object"], *(named for named in types if named != ["object"])]
    flat = list(chain.from_iterable(types))
    return len(flat) == len(set(flat)) and not {"integer", "number"} <= set(flat) and "any" not in flat


def are_told_by_a_word(alternatives: Sequence[Any], references: References) -> bool:
    """Whether one look at a required property rules out all of them but one: it is a string, a single one
    for each branch. The validator looks there first.
    """
    branches = branches_of({"oneOf": alternatives}, references)
    name = discriminator_of(branches)
    return name is not None and all(
        _types(branch) == ["object"]
        and name in branch.get("required", ())
        and [str] == list(map(type, chosen_by(branch, name)))
        for branch in branches
    )


def _types(branch: Mapping[str, Any]) -> list[str]:
    types = branch.get("type", "any")
    return [types] if isinstance(types, str) else list(types)


def _tells_apart(name: str, branches: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each branch has values of its own for the property: scalars, and 1.0 is 1."""
    seen: set[tuple[bool, Any]] = set()
    for branch in branches:
        values = chosen_by(branch, name)
        if not values or any(isinstance(value, dict | list) for value in values):
            return False
        own = {(isinstance(value, bool), value) for value in values}
        if not seen.isdisjoint(own):
            return False
        seen |= own
    return True


def _takes_objects(branch: Mapping[str, Any]) -> bool:
    types = branch.get("type", "object")
    return types == "object" or (isinstance(types, list) and "object" in types)


def chosen_by(branch: Mapping[str, Any], name: str) -> list[Any]:
    """The values of property `name` that mean this branch."""
    prop = branch.get("properties", {}).get(name)
    if not isinstance(prop, dict):
        return []
    if "const" in prop:
        return [prop["const"]]
    return list(prop.get("enum", ()))


def declares(schema: Mapping[str, Any], references: References, name: str) -> bool:
    """Whether the schema, or a branch of it, speaks of a property called `name`."""
    parts: Iterable[Mapping[str, Any]] = (
        references.followed(schema) or {},
        *branches_of(schema, references),
    )
    return any(name in part.get("properties", {}) for part in parts)
