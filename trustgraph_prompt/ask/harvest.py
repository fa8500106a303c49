"""What the calls of an asking have brought, and whether a cut answer can be had more of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.reader import CallReport, Outcome, Rejected, Repaired
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

    @property
    def is_refusal(self) -> bool:
        """Whether the model, or a filter, would not answer; a refusal reads well as a text."""
        usable = self.outcome.ok and self.outcome.contract.format != "text"
        return self.report.finish_reason == "content_filter" and not usable


class Harvest:
    """Collects what calls bring: objects from all of them, the rest from the current attempt.

    `calls` are all that were made, `replies` those of the current attempt and its continuations.
    """

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.calls: list[CallReport] = []
        self.replies: list[Reply] = []
        self.objects: list[Any] = []
        self.rejected: list[Rejected] = []
        self.repaired: list[Repaired] = []
        self.retracted: list[Any] = []
        self._keys: set[bytes] = set()  # of the objects that earlier calls brought
        self._fresh: list[bytes] = []  # of those that the last call brought, where it was cut
        self._seen = 0

    @property
    def last(self) -> Reply:
        """What the last call brought."""
        return self.replies[-1]

    @property
    def may_go_on(self) -> bool:
        """Whether the answer was cut and asking for the rest may bring more."""
        return self._has_objects_to_come and self.dead_end is None

    @property
    def dead_end(self) -> str | None:
        """Why asking for the rest of a cut answer leads nowhere, in words; None where it may lead on."""
        if not self._has_objects_to_come:
            return None
        broken, half = self.last.broken, len(self._fresh) // 2
        if broken is not None and not broken.transient:
            return f"the answer was cut by {broken.category}: {broken}"
        if not self._fresh:
            return "the answer was cut, and going on brought nothing new"
        if len(self._fresh) >= _LEAST_TO_LOOP and set(self._fresh[half:]) <= set(self._fresh[:half]):
            return "the answer was cut, and only repeated itself"
        if len(self.replies) > MOST_CONTINUATIONS:
            return f"the answer was cut {len(self.replies)} times"
        return None

    def is_new(self, value: Any) -> bool:
        """Whether no earlier call brought the same object."""
        return not self._keys or canonical(value) not in self._keys

    def add(self, reply: Reply) -> None:
        """Take in what a call brought: a continuation while the harvest `may_go_on`, else a new attempt."""
        if not self.may_go_on:
            self._forget_the_attempt()
        self.replies.append(reply)
        self.rejected += (replace(r, index=r.index + self._seen) for r in reply.outcome.rejected)
        self.repaired += (replace(r, index=r.index + self._seen) for r in reply.outcome.repaired)
        self.retracted += self._new(reply.outcome.retracted)
        if self.contract.format == "jsonl":
            new = self._new(reply.outcome.value)
            self.objects += new
            self._fresh = [canonical(value) for value in new] if reply.is_cut else []
            self._keys.update(self._fresh)
            self._seen += len(reply.outcome.value) + len(reply.outcome.rejected)

    def _new(self, values: Iterable[Any]) -> list[Any]:
        return [value for value in values if self.is_new(value)]

    def _forget_the_attempt(self) -> None:
        self.replies.clear()
        self.rejected.clear()
        self.repaired.clear()
        self._seen = 0

    @property
    def _has_objects_to_come(self) -> bool:
        return self.contract.format == "jsonl" and bool(self.replies) and self.last.is_cut
