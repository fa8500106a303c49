"""Encodes values and records as compact JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

import orjson


def encode(value: object) -> bytes:
    """Encode a value, or a dataclass, as compact JSON in UTF-8.

    The standard library encodes what orjson refuses: integers of more than 64 bits, and lone surrogates.
    """
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=asdict).encode()


def canonical(value: object) -> bytes:
    """Encode a value so that equal values give the same bytes: compact, with sorted keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
