"""What a harvest comes to: one outcome of the reader's verdicts on all its calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trustgraph_prompt.ask.harvest import Harvest
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.reader import Outcome


def is_worth_another_attempt(harvest: Harvest) -> bool:
    """Whether there is nothing to use yet, and being told what was wrong might help."""
    last = harvest.last
    if harvest.objects or last.outcome.ok or last.is_refusal:
        return False
    if last.broken is not None and not last.broken.transient:
        return False
    thought_too_long = last.is_cut and not last.report.text.strip()
    return not thought_too_long


def verdict(harvest: Harvest, end: Issue | None = None, cause: ProviderError | None = None) -> Outcome:
    """The outcome. `end` is what ended the asking before the answer did: the budget, or for a `cause`."""
    ends = () if end is None else (end,)
    calls = tuple(harvest.calls)
    if not harvest.replies:
        reason = end.reason if end else Reason.EMPTY
        return Outcome(_value(harvest), reason, harvest.contract, issues=ends, calls=calls, cause=cause)
    return replace(
        harvest.last.outcome,
        value=_value(harvest),
        reason=_reason(harvest, end if cause else None),
        stage=max(
            (reply.outcome.stage for reply in harvest.replies if reply.outcome.ok),
            default=harvest.last.outcome.stage,
        ),
        rejected=tuple(harvest.rejected),
        repaired=tuple(harvest.repaired),
        issues=_issues(harvest) + ends,
        truncated=_truncated(harvest),
        retracted=tuple(harvest.retracted),
        calls=calls,
        cause=cause or harvest.last.broken,
    )


def _value(harvest: Harvest) -> Any:
    if harvest.contract.format == "jsonl":
        return harvest.objects
    return harvest.last.outcome.value if harvest.replies else None


def _reason(harvest: Harvest, failure: Issue | None) -> Reason:
    last = harvest.last
    if harvest.objects:
        return Reason.SUCCESS
    if last.is_refusal:
        return Reason.REFUSED
    if last.outcome.ok:
        return Reason.SUCCESS
    if failure is not None:
        return failure.reason
    return Reason.PROVIDER_ERROR if last.broken else last.outcome.reason


def _issues(harvest: Harvest) -> tuple[Issue, ...]:
    """Those of the last call, and why the rest was not to be had.

    That a continuation brought no object says nothing about the objects that stand.
    """
    last = harvest.last.outcome
    issues = last.issues if last.ok or not harvest.objects else ()
    if harvest.objects and harvest.dead_end is not None:
        issues += (Issue(Reason.TRUNCATED, harvest.dead_end),)
    return issues


def _truncated(harvest: Harvest) -> bool | None:
    """Whether something is missing at the end; None where neither wire nor text tells."""
    last = harvest.last
    reads_whole = last.outcome.ok and harvest.contract.format == "json"
    if last.is_cut and not reads_whole:
        return True
    if harvest.objects and last.outcome.reason is Reason.EXTRACTION_FAILED:
        return None  # asked for the rest, it said something else, and who knows?
    return last.outcome.truncated
