"""JSON of what a caller hands in, for a wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from trustgraph_prompt.errors import ProviderInvalidRequest


def encode(value: Any, *, sort: bool = False) -> bytes:
    """JSON text, keys in their order, or sorted at every level. Raises `ProviderInvalidRequest`."""
    try:
        return orjson.dumps(value, default=_mapping, option=orjson.OPT_SORT_KEYS if sort else 0)
    except TypeError as error:
        raise ProviderInvalidRequest(f"the call cannot be written as JSON: {error}") from error


def _mapping(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
