"""Reviews the result of a job: what was refused, truncated or missing, and why, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trustgraph_prompt.contract.grounding import without_advice
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.extraction.results import Result, refusal_reason

_FULL: Final = 0.9
"""An answer with this share of its token limit has reached it: servers count tokens differently."""


class RefusedObject(NamedTuple):
    """An object that was refused: its number in the answer, from 1, its text and the reason."""

    number: int
    text: str
    reason: str


class Truncation(NamedTuple):
    """Why an answer is truncated; `lacked_room` says that a larger limit would help."""

    why: str
    lacked_room: bool


@dataclass(frozen=True, slots=True)
class Review:
    """What a result lacks.

    `refused` has the first of `refused_count` objects. `completed` says that the answer was truncated, and
    then continued to its end. `is_barren` is an answer that says that there are no objects; `without_use` is
    why another answer has none.
    """

    refused: tuple[RefusedObject, ...] = ()
    refused_count: int = 0
    truncation: Truncation | None = None
    completed: bool = False
    is_barren: bool = False
    without_use: str | None = None


def review(result: Result, max_tokens: int | None) -> Review:
    """Review a result; `max_tokens` is the prompt's limit of an answer."""
    answer = result.answer
    if answer is None:
        return Review()
    # The issues of a rejected json value are also those of the answer; it is no rejected object.
    is_value = any(rejected["issues"][0] in answer.issues for rejected in answer.rejected)
    refused = () if is_value else answer.rejected
    cut = None
    if answer.truncated and result.failure is None:
        issues = answer.issues if answer.reason == Reason.SUCCESS else ()
        cut = truncation(issues, answer.calls, max_tokens)
    has_none = not result.objects and result.failure is None
    is_success = answer.reason == Reason.SUCCESS
    return Review(
        tuple(RefusedObject(each["index"] + 1, each["raw"], refusal_reason(each)) for each in refused),
        0 if is_value else answer.rejected_count,
        cut,
        completed=answer.completed,
        is_barren=has_none and is_success,
        without_use=without_advice(answer.why) if has_none and not is_success else None,
    )


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
