"""What is left of a budget while a question is being asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.errors import ProviderUnavailable
from trustgraph_prompt.llm import Call, Delta, Message
from trustgraph_prompt.llm.tokens import estimate, estimate_usage
from trustgraph_prompt.reader import CallReport


class Allowance:
    """Counts what calls cost against a budget. Tokens that a provider does not report are estimated."""

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
        self._price = price
        self._began = clock() if published is None else published
        self._tokens = 0
        self._money = 0.0

    def spent(self) -> str | None:
        """What of the budget has been used up, in words; None while another call may be paid for."""
        budget, left = self._budget, self.seconds_left()
        if left is not None and left <= 0:
            return f"the {budget.seconds:g} seconds of the budget ended {-left:.1f} seconds ago"
        if budget.tokens is not None and self._tokens >= budget.tokens:
            return f"{self._tokens} of {budget.tokens} tokens are spent"
        if budget.money is not None and self._price is not None and self._money >= budget.money:
            return f"{self._money:.4g} of {budget.money:.4g} are spent"
        return None

    def seconds_left(self) -> float | None:
        """Until the budget's seconds are over; None where it has no end."""
        if self._budget.seconds is None:
            return None
        return self._began + self._budget.seconds - self._clock()

    def room(self, conversation: Sequence[Message], max_tokens: int | None) -> int | None:
        """How long the next answer may be: the prompt's own limit, or less where the budget has less."""
        if self._budget.tokens is None:
            return max_tokens
        question = sum(estimate(message.content) for message in conversation)
        left = max(1, self._budget.tokens - self._tokens - question)
        return left if max_tokens is None else min(left, max_tokens)

    def pay(self, call: Call, report: CallReport) -> None:
        """Count a call that was made. One that failed before any text costs what the provider says."""
        usage = report.usage
        if usage == Usage() and (report.text or report.error is None):
            usage = estimate_usage(call, report.text)
        self._tokens += usage.total_tokens or (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        if self._price is not None:
            self._money += self._price.of(usage)

    async def in_time(self, deltas: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
        """The same deltas; raises `ProviderUnavailable` when the seconds end before they do."""
        async with aclosing(deltas):
            while True:
                try:
                    # around each step, not around the whole: what the listener does is never interrupted
                    async with asyncio.timeout(self.seconds_left()) as limit:
                        delta = await anext(deltas)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if not limit.expired():
                        raise
                    raise ProviderUnavailable("the seconds of the budget ended before the answer") from None
                yield delta
