"""Why an answer was cut, as far as that is known, and what helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_FULL = 0.9
"""The part of its room that an answer takes which filled it: servers do not count all alike."""


def why(
    issues: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    max_tokens: int | None,
    *,
    shorter: str,
) -> str:
    """At which limit, and why the rest was not to be had; issues and calls are as in records.

    `max_tokens` is what the prompt gives its first answer, `shorter` how a question is made shorter.
    """
    told = [issue["message"] for issue in issues if issue["reason"] == "truncated"]
    filled = [call for call in calls if call["finish_reason"] == "length"]
    if filled:
        doublings = sum(call["why"] == "room" for call in calls)
        told.insert(0, _limit(filled[-1], max_tokens and max_tokens << doublings, shorter))
    return "; ".join(told) or "the answer ends before the model had finished"


def _limit(call: Mapping[str, Any], max_tokens: int | None, shorter: str) -> str:
    tokens = call["usage"]["completion_tokens"]
    if max_tokens is not None and (tokens is None or tokens >= max_tokens * _FULL):
        return f"at the prompt's max-tokens, {max_tokens:,}; `model: max-tokens` in the prompt file sets it"
    after = "" if tokens is None else f"after {tokens:,} tokens, "
    return (
        f"{after}by the server's own limit or its context; "
        f"`model: max-tokens` in the prompt file asks for more room, {shorter} leave more"
    )
