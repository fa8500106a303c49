"""Names the setting to change after a failed call, if one would help."""

from __future__ import annotations

from collections.abc import Iterable

from trustgraph_prompt.errors import (
    ProviderAuthentication,
    ProviderInvalidModel,
    ProviderInvalidRequest,
)
from trustgraph_prompt.extraction.review import is_refused_for_good
from trustgraph_prompt.llm import api_key

LONGER_ANSWERS = "to allow longer answers, set a larger `model: max-tokens` in the prompt file, or use"

TOO_LONG = " not fit the "
"""Occurs in errors about questions that are too long for the model, or for its tokens per minute."""

REFUSED = "content filter refused "
"""Occurs in errors about questions that a content filter refused, or perhaps the model."""


def failed_call(error: str) -> str | None:
    """Name the setting to change after an error like `provider_authentication: …`, if one would help."""
    match error.partition(":")[0]:
        case ProviderAuthentication.category if "HTTP 402" in error or "insufficient_quota" in error:
            return "the account of this key has no credit left: add some, or set the key of another account"
        case ProviderAuthentication.category:
            return api_key.about()
        case ProviderInvalidModel.category:
            return "set --model or TRUSTGRAPH_PROMPT_MODEL to a model of this server"
        case ProviderInvalidRequest.category if "HTTP 404" in error:
            return "set --base-url or TRUSTGRAPH_PROMPT_BASE_URL to the server's API, usually ending in /v1"
        case _:
            return None


def run_again(errors: Iterable[str]) -> str:
    """Return `run`, and before it what has to change if a server refuses all of the questions each time."""
    if all(map(is_refused_for_good, errors)):
        return "the server would refuse the same questions again: change what its errors name, then run"
    return "run"
