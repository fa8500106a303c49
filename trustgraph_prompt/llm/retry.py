"""When a call that failed is sent again: the one helper for all who call a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from trustgraph_prompt.errors import ProviderError

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

#: Seconds. A provider that asks for more is not waited for: its error goes up, with `retry_after`, to
#: whoever can put the request aside without holding a place for it.
LONGEST_WAIT = 120.0

_full_jitter = tenacity.wait_random_exponential(multiplier=1, max=30)


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed later (seed 2, section 7: unavailable, not loaded, rate limit)."""
    return isinstance(error, ProviderError) and error.transient


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is tried in all, and after which failures.

    Between tries: full jitter up to 1, 2, 4 … 30 seconds, and never less than the provider's `retry_after`.
    """

    max_attempts: int = 3
    classifier: Callable[[BaseException], bool] = transient

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        sleep: Sleep = asyncio.sleep,
        seconds_left: Callable[[], float | None] = lambda: None,
    ) -> T:
        """The result of the first try that succeeds; raises the last error where none does.

        Gives up early when the wait would outlast `seconds_left()` (None: no limit) or `LONGEST_WAIT`.
        """

        def enough(state: tenacity.RetryCallState) -> bool:
            left = seconds_left()
            patience = LONGEST_WAIT if left is None else min(left, LONGEST_WAIT)
            return state.attempt_number >= self.max_attempts or state.upcoming_sleep >= patience

        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self.classifier),
            stop=enough,
            wait=_wait,
            sleep=sleep,
            reraise=True,
        )
        return await tries(attempt)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    floor = getattr(error, "retry_after", None) or 0.0
    return max(floor, _full_jitter(state))
