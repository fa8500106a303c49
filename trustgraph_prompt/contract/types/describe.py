"""A contract's type: what it is called, its schema, and how values become its instances."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, get_args, get_origin

from trustgraph_prompt.contract.types.annotations import Annotations
from trustgraph_prompt.contract.types.build import Build
from trustgraph_prompt.errors import excerpt


class Type(NamedTuple):
    """A type, described. Of a list, schema and builder are those of one element."""

    name: str | None
    schema: dict[str, Any]
    many: bool
    build: Build
    check_unions: Callable[[], None]  # once the schema is known to be one


def describe(kind: Any) -> Type:
    """What a dataclass, a model, or a list of such is for a contract. Raises `ContractError`.

    The class itself stands at the root of its schema, also where it refers to itself: wires want an object
    there, and no reference. Its name is the title, after which wires call the schema. Other types have none.
    """
    many = get_origin(kind) is list
    element = get_args(kind)[0] if many else kind
    annotations = Annotations()
    described = annotations.of(element, getattr(element, "__qualname__", excerpt(str(element), 80)))
    schema = _with_class_at_root(described.schema, annotations.definitions)
    name = element.__name__ if isinstance(element, type) and "$ref" in described.schema else None
    return Type(name, schema, many, described.build, annotations.check_unions)


def _with_class_at_root(schema: dict[str, Any], definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        root, others = definitions[name], {key: one for key, one in definitions.items() if key != name}
        refers_to_itself = json.dumps(schema["$ref"]) in json.dumps([root, others], default=str)
        schema, definitions = {"title": name, **root}, definitions if refers_to_itself else others
    return {**schema, "$defs": dict(sorted(definitions.items()))} if definitions else schema
