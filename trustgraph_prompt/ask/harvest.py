"""What an answer has brought over all the calls it took, and whether it can be had more of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.reader import CallReport, Outcome, Rejected
from trustgraph_prompt.wire import canonical

#: Calls one cut answer is continued with at most, whatever the budget: a model that invents new objects
#: without end must end somewhere.
MOST_CONTINUATIONS = 50

#: Objects a cut answer must have before repetition in it means anything.
_LEAST_TO_LOOP = 8


@dataclass(frozen=True, slots=True)
class Reply:
    """One call that brought some text, or ended by itself. `broken` is why it did not."""

    outcome: Outcome
    report: CallReport
    broken: ProviderError | None = None

    @property
    def is_cut(self) -> bool:
        """Whether there was more to come; where the wire does not say, the text decides."""
        if self.report.finish_reason is None:
            return self.broken is not None or self.outcome.truncated is True
        return self.report.finish_reason in ("length", "error")


class Harvest:
    """The reader's verdicts on all calls, made one: those of the current attempt and of its continuations."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.calls: list[CallReport] = []
        self.objects: list[Any] = []
        self.may_go_on = False
        self._replies: list[Reply] = []
        self._keys: set[bytes] = set()
        self._seen = 0
        self._rejected: list[Rejected] = []
        self._retracted: list[Any] = []
        self._stop = ""

    @property
    def last(self) -> Outcome:
        """The verdict on the last call."""
        return replace(self._replies[-1].outcome, calls=(self._replies[-1].report,))

    @property
    def is_worth_another_attempt(self) -> bool:
        """Whether there is nothing to use yet, and being told what was wrong might help."""
        reply = self._replies[-1]
        thought_too_long = reply.is_cut and not reply.report.text.strip()
        return not (self.objects or reply.outcome.ok or self._is_refusal or thought_too_long)

    def is_new(self, value: Any) -> bool:
        """Whether no earlier call brought the same object."""
        return not self._keys or canonical(value) not in self._keys

    def add(self, reply: Reply) -> None:
        """Take in what a call brought: a continuation while `may_go_on`, else a new attempt."""
        if not self.may_go_on:
            self._replies.clear()
            self._rejected.clear()
            self._seen = 0
        self._replies.append(reply)
        self._retracted += reply.outcome.retracted
        self._rejected += (replace(r, index=r.index + self._seen) for r in reply.outcome.rejected)
        self.may_go_on = False
        if self.contract.format != "jsonl":
            return
        self._seen += len(reply.outcome.value) + len(reply.outcome.rejected)
        new = [value for value in reply.outcome.value if self.is_new(value)]
        self.objects += new
        if reply.is_cut:
            self._stop = self._reason_to_stop(new)
            self.may_go_on = not self._stop

    def outcome(self) -> Outcome:
        """The verdict on all of it."""
        reply = self._replies[-1]
        outcome = replace(
            reply.outcome,
            rejected=tuple(self._rejected),
            retracted=tuple(self._retracted),
            calls=tuple(self.calls),
            cause=reply.broken,
        )
        if self.contract.format == "jsonl" and self.objects:
            return self._with_objects(outcome)
        if self._is_refusal:
            return replace(outcome, reason=Reason.REFUSED)
        if outcome.ok:
            cut = self.contract.format != "json" and reply.is_cut
            return replace(outcome, truncated=True if cut else outcome.truncated)
        if reply.broken is not None:
            return replace(outcome, reason=Reason.PROVIDER_ERROR, truncated=True)
        return outcome

    def failed(self, error: ProviderError, spent: str | None) -> Outcome:
        """The outcome where the last call brought nothing; `spent` where that was for want of budget."""
        if spent is not None:
            return replace(self.stopped(spent), cause=error)
        return self._ended(Issue(Reason.PROVIDER_ERROR, f"{error.category}: {error}"), cause=error)

    def stopped(self, spent: str) -> Outcome:
        """The outcome where the budget ended before the answer did."""
        return self._ended(Issue(Reason.BUDGET_SPENT, spent))

    def _ended(self, issue: Issue, cause: ProviderError | None = None) -> Outcome:
        if not self._replies:
            value: Any = [] if self.contract.format == "jsonl" else None
            calls = tuple(self.calls)
            return Outcome(value, issue.reason, self.contract, issues=(issue,), calls=calls, cause=cause)
        outcome = self.outcome()
        reason = outcome.reason if outcome.ok or cause is None else issue.reason
        return replace(outcome, reason=reason, issues=(*outcome.issues, issue), cause=cause or outcome.cause)

    def _with_objects(self, outcome: Outcome) -> Outcome:
        truncated = self._truncated()
        return replace(
            outcome,
            value=self.objects,
            reason=Reason.SUCCESS,
            stage=max(reply.outcome.stage for reply in self._replies if reply.outcome.ok),
            issues=(Issue(Reason.TRUNCATED, self._stop),) if truncated and self._stop else (),
            truncated=truncated,
        )

    def _truncated(self) -> bool | None:
        """Whether objects are missing at the end; None where neither wire nor text tells."""
        reply = self._replies[-1]
        if reply.is_cut or reply.report.finish_reason == "content_filter":
            return True
        if len(self._replies) == 1 or reply.outcome.ok or reply.outcome.rejected:
            return reply.outcome.truncated
        # asked for the rest, it said nothing: there is none. Or it said something else, and who knows?
        return False if reply.outcome.reason is Reason.EMPTY else None

    def _reason_to_stop(self, new: list[Any]) -> str:
        keys = [canonical(value) for value in new]
        self._keys.update(keys)
        half = len(keys) // 2
        if not new:
            return "the answer was cut, and going on brought nothing new"
        if len(keys) >= _LEAST_TO_LOOP and set(keys[half:]) <= set(keys[:half]):
            return "the answer was cut, and only repeated itself"
        if len(self._replies) > MOST_CONTINUATIONS:
            return f"the answer was cut {len(self._replies)} times"
        return ""

    @property
    def _is_refusal(self) -> bool:
        reply = self._replies[-1]
        usable = reply.outcome.ok and self.contract.format != "text"  # a refusal is a text, too
        return reply.report.finish_reason == "content_filter" and not usable
