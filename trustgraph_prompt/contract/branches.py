"""The alternatives of a schema, and the property that picks one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from trustgraph_prompt.contract.pointer import follow

_MAX_HOPS = 100  # references that lead to references


def branches_of(schema: object) -> list[dict[str, Any]]:
    """The branches of a `oneOf` or `anyOf`, local references followed; none where one is not an object."""
    if not isinstance(schema, dict):
        return []
    top = _resolved(schema, schema) or {}
    branches = top.get("oneOf") or top.get("anyOf") or []
    resolved = [_resolved(branch, schema) for branch in branches]
    return [b for b in resolved if b is not None] if None not in resolved else []


def declares(schema: object, name: str) -> bool:
    """Whether the schema, or a branch of it, speaks of a property called `name`."""
    if not isinstance(schema, dict):
        return False
    parts = [_resolved(schema, schema) or {}, *branches_of(schema)]
    return any(name in part.get("properties", {}) for part in parts)


def names_of(schema: object) -> frozenset[str]:
    """The names of all properties that the schema declares anywhere."""
    names: set[str] = set()
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if isinstance(part.get("properties"), dict):
                names.update(part["properties"])
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return frozenset(names)


def discriminator_of(schema: object) -> str | None:
    """The property that picks the branch: each branch names its own values by `const` or `enum`."""
    branches = branches_of(schema)
    if len(branches) < 2:
        return None
    for name in branches[0].get("properties", {}):
        values = [chosen_by(branch, name) for branch in branches]
        flat = [repr(value) for group in values for value in group]
        if all(values) and len(flat) == len(set(flat)):
            return str(name)
    return None


def chosen_by(branch: Mapping[str, Any], name: str) -> list[Any]:
    """The values of property `name` that mean this branch."""
    prop = branch.get("properties", {}).get(name)
    if not isinstance(prop, dict):
        return []
    if "const" in prop:
        return [prop["const"]]
    return list(prop.get("enum", ()))


def _resolved(branch: object, root: Mapping[str, Any]) -> dict[str, Any] | None:
    for _ in range(_MAX_HOPS):
        if not isinstance(branch, dict):
            return None
        reference = branch.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return branch
        branch = follow(root, unquote(reference[1:]))
    return None
