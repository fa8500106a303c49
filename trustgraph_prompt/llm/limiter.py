"""A provider wrapper that keeps calls within limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from trustgraph_prompt.errors import ProviderRateLimit
from trustgraph_prompt.llm.calls_in_progress import CallsInProgress, is_first
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.provider import Provider, ProviderWrapper
from trustgraph_prompt.llm.rate_limits import Limits
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.token_estimates import estimate_question


class Limiter(ProviderWrapper):
    """Waits before each call until the limits admit it, and occupies a slot until the answer has ended.

    Limiters with the same `Limits` share them: they bound the calls of a whole process. Providers with the
    same `Identity.place` are one server, and a refusal for its rate slows all of them. A call is expected to
    take the tokens of its question and of its answer limit, if there is one; afterwards it counts with the
    tokens that the provider reports, or else an estimate. A call without any answer counts as no tokens, and
    one that the circuit breaker rejects does not count at all.

    The first call of a question stops waiting when the run of `calls` ends.
    """

    def __init__(self, provider: Provider, limits: Limits, calls: CallsInProgress | None = None) -> None:
        super().__init__(provider)
        self._limits = limits
        self._calls = calls

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer, once the call is admitted. Raises `RunIsEnding` and what `Limits.enter` does."""
        counts = self._limits.counts_tokens
        question = estimate_question(call) if counts else 0
        answer = max(0, call.config.answer_limit or 0)
        entering = self._limits.enter(question + answer, server=self.identity.place)
        if self._calls is not None and is_first(call):
            entering = self._calls.unless_ending(entering)
        admission = await entering
        received, is_away = DeltaAccumulator(), False
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    if admission.pending:
                        self._limits.answered(admission)
                    received.take(delta)
                    yield delta
            if admission.pending:
                self._limits.answered(admission)
        except ProviderRateLimit as error:
            self._limits.refused(admission, error.retry_after)
            raise
        except ProviderAway:
            is_away = True
            raise
        finally:
            if is_away:
                self._limits.give_back(admission)
            else:
                self._limits.leave(admission, received.tokens(call) if counts else 0)
