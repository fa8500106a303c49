"""A limit on what is in flight: so many at once, and so many bytes of them."""

from __future__ import annotations

import asyncio
from collections import deque


class InFlight:
    """Who finds no room waits, in order. What is larger than all of it waits until it is alone."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = self._all = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int) -> None:
        """Take room for one thing of this size; who has it must `leave`."""
        size = min(size, self._all)
        if not self._waiting and self._fits(size):
            self._take(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()  # who waited behind us may fit
            else:
                self.leave(size)  # it was our turn already
            raise

    def leave(self, size: int) -> None:
        """Give back what was taken for one of this size."""
        self._count += 1
        self._size += min(size, self._all)
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._fits(size):
                    return
                self._take(size)
                turn.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        return self._count > 0 and self._size >= size

    def _take(self, size: int) -> None:
        self._count -= 1
        self._size -= size
