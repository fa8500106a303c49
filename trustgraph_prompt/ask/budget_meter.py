"""Measures what a question has used of its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.llm import Call, Message
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.token_estimates import estimate_messages, estimate_usage


class BudgetSpent(Exception):
    """The budget allows no other call; the message says what is used up."""


class BudgetMeter:
    """Counts the time, tokens and money of calls. Tokens that a provider does not report are estimated.

    Without a price no money is counted. `published` (seconds since the epoch, as `clock`) is when the seconds
    of the budget began; None: now.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        clock: Callable[[], float],
        published: float | None,
        price: Price | None,
    ) -> None:
        self._budget = budget
        self._clock = clock
        self._is_priced = price is not None
        self._price = price or Price(0, 0)
        self._counts_tokens = budget.tokens is not None or budget.money is not None
        asked = clock()
        began = asked if published is None else published
        self._ends = inf if budget.seconds is None else began + budget.seconds
        self._work_ends = inf if budget.work_seconds is None else asked + budget.work_seconds
        self._tokens = 0
        self._money = 0.0

    def answer_tokens(self, conversation: Sequence[Message]) -> int | None:
        """How many tokens the answer to a conversation may have; None without a limit.

        Raises `BudgetSpent` where the time is over, or the conversation alone exceeds what is left.
        """
        if spent := self.spent():
            raise BudgetSpent(spent)
        if self._budget.work_seconds is not None and self._work_ends <= self._clock():
            raise BudgetSpent(f"the {self._budget.work_seconds:g} seconds of work (work_seconds) are over")
        if not self._counts_tokens:
            return None
        question = Usage(estimate_messages(conversation), 0)
        if spent := self.spent(question):
            raise BudgetSpent(f"{spent} with a question of about {question.tokens} tokens")
        limits = []
        if self._budget.tokens is not None:
            limits.append(self._budget.tokens - self._tokens - question.tokens)
        if self._budget.money is not None and self._price.completion > 0:
            left = self._budget.money - self._money - self._price.of(question)
            limits.append(max(1, int(left * 1_000_000 / self._price.completion)))
        return min(limits, default=None)

    def spent(self, more: Usage = Usage()) -> str | None:
        """What of the budget is used up once `more` is spent, as a message; None if nothing is."""
        budget = self._budget
        if budget.seconds is not None and (over := self._clock() - self._ends) >= 0:
            ended = "are over" if over < 2 else f"ended {over:.0f} seconds ago"
            return f"the {budget.seconds:g} seconds of the budget {ended}"
        if not self._counts_tokens:
            return None
        tokens = self._tokens + more.tokens
        if budget.tokens is not None and tokens >= budget.tokens:
            return f"{tokens} of {budget.tokens} tokens are spent"
        money = self._money + self._price.of(more)
        if budget.money is not None and money >= budget.money:
            return f"{money:.4g} of {budget.money:.4g} in money are spent"
        return None

    def seconds_left(self) -> float | None:
        """Until the seconds of the budget, or those of work, are over; None without such a limit."""
        ends = min(self._ends, self._work_ends)
        return None if ends == inf else ends - self._clock()

    def pay(self, call: Call, answer: DeltaAccumulator, *, failed: bool) -> float | None:
        """Count a call and return its cost; None without a price.

        What the provider did not report is estimated from the call and its answer. A call that `failed`
        before anything came is free.
        """
        if not (self._counts_tokens or self._is_priced):
            return None
        usage, written = answer.usage, answer.thinking + answer.text
        if failed and not written and usage == Usage():
            return 0.0 if self._is_priced else None
        if usage.total_tokens is None:
            estimated = estimate_usage(call, written)
            prompt, completion = usage.prompt_tokens, usage.completion_tokens
            usage = replace(
                usage,
                prompt_tokens=estimated.prompt_tokens if prompt is None else prompt,
                completion_tokens=estimated.completion_tokens if completion is None else completion,
            )
        self._tokens += usage.tokens
        cost = self._price.of(usage)
        self._money += cost
        return cost if self._is_priced else None
