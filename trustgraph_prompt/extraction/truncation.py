"""Explains why an answer is truncated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_FULL = 0.9
"""An answer with this share of its token limit has reached it: servers count tokens differently."""


class Truncation(NamedTuple):
    """Why an answer is truncated; `lacked_room` says that a larger limit would help."""

    why: str
    lacked_room: bool


def truncation(
    issues: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], max_tokens: int | None
) -> Truncation:
    """Name the limit that truncated an answer, and why the rest could not be obtained.

    `issues` and `calls` are as in answer records; `max_tokens` is the prompt's limit for its first call.
    """
    dead_ends = [issue["message"] for issue in issues if issue["reason"] == "truncated"]
    filled = [call for call in calls if call["finish_reason"] == "length"]
    if not filled:
        return Truncation("; ".join(dead_ends) or "the answer ends before the model had finished", False)
    doublings = sum(call["why"] == "room" for call in calls)
    limit = _limit(filled[-1]["usage"]["completion_tokens"], max_tokens and max_tokens << doublings)
    return Truncation("; ".join([limit, *dead_ends]), not dead_ends)


def _limit(tokens: int | None, max_tokens: int | None) -> str:
    if max_tokens is not None and (tokens is None or tokens >= max_tokens * _FULL):
        return f"at the prompt's max-tokens of {max_tokens:,}"
    after = "" if tokens is None else f"after {tokens:,} tokens "
    return f"{after}by the server's own limit or its context size"
