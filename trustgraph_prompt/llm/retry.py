"""When a call that failed is sent again: the one helper for all who call a provider (seed 2, section 7.1)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import tenacity

from trustgraph_prompt.errors import ProviderError, ProviderUnavailable, StructuredOutputInvalid
from trustgraph_prompt.llm.records import RuntimeConfig
from trustgraph_prompt.retrying import error_of, retrying

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

#: Seconds. A provider that asks for more is not waited for: its error goes up, with `retry_after`, to
#: whoever can put the request aside without holding a place for it.
LONGEST_WAIT = 120.0

#: Seconds for which a server's wish to be left alone is believed. Limits are by the minute, and one that asks
#: for more is often wrong: another call after five minutes is no burden to it, and tells.
LONGEST_BELIEVED = 300.0


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed later: the error, or its direct cause, is one that passes.

    These are unavailable, not loaded and rate limit (seed 2, section 7).
    """
    return any(isinstance(one, ProviderError) and one.transient for one in (error, error.__cause__))


def full_jitter(attempt: int) -> float:
    """Seconds to wait after the `attempt`-th try (from 0): random, up to 1, 2, 4 … 30."""
    return random.uniform(0.0, min(30.0, 2.0 ** min(attempt, 5)))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is tried in all (`max_attempts`), and after which failures (`classifier`).

    Between two tries: `backoff(n)` seconds after the n-th (from 0), never less than the provider's
    `retry_after`, and none after an answer that was merely wrong. Before the wait `on_retry(error, n)` is
    awaited. `deadline` is in seconds over all tries and waits together.

    The rest is for `complete`; `ask` has a budget and words of its own. No other try is made once `tokens`
    are spent. `per_attempt_override` are settings that go over those of the call, the first for the second
    try and so on, the last for all that follow; what is None in them stays as it was. `reask(error)` are the
    words with which the model, shown its wrong answer, is asked again; without it a wrong answer is final.
    """

    max_attempts: int = 3
    classifier: Callable[[Exception], bool] = transient
    backoff: Callable[[int], float] = full_jitter
    on_retry: Callable[[Exception, int], Awaitable[None]] | None = None
    deadline: float | None = None
    tokens: int | None = None
    per_attempt_override: Sequence[RuntimeConfig] = ()
    reask: Callable[[StructuredOutputInvalid], str] | None = None

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        sleep: Sleep = asyncio.sleep,
        seconds_left: Callable[[], float | None] = lambda: None,
    ) -> T:
        """The result of the first try that succeeds; raises the last error where none does.

        Gives up early when the wait would outlast `seconds_left()` (None: no limit) or the deadline, or the
        provider asks for `LONGEST_WAIT`. A try that the deadline ends is `ProviderUnavailable`. Cancelling is
        never a failure.
        """
        ends = None if self.deadline is None else time.monotonic() + self.deadline

        def left() -> float | None:
            limits = [seconds_left(), None if ends is None else ends - time.monotonic()]
            return min((limit for limit in limits if limit is not None), default=None)

        def enough(state: tenacity.RetryCallState) -> bool:
            seconds = left()
            return (
                state.attempt_number >= self.max_attempts
                or _asked_to_wait(state) >= LONGEST_WAIT
                or (seconds is not None and state.upcoming_sleep >= seconds)
            )

        async def tried() -> T:
            try:
                async with asyncio.timeout(None if ends is None else ends - time.monotonic()) as limit:
                    return await attempt()
            except TimeoutError:
                if not limit.expired():
                    raise
                raise ProviderUnavailable(
                    f"no answer within the {self.deadline:g} seconds there were"
                ) from None

        return await retrying(
            tried,
            retry=self._is_worth_another,
            stop=enough,
            wait=self._wait,
            before_sleep=self._tell,
            sleep=sleep,
        )

    def config(self, base: RuntimeConfig, attempt: int) -> RuntimeConfig:
        """The settings of the `attempt`-th try (from 0)."""
        if attempt == 0 or not self.per_attempt_override:
            return base
        override = self.per_attempt_override[min(attempt, len(self.per_attempt_override)) - 1]
        named = {one.name: getattr(override, one.name) for one in fields(override)}
        said = {name: value for name, value in named.items() if value is not None}
        return replace(base, **said | {"extras": {**base.extras, **override.extras}})

    def _is_worth_another(self, state: tenacity.RetryCallState) -> bool:
        error = error_of(state)
        return isinstance(error, Exception) and self.classifier(error)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = error_of(state)
        if isinstance(error, StructuredOutputInvalid) and not transient(error):
            return 0.0
        return max(_asked_to_wait(state), self.backoff(state.attempt_number - 1))

    async def _tell(self, state: tenacity.RetryCallState) -> None:
        error = error_of(state)
        if self.on_retry is not None and isinstance(error, Exception):
            await self.on_retry(error, state.attempt_number - 1)


def _asked_to_wait(state: tenacity.RetryCallState) -> float:
    """Seconds that the provider wants to be left alone, as the error or its direct cause says."""
    error = error_of(state)
    waits = (getattr(one, "retry_after", None) for one in (error, error and error.__cause__))
    return max((seconds for seconds in waits if seconds is not None), default=0.0)
