"""Values that JSON has no type for and writes as strings, each as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping

DECIMAL = {"type": ["number", "string"], "pattern": r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"}
"""A decimal number; a string keeps digits that a float would lose."""

BYTES = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
"""Bytes as base64 (RFC 4648, section 4), padded and on one line."""

LOCAL_DATE_TIME = {
    "type": "string",
    "description": "A date and time without an offset.",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?$",
}
"""A date and time as a clock shows it; the format `date-time` demands an offset."""

PATTERNS_IN_WORDS: Mapping[object, str] = {
    DECIMAL["pattern"]: "a decimal number",
    BYTES["pattern"]: "bytes in base64",
    LOCAL_DATE_TIME["pattern"]: "a date and time in the form YYYY-MM-DDThh:mm:ss, without Z or an offset",
}
"""What our own patterns demand, for models and people, who read no regular expressions."""
