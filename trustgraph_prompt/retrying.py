"""Retries with tenacity, without its overhead if the first call succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_never
from tenacity.retry import RetryBaseT
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

T = TypeVar("T")

_ANY_ERROR = retry_if_exception_type()


async def retrying(
    action: Callable[[], Awaitable[T]],
    *,
    retry: RetryBaseT = _ANY_ERROR,
    stop: StopBaseT = stop_never,
    wait: WaitBaseT,
    before_sleep: Callable[[RetryCallState], Awaitable[None] | None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Call `action` until it succeeds, and return its result; raises the last error if it never does.

    `retry`, `stop`, `wait` and `before_sleep` are tenacity's: which errors to retry, when to give up, how
    many seconds to wait, and a callback before each wait. `sleep` does the waiting. Cancellation is never
    retried.
    """
    try:
        return await action()  # setting up tenacity takes as long as everything else a call needs
    except Exception as error:
        failed = [error]

    async def again() -> T:
        if failed:
            raise failed.pop()
        return await action()

    tries = AsyncRetrying(
        retry=retry, stop=stop, wait=wait, before_sleep=before_sleep, sleep=sleep, reraise=True
    )
    try:
        return await tries(again)
    finally:
        tries.iter_state.reset()  # refers to `tries`: results would stay until a full garbage collection


def error_of(state: RetryCallState) -> BaseException | None:
    """The error of the latest attempt."""
    return state.outcome.exception() if state.outcome else None
