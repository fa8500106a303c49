"""What a harvest comes to: one outcome of the reader's verdicts on all its calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.reader import Outcome


def verdict(harvest: Collected, end: Issue | None = None, cause: ProviderError | None = None) -> Outcome:
    """The outcome. `end` is what ended the asking before the answer did: the budget, or for a `cause`."""
    ends = () if end is None else (end,)
    calls = tuple(harvest.calls)
    if harvest.is_empty:
        reason = end.reason if end else Reason.EMPTY
        value = harvest.objects if harvest.contract.format == "jsonl" else None
        contract = harvest.contract.without_terms
        return Outcome(value, reason, contract, issues=ends, calls=calls, cause=cause)
    best = harvest.best.outcome
    merged: dict[str, Any] = {}
    if harvest.contract.format == "jsonl":
        merged = {
            "value": harvest.objects,
            "stage": best.stage if harvest.stage is None else harvest.stage,
            "rejected": tuple(sorted(harvest.rejected, key=lambda rejected: rejected.index)),
            "repaired": tuple(harvest.repaired),
            "retracted": tuple(harvest.retracted),
            "grounding": None if best.grounding is None else tuple(harvest.grounding),
        }
    reason = _reason(harvest, end if cause else None, cause)
    return replace(
        best,
        reason=reason,
        issues=_issues(harvest) + ends,
        truncated=_truncated(harvest),
        calls=calls,
        cause=cause or harvest.last.broken,
        escalated=_escalated(harvest, reason, end),
        **merged,
    )


def _reason(harvest: Collected, end: Issue | None, cause: ProviderError | None) -> Reason:
    """What the last answer says, though a later call failed; the failure's reason where there is none.

    A failure that passes goes before an answer that is no good: later, the same question may find another.
    """
    best = harvest.best
    if harvest.objects:
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
    harvest: Collected, reason: Reason, end: Issue | None
) -> Literal["condition", "attempts"] | None:
    """Why somebody else is to deal with it.

    Attempts are spent where a prompt has several, or says `escalate`, and asking came to its end by itself
    without anything to use.
    """
    if harvest.is_escalated:
        return "condition"
    is_watched = harvest.prompt.attempts > 1 or harvest.prompt.escalation is not None
    in_vain = reason not in (Reason.SUCCESS, Reason.PROVIDER_ERROR) and end is None
    return "attempts" if is_watched and in_vain else None


def _issues(harvest: Collected) -> tuple[Issue, ...]:
    """Those of the answer, and why the rest was not to be had.

    That a continuation brought no object says nothing about the objects that stand.
    """
    best = harvest.best.outcome
    issues = best.issues if best.ok or not harvest.objects else ()
    if harvest.dead_end is not None:
        issues += (Issue(Reason.TRUNCATED, harvest.dead_end),)
    return issues


def _truncated(harvest: Collected) -> bool | None:
    """Whether something is missing at the end; None where neither wire nor text tells."""
    best = harvest.best
    if best.is_cut and not best.is_whole:
        return True
    if harvest.objects and best.outcome.reason is Reason.EXTRACTION_FAILED:
        return None  # asked for the rest, it said something else, and who knows?
    return best.outcome.truncated
