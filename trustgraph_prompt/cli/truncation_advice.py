"""Why an answer was cut, as far as that is known, and what helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MORE_ROOM = "more room: a larger `model: max-tokens` in the prompt file, or"

_FULL = 0.9
"""The part of its room that an answer takes which filled it: servers do not count all alike."""


class Truncation(NamedTuple):
    """Why an answer ends before the model had finished; `lacked_room` says that more of it would help."""

    why: str
    lacked_room: bool


def explain(
    issues: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], max_tokens: int | None
) -> Truncation:
    """At which limit, and why the rest was not to be had; issues and calls are as in records.

    `max_tokens` is what the prompt gives its first answer.
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
        return f"at the prompt's max-tokens, {max_tokens:,}"
    after = "" if tokens is None else f"after {tokens:,} tokens "
    return f"{after}by the server's own limit or its context"
