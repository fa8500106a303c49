"""A limit on what is in flight: so many at once, and so many bytes of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class InFlight:
    """Who finds no room waits, in order. What is larger than all of it waits until it is alone."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = self._all = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def room_for(self, size: int) -> AsyncIterator[None]:
        """Room for one thing of this size."""
        size = min(size, self._all)
        await self._enter(size)
        try:
            yield
        finally:
            self._leave(size)

    async def _enter(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self._take(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(size)  # it was our turn already
            else:
                self._waiting.remove((size, turn))
                self._admit()
            raise

    def _leave(self, size: int) -> None:
        self._count += 1
        self._size += size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            self._take(size)
            turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return self._count > 0 and self._size >= size

    def _take(self, size: int) -> None:
        self._count -= 1
        self._size -= size
