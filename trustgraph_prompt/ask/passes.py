"""Further passes over a question: when there is another one, and what it adds to the outcome."""

from __future__ import annotations

from dataclasses import replace

from trustgraph_prompt.reader import Outcome


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
