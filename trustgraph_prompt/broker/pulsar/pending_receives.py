"""The receives of a consumer or reader that are under way.

The client's `receive` must never be cancelled (the message it was for would be held, unseen, until the
consumer closes), so each lives in a task of its own, and we wait beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.shutdown import GRACE_SECONDS, has_failed
from trustgraph_prompt.errors import BrokerError

T = TypeVar("T")


class PendingReceives(Generic[T]):
    """At most one of each source, in the order of arrival; what nobody waits for any more stays."""

    def __init__(self, sources: Sequence[Callable[[], Awaitable[T]]], where: str) -> None:
        self._where = where
        self._idle = list(sources)
        self._pending: set[asyncio.Future[T]] = set()
        self._arrived: deque[asyncio.Future[T]] = deque()
        self._news = asyncio.Event()
        self._over = False
        self._failure: BrokerError | None = None

    @property
    def ready(self) -> bool:
        """Whether `get` would not wait: a message is here that nobody has been given, or it is over."""
        return self._over or bool(self._arrived)

    async def get(self, only: Callable[[], Awaitable[T]] | None = None) -> T | None:
        """The next one, from `only` one source where that is known to have some; None once it is over.

        Raises what ended a receive, or all of them.
        """
        if not self._over and not self._arrived:
            self._begin([only] if only in self._idle else self._idle)
        while not self._arrived and not self._over:
            self._news.clear()
            await self._news.wait()
        if self._failure:
            raise self._failure
        if self._over:
            return None
        with translating(self._where):
            return self._arrived.popleft().result()

    def end(self, failure: BrokerError | None = None) -> None:
        """Whoever waits, and asks from now on, gets None, or the failure."""
        self._over = True
        self._failure = failure
        self._news.set()

    async def settle(self) -> None:
        """The consumers are closed: see the receives end."""
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
        self._news.set()
