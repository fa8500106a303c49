"""The branches of `oneOf` and `anyOf`, and the discriminator: the property that picks one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from trustgraph_prompt.contract.references import References, types_in, values_in
from trustgraph_prompt.json_text.values import is_one_of

B = TypeVar("B")

_WITHOUT_EFFECT = frozenset(
    (
        *("$schema", "$id", "id", "$comment", "$defs", "definitions"),
        *("title", "description", "default", "examples", "discriminator"),
    )
)


class Alternatives(NamedTuple):
    """A schema that is nothing but a union with the discriminator `name`.

    `choices` holds, for each of `branches`, the values of the discriminator that pick it.
    """

    name: str
    branches: list[Mapping[str, Any]]
    choices: list[list[Any]]

    @classmethod
    def of(cls, references: References) -> Alternatives | None:
        """The whole schema as a union; None if it is none, or has other constraints, or no discriminator."""
        root = references.root
        top = references.followed(root) or {}
        found = branches_of(top, references)
        name = discriminator_of(found)
        keyword = "oneOf" if "oneOf" in top else "anyOf"
        others = top.keys() - {keyword} | (set() if top is root else root.keys() - {"$ref"})
        if name is None or not others <= _WITHOUT_EFFECT:
            return None
        return cls(name, top[keyword], [chosen_by(branch, name) for branch in found])

    def meant(self, value: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The branch that the discriminator of an object picks, if any."""
        return picked(value[self.name], self.branches, self.choices) if self.name in value else None


def picked(value: Any, branches: Iterable[B], choices: Iterable[Collection[Any]]) -> B | None:
    """The branch that a value of the discriminator picks; `choices` are the values of each branch."""
    for branch, choice in zip(branches, choices, strict=True):
        if is_one_of(value, choice):
            return branch
    return None


def branches_of(schema: Mapping[str, Any], references: References) -> list[dict[str, Any]]:
    """The branches of a `oneOf` or `anyOf`, references resolved; [] if one of them is true or false."""
    top = references.followed(schema) or {}
    branches = [references.seen_through(branch) for branch in top.get("oneOf") or top.get("anyOf") or []]
    found = [branch for branch in branches if branch is not None]
    return found if len(found) == len(branches) else []


def discriminator_of(branches: Sequence[Mapping[str, Any]]) -> str | None:
    """The property for which each branch has its own values, by `const` or `enum`; None if there is none.

    Branches that accept no objects are ignored.
    """
    branches = [branch for branch in branches if "object" in types_in(branch, "object")]
    if len(branches) < 2:
        return None
    return next(
        (str(name) for name in branches[0].get("properties", {}) if _discriminates(name, branches)), None
    )


def exclude_each_other(alternatives: Sequence[Any], references: References) -> bool:
    """Whether no value meets two alternatives: their types differ, or a required discriminator does."""
    branches = branches_of({"oneOf": alternatives}, references)
    if not branches:  # of true or false
        return False
    types = [types_in(branch, "any") for branch in branches]
    objects = [branch for branch, named in zip(branches, types, strict=True) if named == ["object"]]
    name = discriminator_of(objects)
    if name is not None and all(name in branch.get("required", ()) for branch in objects):
        types = [["object"], *(named for named in types if named != ["object"])]
    flat = list(chain.from_iterable(types))
    return len(flat) == len(set(flat)) and not {"integer", "number"} <= set(flat) and "any" not in flat


def have_string_tag(alternatives: Sequence[Any], references: References) -> bool:
    """Whether a required discriminator, with a single string for each branch, rules out all but one of them.

    The validator checks such a property first.
    """
    branches = branches_of({"oneOf": alternatives}, references)
    name = discriminator_of(branches)
    return name is not None and all(
        types_in(branch) == ["object"]
        and name in branch.get("required", ())
        and [str] == list(map(type, chosen_by(branch, name)))
        for branch in branches
    )


def _discriminates(name: str, branches: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each branch has its own values of the property: scalars, where 1.0 is 1, and true is not."""
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


def chosen_by(branch: Mapping[str, Any], name: str) -> list[Any]:
    """The values of the property `name` that pick this branch."""
    prop = branch.get("properties", {}).get(name)
    return list(values_in(prop) or ()) if isinstance(prop, dict) else []


def declares(schema: Mapping[str, Any], references: References, name: str) -> bool:
    """Whether the schema, or a branch of it, has a property called `name`."""
    parts: Iterable[Mapping[str, Any]] = (
        references.followed(schema) or {},
        *branches_of(schema, references),
    )
    return any(name in part.get("properties", {}) for part in parts)
