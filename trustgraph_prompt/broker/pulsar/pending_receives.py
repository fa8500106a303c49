"""Runs the receives of a consumer or reader as tasks that are never cancelled.

Cancelling the `receive` of Pulsar's client loses its message until the consumer closes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, has_failed
from trustgraph_prompt.errors import BrokerError

T = TypeVar("T")


class PendingReceives(Generic[T]):
    """At most one pending receive for each source. The message of a cancelled `get` goes to the next one."""

    def __init__(self, sources: Sequence[Callable[[], Awaitable[T]]]) -> None:
        self._idle = list(sources)
        self._pending: set[asyncio.Future[T]] = set()
        self._arrived: deque[asyncio.Future[T]] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self._failure: BrokerError | None = None

    @property
    def ready(self) -> bool:
        """Whether `get` would return at once."""
        return self._ended or bool(self._arrived)

    async def get(self, only: Callable[[], Awaitable[T]] | None = None) -> T | None:
        """Wait for the next message, None once ended. `only` names a source that is known to have one.

        Raises the error of a receive, or the failure that ended all of them.
        """
        if not self._ended and not self._arrived:
            self._begin([only] if only in self._idle else self._idle)
        while not self._arrived and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if self._failure:
            raise self._failure
        if self._ended:
            return None
        return self._arrived.popleft().result()

    def end(self, failure: BrokerError | None = None) -> None:
        """Make `get` return None, or raise the failure."""
        self._ended = True
        self._failure = failure
        self._changed.set()

    async def wait_ended(self) -> None:
        """Wait for the receives to end, once the consumers are closed."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=GRACE_SECONDS)
        for received in self._arrived:
            has_failed(received)

    def _begin(self, sources: Iterable[Callable[[], Awaitable[T]]]) -> None:
        for receive in list(sources):
            self._idle.remove(receive)
            pending = asyncio.ensure_future(receive())
            pending.add_done_callback(partial(self._arrive, receive))
            self._pending.add(pending)

    def _arrive(self, receive: Callable[[], Awaitable[T]], received: asyncio.Future[T]) -> None:
        self._pending.discard(received)
        self._arrived.append(received)
        self._idle.append(receive)
        self._changed.set()
