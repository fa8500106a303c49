"""A provider around a provider whose calls keep to limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from trustgraph_prompt.errors import ProviderRateLimit
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.provider import Provider, ProviderWrapper
from trustgraph_prompt.llm.rate_limits import Limits
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.token_estimates import estimate_question


class Limiter(ProviderWrapper):
    """Waits for its turn before each call, and keeps its place until the answer has ended.

    Limiters given the same limits share them: what a process may ask of its providers together. Providers of
    one place (`Identity.place`) are one server, whose refusals all of them heed. A call is expected to take
    its question and what the answer may have at most, where that is said; it took what the provider reports,
    or what was said, where it reports nothing. A call that brought nothing took nothing, and one to
    a provider that is away was none.
    """

    def __init__(self, provider: Provider, limits: Limits) -> None:
        super().__init__(provider)
        self._limits = limits

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer of the provider within, once there is a place. Raises what `Limits.enter` raises."""
        counts = self._limits.counts_tokens
        question = estimate_question(call) if counts else 0
        answer = max(0, call.config.answer_limit or 0)
        place = await self._limits.enter(question + answer, server=self.identity.place)
        heard, is_away = DeltaAccumulator(), False
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    if place.pending:
                        self._limits.answered(place)
                    heard.take(delta)
                    yield delta
            if place.pending:
                self._limits.answered(place)
        except ProviderRateLimit as error:
            self._limits.refused(place, error.retry_after)
            raise
        except ProviderAway:
            is_away = True
            raise
        finally:
            if is_away:
                self._limits.give_back(place)
            else:
                self._limits.leave(place, heard.tokens(call) if counts else 0)
