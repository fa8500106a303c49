"""An end to waiting, for many waits at the price of one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The alarm has rung."""


class Deadline:
    """Rings after so many seconds, once, if ever; only what is waited for with `wait` is interrupted.

    `asyncio.timeout` around each wait does the same, and takes as long as all else that a token needs.
    """

    def __init__(self, seconds: float | None) -> None:
        self.has_rung = False
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._has_interrupted = False

    def __enter__(self) -> Deadline:
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._ring)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def wait(self, coming: Awaitable[T]) -> T:
        """What is coming. Raises `DeadlinePassed` when the alarm rings before it has come."""
        task = self._waiting = asyncio.current_task()
        assert task is not None
        cancelled_by_others = task.cancelling()
        try:
            return await coming
        except asyncio.CancelledError:
            if self._has_interrupted and task.cancelling() == cancelled_by_others + 1:
                raise DeadlinePassed from None
            raise
        finally:
            self._waiting = None
            if self._has_interrupted:
                task.uncancel()

    def _ring(self) -> None:
        self.has_rung = True
        if self._waiting is not None:
            self._has_interrupted = True
            self._waiting.cancel()
