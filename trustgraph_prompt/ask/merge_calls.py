"""What a harvest comes to: one outcome of the reader's verdicts on all its calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.reader import Outcome


def verdict(collected: Collected, end: Issue | None = None, cause: ProviderError | None = None) -> Outcome:
    """The outcome. `end` is what ended the asking before the answer did: the budget, or for a `cause`."""
    ends = () if end is None else (end,)
    calls = tuple(collected.calls)
    if collected.is_empty:
        reason = end.reason if end else Reason.EMPTY
        value = collected.objects if collected.contract.format == "jsonl" else None
        contract = collected.contract.without_terms
        return Outcome(value, reason, contract, issues=ends, calls=calls, cause=cause)
    best = collected.best.outcome
    merged: dict[str, Any] = {}
    if collected.contract.format == "jsonl":
        merged = {
            "value": collected.objects,
            "stage": best.stage if collected.stage is None else collected.stage,
            "rejected": tuple(sorted(collected.rejected, key=lambda rejected: rejected.index)),
            "repaired": tuple(collected.repaired),
            "retracted": tuple(collected.retracted),
            "grounding": None if best.grounding is None else tuple(collected.grounding),
        }
    reason = _reason(collected, end if cause else None, cause)
    return replace(
        best,
        reason=reason,
        issues=_issues(collected) + ends,
        truncated=_truncated(collected),
        calls=calls,
        cause=cause or collected.last.broken,
        escalated=_escalated(collected, reason, end),
        **merged,
    )


def _reason(collected: Collected, end: Issue | None, cause: ProviderError | None) -> Reason:
    """What the last answer says, though a later call failed; the failure's reason where there is none.

    A failure that passes goes before an answer that is no good: later, the same question may find another.
    """
    best = collected.best
    if collected.objects:
        return Reason.SUCCESS
    if best.is_refusal:
        return Reason.REFUSED
    if best.outcome.ok:
        return Reason.SUCCESS
    failure = Reason.PROVIDER_ERROR if end is None else end.reason
    error = cause or best.broken
    passes = error is not None and error.transient and failure is Reason.PROVIDER_ERROR
    no_answer = best.broken is not None and not best.outcome.rejected
    return failure if passes or no_answer else best.outcome.reason


def _escalated(
    collected: Collected, reason: Reason, end: Issue | None
) -> Literal["condition", "attempts"] | None:
    """Why somebody else is to deal with it.

    Attempts are spent where a prompt has several, or says `escalate`, and asking came to its end by itself
    without anything to use.
    """
    if collected.is_escalated:
        return "condition"
    is_watched = collected.prompt.attempts > 1 or collected.prompt.escalation is not None
    in_vain = reason not in (Reason.SUCCESS, Reason.PROVIDER_ERROR) and end is None
    return "attempts" if is_watched and in_vain else None


def _issues(collected: Collected) -> tuple[Issue, ...]:
    """Those of the answer, and why the rest was not to be had.

    That a continuation brought no object says nothing about the objects that stand.
    """
    best = collected.best.outcome
    issues = best.issues if best.ok or not collected.objects else ()
    if collected.dead_end is not None:
        issues += (Issue(Reason.TRUNCATED, collected.dead_end),)
    return issues


def _truncated(collected: Collected) -> bool | None:
    """Whether something is missing at the end; None where neither wire nor text tells."""
    best = collected.best
    if best.is_cut and not best.is_whole:
        return True
    if collected.objects and best.outcome.reason is Reason.EXTRACTION_FAILED:
        return None  # asked for the rest, it said something else, and who knows?
    return best.outcome.truncated
