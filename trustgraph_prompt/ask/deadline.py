"""A deadline for many waits that needs only one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The deadline passed during a wait."""


class Deadline:
    """Passes after so many seconds (None: never), and interrupts `wait`, nothing else.

    It is entered by the task that waits. `asyncio.timeout` around each wait would do the same, but takes as
    long as everything else that is done for a token.
    """

    def __init__(self, seconds: float | None) -> None:
        self.has_passed = False
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object]
        self._is_waiting = False
        self._has_interrupted = False

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._pass)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Await and return the result. Raises `DeadlinePassed` when the deadline passes before."""
        task = self._task
        earlier_cancellations = task.cancelling()
        self._is_waiting = True
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._has_interrupted and task.cancelling() == earlier_cancellations + 1:
                raise DeadlinePassed from None
            raise
        finally:
            self._is_waiting = False
            if self._has_interrupted:
                task.uncancel()

    def _pass(self) -> None:
        self.has_passed = True
        if self._is_waiting:
            self._has_interrupted = True
            self._task.cancel()
