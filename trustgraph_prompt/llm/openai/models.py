"""What `GET …/models` says of one model."""

from __future__ import annotations

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
    named = {one["id"]: one for one in models if isinstance(one, dict) and isinstance(one.get("id"), str)}
    if models and not named:
        raise ProviderInvalidResponse(f"a list of what is no model: {excerpt(body)}")
    if model not in named:
        raise ProviderInvalidModel(f"no model {model!r}; the server has {_some(list(named))}")
    if named[model].get("status") == "not_loaded":
        raise ProviderModelNotLoaded(f"the model {model!r} is not loaded")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(excerpt(name, 80) for name in names[:_SHOWN]) or "none") + more
