"""How long a call over HTTP may take, and the waiting itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from trustgraph_prompt.errors import ProviderUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeout:
    """Seconds a call may take: to connect, until the answer begins, between two pieces of it, in all."""

    connect: float = 10.0
    first: float = 300.0
    idle: float = 120.0
    total: float = 1800.0


DEFAULT_TIMEOUT = Timeout()


class CallDeadline:
    """How long one call still waits for what comes next; what a listener takes is not waiting.

    The total holds for both together.
    """

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self._ends = self._started + timeout.total
        self._waited = 0.0  # since the last event
        self.answer_has_begun = False

    def an_event_came(self) -> None:
        """The answer has begun, or goes on."""
        self.answer_has_begun = True
        self._waited = 0.0

    def check(self) -> None:
        """Raises `ProviderUnavailable` where the total is over."""
        if self._now() >= self._ends:
            raise ProviderUnavailable(self._limit()[1])

    @property
    def seconds(self) -> float:
        """How long to wait at most for what comes next."""
        return self._limit()[0]

    async def wait(self, start: Callable[[], Awaitable[T]]) -> T:
        """What comes of `start()`. Raises `ProviderUnavailable` when it takes too long."""
        began = self._now()
        left, message = self._limit()
        # what is there at once is had without a look at the clock
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
        """The seconds that are left, and what to say once they are over."""
        timeout, now = self._timeout, self._now()
        if self.answer_has_begun:
            left, message = timeout.idle - self._waited, f"nothing came for {timeout.idle:g} seconds"
        else:
            left = self._started + timeout.first - now
            message = f"no answer began within {timeout.first:g} seconds"
        if self._ends - now < left:
            left, message = self._ends - now, f"the answer took more than {timeout.total:g} seconds"
        return left, message
