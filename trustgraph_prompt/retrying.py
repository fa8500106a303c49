"""The one way to try again: tenacity, without what it costs where nothing fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState

T = TypeVar("T")


async def retrying(action: Callable[[], Awaitable[T]], **options: Any) -> T:
    """The result of the first call of `action` that succeeds; raises the last error where none does.

    `options` are those of `tenacity.AsyncRetrying`: which errors to retry, how long to wait, when to stop.
    Cancellation is never a failure.
    """
    try:
        return await action()  # setting up tenacity takes as long as everything else a call needs
    except Exception as error:
        failed = [error]

    async def again() -> T:
        if failed:
            raise failed.pop()
        return await action()

    tries = AsyncRetrying(**{"reraise": True, **options})
    try:
        return await tries(again)
    finally:
        tries.iter_state.reset()  # refers to `tries`: results would stay until a full garbage collection


def error_of(state: RetryCallState) -> BaseException | None:
    """The failure of the latest try."""
    return state.outcome.exception() if state.outcome else None
