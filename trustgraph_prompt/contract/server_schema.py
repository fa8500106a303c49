"""What a server may hold an answer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.contract.contract import Contract
from trustgraph_prompt.contract.references import References

_DEFINITIONS = ("$schema", "$defs", "definitions")


def server_schema(contract: Contract, *, items: bool = False) -> Mapping[str, Any] | None:
    """The schema of the answer, the same whatever that says; None where there is none that servers take.

    They want an object at the root: of a list of objects it is one that holds the list, and is taken for the
    list when it is read. What the contract does beyond its schema (extra keys, conversion, repair, rules) is
    done afterwards: it leaves what meets the schema as it is, or refuses it either way.

    With `items` a jsonl answer is held, too: to one object whose `items` are the objects. None where those
    have a key of that name, and could be taken for it.
    """
    schema = contract.schema
    if items and contract.format == "jsonl" and isinstance(schema, dict) and not contract.versions:
        return None if contract.declares("items") else _wrapped(schema)
    if contract.format != "json" or contract.versions or not isinstance(schema, dict):
        return None
    if schema.get("type") != "object":
        return None
    return _wrapped(schema) if contract.many else schema


def _wrapped(schema: dict[str, Any]) -> Mapping[str, Any] | None:
    parts = [part for _, part in References(schema).subschemas()]
    references = [str(part["$ref"]) for part in parts if "$ref" in part]
    within = all(one.startswith(("#/$defs/", "#/definitions/")) for one in references)
    if not within or "$id" in schema or any("$recursiveRef" in part for part in parts):
        return None  # it would lead elsewhere, now that the root is another
    return {
        **{keyword: schema[keyword] for keyword in _DEFINITIONS if keyword in schema},
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {name: value for name, value in schema.items() if name not in _DEFINITIONS},
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    }
