"""The JSON Schema that is sent to a server that enforces schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.contract.canonical_schema import JsonSchema
from trustgraph_prompt.contract.contract import Contract
from trustgraph_prompt.contract.references import References

_DEFINITIONS = ("$schema", "$defs", "definitions")


def server_schema(contract: Contract, *, items: bool = False) -> Mapping[str, Any] | None:
    """Return the schema for the server to enforce; None if servers would not accept it, as for jsonl.

    Servers require an object at the root: a list of objects is wrapped in an object with the key `items`,
    which is unwrapped when the answer is read. Extra keys, conversion, repair and rules of the contract apply
    afterwards: they either leave an answer that meets the schema as it is, or reject it.

    With `items`, a jsonl answer is wrapped, too; None if its objects have a key `items` themselves, which
    would be ambiguous. The values that the contract offers become an `enum`.
    """
    schema = _held(contract)
    if items and contract.format == "jsonl" and isinstance(schema, dict) and not contract.versions:
        return None if contract.declares("items") else _wrapped(schema)
    if contract.format != "json" or contract.versions or not isinstance(schema, dict):
        return None
    if schema.get("type") != "object":
        return None
    return _wrapped(schema) if contract.many else schema


def _held(contract: Contract) -> JsonSchema | None:
    """The schema, with an `enum` for each key whose values the contract offers, and no further keys."""
    schema = contract.schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not contract.offered or not isinstance(schema, dict) or not isinstance(properties, dict):
        return schema
    enums = {
        key: {**properties[key], "enum": [*values]}
        for key, values in contract.offered.items()
        if isinstance(properties.get(key), dict)
    }
    return {"additionalProperties": False, **schema, "properties": {**properties, **enums}}


def _wrapped(schema: dict[str, Any]) -> Mapping[str, Any] | None:
    parts = [part for _, part in References(schema).subschemas()]
    references = [str(part["$ref"]) for part in parts if "$ref" in part]
    are_definitions = all(each.startswith(("#/$defs/", "#/definitions/")) for each in references)
    if not are_definitions or "$id" in schema or any("$recursiveRef" in part for part in parts):
        return None  # with another root, the references would have other targets
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
