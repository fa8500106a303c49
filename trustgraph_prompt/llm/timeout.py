"""Timeouts of a call over HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from trustgraph_prompt.errors import ProviderUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeout:
    """Seconds that a call may take: to connect, until the answer begins, between two pieces of it, in all.

    `total` runs from the first piece: until then, the call may wait behind others in the server's queue.
    """

    connect: float = 10.0
    first: float = 300.0
    idle: float = 120.0
    total: float = 1800.0


DEFAULT_TIMEOUT = Timeout()


class CallDeadline:
    """Enforces the timeouts of one call.

    The time that the consumer takes between two pieces only counts for the total.
    """

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self._ends = math.inf
        self._waited = 0.0  # since the last event
        self.answer_has_begun = False

    def an_event_came(self) -> None:
        """Note that a piece of the answer came."""
        if not self.answer_has_begun:
            self._ends = self._now() + self._timeout.total
        self.answer_has_begun = True
        self._waited = 0.0

    def check(self) -> None:
        """Raise `ProviderUnavailable` if the total has passed."""
        if self._now() >= self._ends:
            raise ProviderUnavailable(self._limit()[1])

    @property
    def seconds(self) -> float:
        """How long to wait for the next piece, at most."""
        return self._limit()[0]

    async def wait(self, start: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `start()`. Raises `ProviderUnavailable` when it takes too long."""
        began = self._now()
        left, message = self._limit()
        if left <= 0:
            raise ProviderUnavailable(message)
        try:
            async with asyncio.timeout(left) as limit:
                return await start()
        except TimeoutError as error:
            raise ProviderUnavailable(message if limit.expired() else str(error)) from None
        finally:
            self._waited += self._now() - began

    def _limit(self) -> tuple[float, str]:
        """The seconds that are left, and the message for when they have passed."""
        timeout, now = self._timeout, self._now()
        if self.answer_has_begun:
            left = timeout.idle - self._waited
            message = f"the server sent nothing for {timeout.idle:g} seconds"
        else:
            left = self._started + timeout.first - now
            message = f"no answer began within {timeout.first:g} seconds"
        if self._ends - now < left:
            left, message = self._ends - now, f"the answer took more than {timeout.total:g} seconds"
        return left, message
