"""What `GET …/models` says of one model."""

from __future__ import annotations

from typing import Any

import orjson

from trustgraph_prompt.errors import (
    ProviderInvalidModel,
    ProviderInvalidResponse,
    ProviderModelNotLoaded,
    excerpt,
)

_SHOWN = 5


def check(body: bytes, model: str) -> None:
    """Nothing where the model is there and serves.

    Raises `ProviderInvalidModel` where it is not listed, `ProviderModelNotLoaded` where its `status` says so,
    and `ProviderInvalidResponse` where the body is no list of models.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    models = found.get("data") if isinstance(found, dict) else None
    if not isinstance(models, list):
        raise ProviderInvalidResponse(f"no list of models: {excerpt(body)}")
    for one in models:
        if isinstance(one, dict) and one.get("id") == model:
            if one.get("status") == "not_loaded":
                raise ProviderModelNotLoaded(f"the model {model!r} is not loaded")
            return
    raise ProviderInvalidModel(f"no model {model!r}; the server has {_names(models)}")


def _names(models: list[Any]) -> str:
    ids = (one.get("id") for one in models if isinstance(one, dict))
    names = [excerpt(id, 80) for id in ids if isinstance(id, str)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more
