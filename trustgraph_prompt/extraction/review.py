"""Reviews the result of a job: what was refused, truncated or missing, and why, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trustgraph_prompt.contract.grounding import without_advice
from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderUnsupportedContentBlock, Reason
from trustgraph_prompt.extraction.results import Result, refusal_reason

_FULL: Final = 0.9
"""An answer with this share of its token limit has reached it: servers count tokens differently."""


class Remark(NamedTuple):
    """What a result lacks, or what is in doubt: of which kind, why, and the text of the object, if any.

    The kinds are `refused`, with the `number` of the object in the answer, from 1; `weak` and `ungrounded`;
    `truncated`; `completed` for an answer that was truncated, and then continued to its end; `nothing` for
    one that says that there are no objects, `without_use` for another one without any; `failed`.
    """

    kind: str
    why: str = ""
    object: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Review:
    """The remarks on a result. `refused_count` counts also refused objects of which the answer has no text.

    `lacked_room` says that a larger token limit would help.
    """

    remarks: tuple[Remark, ...] = ()
    refused_count: int = 0
    lacked_room: bool = False

    @property
    def kinds(self) -> Counter[str]:
        """How many remarks there are of each kind."""
        return Counter(each.kind for each in self.remarks)


def review(result: Result, max_tokens: int | None) -> Review:
    """Review a result; `max_tokens` is the prompt's limit of an answer."""
    remarks = [
        Remark("weak" if doubt.is_weak else "ungrounded", str(doubt), each.text.decode())
        for each in result.objects
        for doubt in each.doubts
    ]
    if result.failure is not None:
        remarks.append(Remark("failed", result.failure))
    if (answer := result.answer) is None:
        return Review(tuple(remarks))
    is_success, lacked_room = answer.reason == Reason.SUCCESS, False
    # The issues of a rejected json value are also those of the answer; it is no rejected object.
    is_value = any(rejected["issues"][0] in answer.issues for rejected in answer.rejected)
    remarks += (
        Remark("refused", refusal_reason(each), each["raw"], each["index"] + 1)
        for each in (() if is_value else answer.rejected)
    )
    if answer.completed:
        remarks.append(Remark("completed"))
    if result.failure is None and answer.truncated:
        why, lacked_room = truncation(answer.issues if is_success else (), answer.calls, max_tokens)
        remarks.append(Remark("truncated", why))
    if result.failure is None and not result.objects:
        remarks.append(Remark("nothing") if is_success else Remark("without_use", without_advice(answer.why)))
    return Review(tuple(remarks), 0 if is_value else answer.rejected_count, lacked_room)


def truncation(
    issues: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], max_tokens: int | None
) -> tuple[str, bool]:
    """Name the limit that truncated an answer, and why the rest could not be obtained.

    Also returns whether a larger limit would help. `issues` and `calls` are those of an answer record;
    `max_tokens` is the prompt's limit for its first call.
    """
    dead_ends = [issue["message"] for issue in issues if issue["reason"] == "truncated"]
    filled = [call for call in calls if call["finish_reason"] == "length"]
    if not filled:
        return "; ".join(dead_ends) or "the answer ends before the model had finished", False
    doublings = sum(call["why"] == "room" for call in calls)
    limit = _limit(filled[-1]["usage"]["completion_tokens"], max_tokens and max_tokens << doublings)
    return "; ".join([limit, *dead_ends]), not dead_ends


def _limit(tokens: int | None, max_tokens: int | None) -> str:
    if max_tokens is not None and (tokens is None or tokens >= max_tokens * _FULL):
        return f"at the prompt's max-tokens of {max_tokens:,}"
    after = "" if tokens is None else f"after {tokens:,} tokens "
    return f"{after}by the server's own limit or its context size"


def is_refused_for_good(failure: str) -> bool:
    """Whether a server refuses a question each time; the failure begins with the category of its error."""
    for_good = ProviderInvalidRequest.category, ProviderUnsupportedContentBlock.category
    return failure.partition(":")[0] in for_good
