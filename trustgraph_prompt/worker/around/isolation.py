"""Keeps messages that may have crashed a worker apart from all others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import inf

log = logging.getLogger(__name__)


class Isolation:
    """Runs suspects in groups, with nothing else beside them; all other messages wait for the suspects.

    One group for the flows of a process, so that a suspect of one flow is not blamed for that of another.
    """

    def __init__(self) -> None:
        self._others = 0  # messages that are no suspects and run, or may be suspects
        self._waiting: dict[asyncio.Future[int], float] = {}  # suspects, with the largest group for each
        self._group: set[asyncio.Future[int]] = set()
        self._over = asyncio.Event()
        self._over.set()

    @property
    def why(self) -> str | None:
        """What messages wait for; None if they need not wait."""
        if self._over.is_set():
            return None
        suspects = len(self._waiting) + len(self._group)
        return f"requests of a worker that died are processed first: {suspects} left"

    async def until_over(self) -> None:
        """Wait until there are no suspects."""
        while not self._over.is_set():
            await self._over.wait()

    @contextmanager
    def other(self) -> Iterator[None]:
        """Run a message that is no suspect, or decide whether it is one; the next group waits for that.

        Call `until_over` before it runs.
        """
        self._others += 1
        try:
            yield
        finally:
            self._others -= 1
            self._look()

    @asynccontextmanager
    async def suspect(self, largest: float = inf) -> AsyncIterator[int]:
        """Run a suspect in a group of at most `largest`; yields the size of the group."""
        began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[began] = largest
        self._over.clear()
        self._look()
        try:
            yield await began
        finally:
            self._waiting.pop(began, None)
            self._group.discard(began)
            if not (self._waiting or self._group):
                self._over.set()
            self._look()

    def _look(self) -> None:
        """Begin the next group if nothing runs, after what is decided now has become a suspect."""
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        if self._others or self._group:
            return
        waiting = sorted(self._waiting, key=lambda began: -self._waiting[began])
        group = [began for place, began in enumerate(waiting) if place < self._waiting[began]]
        if group:
            log.warning("%s, %d side by side", self.why, len(group))
        for began in group:
            del self._waiting[began]
            self._group.add(began)
            if not began.cancelled():
                began.set_result(len(group))
