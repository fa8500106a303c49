"""How long a call over HTTP may take, and the waiting itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
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


class Patience:
    """How long one call still waits for what comes next; what a listener takes is not waiting."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self._waited = 0.0  # since the last event
        self.answer_has_begun = False

    def an_event_came(self) -> None:
        """The answer has begun, or goes on."""
        self.answer_has_begun = True
        self._waited = 0.0

    async def wait(self, coming: Awaitable[T]) -> T:
        """What is coming. Raises `ProviderUnavailable` when it takes too long."""
        timeout, began = self._timeout, self._now()
        gone = began - self._started
        if self.answer_has_begun:
            left, message = timeout.idle - self._waited, f"nothing came for {timeout.idle:g} seconds"
        else:
            left, message = timeout.first - gone, f"no answer began within {timeout.first:g} seconds"
        if timeout.total - gone < left:
            left, message = timeout.total - gone, f"the answer took more than {timeout.total:g} seconds"
        try:
            async with asyncio.timeout(left) as limit:
                return await coming
        except TimeoutError as error:
            raise ProviderUnavailable(message if limit.expired() else str(error)) from None
        finally:
            self._waited += self._now() - began
