"""Reviews the result of a job: what was refused, truncated or missing, and why, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trustgraph_prompt.contract.grounding import without_advice
from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderUnsupportedContentBlock, Reason
from trustgraph_prompt.extraction.results import Result, refusal_reason
from trustgraph_prompt.extraction.truncation import Truncation, truncation


class RefusedObject(NamedTuple):
    """An object that was refused: its number in the answer, from 1, its text and the reason."""

    number: int
    text: str
    reason: str


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


def is_refused_for_good(failure: str) -> bool:
    """Whether a server refuses a question each time; the failure begins with the category of its error."""
    for_good = ProviderInvalidRequest.category, ProviderUnsupportedContentBlock.category
    return failure.partition(":")[0] in for_good
