"""A provider wrapper that keeps calls within limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from trustgraph_prompt.errors import ProviderRateLimit
from trustgraph_prompt.llm.calls_in_progress import CallsInProgress, is_first
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.rate_limits import Limits
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.token_estimates import estimate_question


@dataclass(eq=False, repr=False)
class Limiter(ProviderWrapper):
    """Waits before each call until the limits admit it, and occupies a slot until the answer has ended.

    Limiters with the same `Limits` share them: they bound the calls of a whole process. Providers with the
    same `Identity.place` are one server, and a refusal for its rate slows all of them. A call is expected to
    take the tokens of its question and of its answer limit, if there is one; afterwards it counts with the
    tokens that the provider reports, or else an estimate. A call without any answer counts as no tokens, and
    one that the circuit breaker rejects does not count at all.

    The first call of a question stops waiting when the run of `calls` ends. `on_pause` is called with the
    server and the seconds of a pause that a refusal begins.
    """

    limits: Limits
    calls: CallsInProgress | None = None
    on_pause: Callable[[str, float], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._server = self.provider.identity.place

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer, once the call is admitted. Raises `RunIsEnding` and what `Limits.enter` does."""
        limits = self.limits
        received = DeltaAccumulator() if limits.counts_tokens else None
        expected = 0 if received is None else estimate_question(call) + max(0, call.config.answer_limit or 0)
        entering = limits.enter(expected, server=self._server)
        if self.calls is not None and is_first(call):
            entering = self.calls.unless_ending(entering)
        admission, is_away = await entering, False
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    if admission.pending:
                        limits.answered(admission)
                    if received is not None:
                        received.take(delta)
                    yield delta
            if admission.pending:
                limits.answered(admission)
        except ProviderRateLimit as error:
            pause = limits.refused(admission, error.retry_after)
            if pause and self.on_pause is not None:
                self.on_pause(self._server, pause)
            raise
        except ProviderAway:
            is_away = True
            raise
        finally:
            if is_away:
                limits.give_back(admission)
            else:
                limits.leave(admission, 0 if received is None else received.usage_of(call).tokens)
