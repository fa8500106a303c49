"""Merges the calls of a pass, and then the passes, into one `Outcome`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.reader import Outcome


def merge_calls(
    collected: Collected, end: Issue | None = None, cause: ProviderError | None = None
) -> Outcome:
    """Merge the calls. `end` says what ended the loop early: the budget, or an error (`cause`)."""
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
    """The reason of the last answer, even if a later call failed; that of the failure if there is none.

    A transient failure takes precedence over an invalid answer: the same question may be answered later.
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
    is_transient = error is not None and error.transient and failure is Reason.PROVIDER_ERROR
    no_answer = best.broken is not None and not best.outcome.rejected
    return failure if is_transient or no_answer else best.outcome.reason


def _escalated(
    collected: Collected, reason: Reason, end: Issue | None
) -> Literal["condition", "attempts"] | None:
    """Why the outcome is escalated.

    The reason is "attempts" where a prompt has several, or an escalation condition, and the loop came to its
    regular end without a usable answer.
    """
    if collected.is_escalated:
        return "condition"
    is_watched = collected.prompt.attempts > 1 or collected.prompt.escalation is not None
    in_vain = reason not in (Reason.SUCCESS, Reason.PROVIDER_ERROR) and end is None
    return "attempts" if is_watched and in_vain else None


def _issues(collected: Collected) -> tuple[Issue, ...]:
    """The issues of the answer, and why the rest of it could not be had.

    The issues of a continuation that brought no object do not concern the objects of earlier calls.
    """
    best = collected.best.outcome
    issues = best.issues if best.ok or not collected.has_objects else ()
    if collected.dead_end is not None:
        issues += (Issue(Reason.TRUNCATED, collected.dead_end),)
    return issues


def _truncated(collected: Collected) -> bool | None:
    """Whether the end is missing; None where neither finish reason nor text tells."""
    best = collected.best
    if best.is_truncated and not best.is_complete:
        return True
    if collected.objects and best.outcome.reason is Reason.EXTRACTION_FAILED:
        return None  # the continuation had no JSON, which may mean that nothing was left
    return best.outcome.truncated


def may_have_more(last: Outcome) -> bool:
    """Whether a pass after this one may bring more: it has brought objects, and came to its regular end."""
    return last.ok and bool(last.value) and last.escalated is None and is_finished(last)


def is_finished(outcome: Outcome) -> bool:
    """Whether a pass came to its regular end, with or without objects, and was not cut off."""
    return not (outcome.truncated or outcome.issues or outcome.cause)


def add_pass(before: Outcome, later: Outcome) -> Outcome:
    """Add what a pass brought to the outcome of those before it, whose verdict on the answer remains.

    The objects that a failed pass brought are kept too: a listener has them already.
    """
    return replace(
        before,
        value=[*before.value, *later.value],
        grounding=before.grounding and (*before.grounding, *(later.grounding or ())),
        stage=max(before.stage, later.stage) if later.value else before.stage,
        rejected=before.rejected + later.rejected,
        repaired=before.repaired + later.repaired,
        retracted=before.retracted + later.retracted,
        calls=before.calls + later.calls,
        passes=(*before.passes, later),
    )
