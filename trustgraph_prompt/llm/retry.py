"""Retries failed calls of a provider (OpenArmature, section 7.1)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from trustgraph_prompt.errors import ProviderError, ProviderUnavailable, StructuredOutputInvalid
from trustgraph_prompt.llm.records import RuntimeConfig

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

#: Seconds. If a provider asks for a longer wait, its error is raised, with `retry_after`, to a caller that
#: can postpone the request without occupying a slot.
LONGEST_WAIT = 120.0

#: The most seconds of a `Retry-After` that are respected. Rate limits are by the minute, and a server that
#: asks for more is often wrong; one call after five minutes does no harm, and shows.
LONGEST_BELIEVED = 300.0


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed later, because the error or its direct cause is transient.

    Transient are: unavailable, not loaded and rate limit (OpenArmature, section 7).
    """
    return any(isinstance(e, ProviderError) and e.transient for e in (error, error.__cause__))


def full_jitter(attempt: int) -> float:
    """Seconds to wait after an attempt (from 0): random, up to 1, 2, 4 … 30."""
    return random.uniform(0.0, min(30.0, 2.0 ** min(attempt, 5)))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many attempts a call has (`max_attempts`), and after which errors it is retried (`classifier`).

    After the n-th attempt (from 0) the wait is `backoff(n)` seconds, never less than the provider's
    `retry_after`, and none after an invalid answer. `on_retry(error, n)` is awaited before it. `deadline` is
    in seconds over all attempts and waits.

    The rest is for `complete`; `ask` has a budget and feedback instead. There is no further attempt once
    `tokens` are spent. `per_attempt_override` are settings that override those of the call: the first for the
    second attempt and so on, the last for all that follow; None in them changes nothing. `reask(error)`
    returns the message that follows the invalid answer when the model is asked again; without `reask` an
    invalid answer is final.
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
        """Return the result of the first attempt that succeeds; raise the last error where none does.

        Gives up early when the wait would exceed `seconds_left()` (None: no limit) or the deadline, or the
        provider asks for `LONGEST_WAIT`. Where the deadline ends an attempt, raises `ProviderUnavailable`.
        Cancellation is never retried.
        """
        ends = None if self.deadline is None else time.monotonic() + self.deadline
        n = 0
        while True:
            try:
                return await (attempt() if ends is None else self._until(ends, attempt))
            except Exception as error:
                if not self.classifier(error):
                    raise
                asked = _asked_to_wait(error)
                is_invalid = isinstance(error, StructuredOutputInvalid) and not transient(error)
                seconds = 0.0 if is_invalid else max(asked, self.backoff(n))
                limits = seconds_left(), None if ends is None else ends - time.monotonic()
                is_too_long = any(limit is not None and seconds >= limit for limit in limits)
                if n + 1 >= self.max_attempts or asked >= LONGEST_WAIT or is_too_long:
                    raise
                if self.on_retry is not None:
                    await self.on_retry(error, n)
            await sleep(seconds)  # out here, so that the next error does not refer to this one
            n += 1

    async def _until(self, ends: float, attempt: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(ends - time.monotonic()) as limit:
                return await attempt()
        except TimeoutError:
            if not limit.expired():
                raise
        message = f"no answer within the retry deadline of {self.deadline:g} seconds"
        raise ProviderUnavailable(message)

    def config(self, base: RuntimeConfig, attempt: int) -> RuntimeConfig:
        """The settings of an attempt (from 0)."""
        if attempt == 0 or not self.per_attempt_override:
            return base
        override = self.per_attempt_override[min(attempt, len(self.per_attempt_override)) - 1]
        values = {field.name: getattr(override, field.name) for field in fields(override)}
        changed = {name: value for name, value in values.items() if value is not None}
        return replace(base, **changed | {"extras": {**base.extras, **override.extras}})


def _asked_to_wait(error: Exception) -> float:
    """The `retry_after`, in seconds, of the error or its direct cause."""
    waits = (getattr(e, "retry_after", None) for e in (error, error.__cause__))
    return max((seconds for seconds in waits if seconds is not None), default=0.0)
