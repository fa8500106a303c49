"""The built-in types of the language, each as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.json_text.values_in_strings import BYTES, DECIMAL

SCALARS: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "any": {},
    "null": {"type": "null"},
    "bytes": BYTES,
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "datetime": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "decimal": DECIMAL,
}

GENERIC = ("list", "map")
"""Types with a parameter: list[T], map[T]."""

RESERVED = frozenset((*SCALARS, *GENERIC, "true", "false"))
"""Names that a schema cannot have."""
