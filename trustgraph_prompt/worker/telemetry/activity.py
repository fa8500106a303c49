"""What a worker did lately: how often and how fast its flows answered, and the last outcomes."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from time import monotonic, time
from typing import Any, Final

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.rule_in_source import broken_rule
from trustgraph_prompt.errors import Issue, excerpt
from trustgraph_prompt.outcome import Outcome
from trustgraph_prompt.prompts import PromptDefinition, Question

MINUTE: Final = 60
MINUTES: Final = 60
"""How far back the rates of a flow go."""

MINUTES_OF_SPEND: Final = 10
DURATIONS: Final = 1_000
OUTCOMES: Final = 100

MAX_NAME: Final = 200
"""Characters of an id that a requester chose."""

MAX_REJECTED, MAX_TEXT, MAX_QUESTION = 5, 1_000, 2_000
"""Rejected objects that are kept of an outcome, and characters of each and of the text asked about."""

MAX_ISSUES, MAX_ISSUE = 5, 500
"""Issues of a rejected object, and characters of each."""


class _Buckets:
    """Sums by unit of time, which are numbered; the last `kept` units."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._sums: dict[int, float] = {}

    def add(self, unit: int, amount: float) -> None:
        if unit not in self._sums:
            self._sums[unit] = 0.0
            while len(self._sums) > self._kept:
                del self._sums[next(iter(self._sums))]
        self._sums[unit] += amount

    def of(self, units: range) -> list[float]:
        return [self._sums.get(unit, 0.0) for unit in units]


@dataclass(slots=True)
class FlowActivity:
    """The rates and durations of one flow. Times are seconds of a monotonic clock."""

    began: float
    durations: collections.deque[float] = field(default_factory=lambda: collections.deque(maxlen=DURATIONS))
    _seconds: _Buckets = field(default_factory=lambda: _Buckets(MINUTE + 1))
    _minutes: _Buckets = field(default_factory=lambda: _Buckets(MINUTES))
    _spend: _Buckets = field(default_factory=lambda: _Buckets(MINUTES))

    def add(self, now: float, seconds: float, cost: float | None) -> None:
        self.durations.append(seconds)
        self._seconds.add(int(now), 1)
        self._minutes.add(int(now) // MINUTE, 1)
        if cost is not None:
            self._spend.add(int(now) // MINUTE, cost)

    def per_second(self, now: float, last: int) -> float:
        """Requests per second over the `last` whole seconds, at most a minute."""
        return sum(self._seconds.of(range(int(now) - last, int(now)))) / last

    def per_minute(self, now: float) -> list[int]:
        """Requests of each minute of the last hour, oldest first; the last minute has not ended."""
        minute = int(now) // MINUTE
        return [int(count) for count in self._minutes.of(range(minute - MINUTES + 1, minute + 1))]

    def cost_per_hour(self, now: float) -> float:
        """The spend of an hour like the last ten minutes, or like all minutes of a flow that is younger."""
        minute = int(now) // MINUTE
        first = minute - MINUTES_OF_SPEND + 1
        seconds = now - max(self.began, first * MINUTE)
        spent = sum(self._spend.of(range(first, minute + 1)))
        return spent * 3600 / max(seconds, MINUTE)


@dataclass(kw_only=True, eq=False, repr=False)
class Activity:
    """Collects the outcomes of a worker. With `shows_content` it keeps parts of questions and answers."""

    shows_content: bool = False
    clock: Callable[[], float] = monotonic
    now: Callable[[], float] = time

    def __post_init__(self) -> None:
        self.flows: dict[str, FlowActivity] = {}
        self.outcomes: collections.deque[dict[str, Any]] = collections.deque(maxlen=OUTCOMES)

    def asked(
        self,
        request: str,
        flow: str,
        prompt: PromptDefinition,
        question: Question,
        outcome: Outcome,
        seconds: float,
    ) -> None:
        """Note an outcome, which also counts in the metrics."""
        now = self.clock()
        if flow not in self.flows:
            self.flows[flow] = FlowActivity(now)
        self.flows[flow].add(now, seconds, cost := outcome.cost)
        answered = {
            "at": self.now(),
            "request": excerpt(request, MAX_NAME),
            "flow": flow,
            "prompt": prompt.id,
            "version": prompt.version,
            "canary": prompt.canary is not None,
            "reason": outcome.reason.value,
            "objects": len(outcome.value) if isinstance(outcome.value, list) else 0,
            "rejected": len(outcome.rejected),
            "truncated": outcome.truncated,
            "cached": outcome.cached,
            "calls": len(outcome.calls),
            "tokens": sum(call.usage.tokens for call in outcome.calls),
            "cost": cost,
            "seconds": round(seconds, 4),
        }
        if self.shows_content and (outcome.rejected or not outcome.ok):
            answered["content"] = _content(question, outcome)
        self.outcomes.append(answered)

    def forget_flow(self, flow: str) -> None:
        """Remove the rates of a flow."""
        self.flows.pop(flow, None)


def _content(question: Question, outcome: Outcome) -> Callable[[], dict[str, Any]]:
    """What a request was about and what was rejected of its answer, cut.

    The rules that are broken take time to find: the function that is returned finds them, and only once.
    """
    asked = excerpt(_subject(question), MAX_QUESTION)
    rejected = [replace(each, raw=each.raw[:MAX_TEXT]) for each in outcome.rejected[:MAX_REJECTED]]
    contract = outcome.contract.without_terms

    @cache
    def content() -> dict[str, Any]:
        return {
            "question": asked,
            "rejected": [
                {
                    "index": each.index,
                    "text": each.raw,
                    "issues": [_issue(issue, contract) for issue in each.issues[:MAX_ISSUES]],
                }
                for each in rejected
            ],
        }

    return content


def _subject(question: Question) -> str:
    """The text that a question is about: the longest of its terms, or the question itself."""
    texts: Sequence[str] = [term for term in (question.terms or {}).values() if isinstance(term, str)]
    return max(texts, key=len, default=question.prompt)


def _issue(issue: Issue, contract: Contract) -> dict[str, Any]:
    rule = broken_rule(issue.keyword, contract)
    return {
        "reason": issue.reason.value,
        "path": excerpt(issue.path),
        "message": excerpt(issue.message, MAX_ISSUE),
        "schema": rule and excerpt(f"{rule.where}: {rule.text}", MAX_ISSUE),
    }


def iso(seconds: float) -> str:
    """A time in seconds since the epoch, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
