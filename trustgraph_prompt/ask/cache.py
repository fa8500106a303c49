"""Caches for the answers of prompts that allow it: the interface, and a cache in memory."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic

from cachetools import TLRUCache

log = logging.getLogger(__name__)

MAX_BYTES = 128 * 1024 * 1024
"""The approximate size of a cache in memory."""

ENTRY_BYTES = 1024
"""The approximate overhead of an entry."""


class Cache(ABC):
    """Stores answers under keys that hash everything that determines them (docs/how-to/caching.md).

    A failing cache never fails a request: an exception of `get` counts as a miss, one of `set` is logged.
    Both must return within a bounded time. `in_flight` has the answers that this process is waiting for, by
    key; their result is the value to store, or None.
    """

    def __init__(self) -> None:
        self.in_flight: dict[str, asyncio.Future[bytes | None]] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def get(self, key: str) -> bytes | None:
        """Return the value of the key, None without one."""

    @abstractmethod
    async def set(self, key: str, value: bytes, seconds: float) -> None:
        """Store a value for so many seconds, or fewer if space is needed."""

    async def close(self) -> None:
        """Wait for values that are being stored, then close connections. Idempotent."""
        if self._keeping:
            await asyncio.wait(self._keeping)

    async def look_up(self, key: str) -> bytes | None:
        """Return the result of `get`; None where it raises."""
        try:
            return await self.get(key)
        except Exception:
            log.warning("the cache failed; the question goes to the model", exc_info=True)
            return None

    def keep(self, key: str, value: bytes, seconds: float) -> asyncio.Task[None]:
        """Start a task that calls `set`. It never raises; `close` waits for it."""
        task = asyncio.create_task(self._keep(key, value, seconds))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)
        return task

    async def _keep(self, key: str, value: bytes, seconds: float) -> None:
        try:
            await self.set(key, value, seconds)
        except Exception:
            log.warning("the cache failed; an answer was not stored", exc_info=True)


class MemoryCache(Cache):
    """A cache in memory, limited in bytes; evicts the least recently used entry."""

    def __init__(self, max_bytes: int = MAX_BYTES, *, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._kept: TLRUCache[str, tuple[bytes, float]] = TLRUCache(
            max_bytes,
            ttu=lambda _, kept, now: now + kept[1],
            timer=clock,
            getsizeof=lambda kept: len(kept[0]) + ENTRY_BYTES,
        )

    async def get(self, key: str) -> bytes | None:
        kept = self._kept.get(key)
        return None if kept is None else kept[0]

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        self._kept.pop(key, None)
        if len(value) + ENTRY_BYTES <= self._kept.maxsize:
            self._kept[key] = value, seconds
