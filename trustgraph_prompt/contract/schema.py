"""JSON Schemas as authors write them: checked with a message they understand, then compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import jsonschema
import jsonschema_rs
from jsonschema.exceptions import SchemaError, best_match

from trustgraph_prompt.contract.pointer import pointer
from trustgraph_prompt.errors import ContractError

MAX_DEPTH = 100
MAX_NODES = 100_000

Schema = dict[str, Any] | bool


class Validator(Protocol):
    """A compiled schema."""

    def is_valid(self, instance: Any, /) -> bool: ...

    def iter_errors(self, instance: Any, /) -> Iterator[jsonschema_rs.ValidationError]: ...


def plain_schema(schema: object) -> Schema:
    """A copy made of nothing but JSON.

    Raises `ContractError` where the schema holds what JSON does not know, is nested deeper than `MAX_DEPTH`
    or has more than `MAX_NODES` values.
    """
    if not isinstance(schema, Mapping | bool):
        raise ContractError("the schema is none", found=schema, expected="an object, true or false")
    copy: Schema = _Copy().of(schema, ())
    return copy


def compile_schema(schema: Schema) -> Validator:
    """The validator of a schema: formats are asserted, nothing is fetched, patterns take linear time.

    Raises `ContractError` with the path and the reason.
    """
    _check(schema)
    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=True, pattern_options=jsonschema_rs.RegexOptions()
        )
    except jsonschema_rs.ValidationError as error:
        raise ContractError(
            _short(str(error.message)),
            path=pointer(error.instance_path),
            found=error.instance,
            expected="a schema that needs no other document and whose patterns run in linear time",
        ) from None
    except ValueError as error:
        raise ContractError(_short(str(error))) from None


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
    for _ in range(MAX_DEPTH):
        if not isinstance(branch, dict):
            return None
        reference = branch.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return branch
        target: Any = root
        for token in reference[2:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, dict) else None
        branch = target
    return None


def _check(schema: Schema) -> None:
    if not isinstance(schema, dict):
        return
    dialect = schema.get("$schema")
    if dialect is not None and not isinstance(dialect, str):
        raise ContractError("unknown dialect", path="/$schema", found=dialect, expected="a URI")
    checker = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        # The metaschema's own formats are not asserted here: a pattern is judged by who will run it.
        error = best_match(checker(checker.META_SCHEMA).iter_errors(schema))
    except (RecursionError, SchemaError) as cause:
        raise ContractError("the schema cannot be checked: " + _short(str(cause))) from None
    if error is not None:
        raise ContractError(
            _short(error.message),
            path=pointer(error.absolute_path),
            found=error.instance,
            expected=_short(f"{error.validator} {error.validator_value}"),
        )


class _Copy:
    def __init__(self) -> None:
        self.nodes = 0

    def of(self, value: Any, path: tuple[str | int, ...]) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise ContractError("the schema is too large", expected=f"at most {MAX_NODES} values in it")
        if len(path) > MAX_DEPTH:
            raise ContractError(
                "the schema is nested too deep",
                path=pointer(path[:4]),
                found="more",
                expected=f"at most {MAX_DEPTH} levels",
            )
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise ContractError(
                        "a key is no string", path=pointer(path), found=key, expected="a string"
                    )
            return {key: self.of(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item, (*path, index)) for index, item in enumerate(value)]
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and value - value == 0:
            return value
        raise ContractError("this is no JSON", path=pointer(path), found=value, expected="a JSON value")


def _short(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
