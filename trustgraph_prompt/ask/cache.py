"""Where answers are kept that a prompt lets others have again: the interface, and a cache in this process."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic

from cachetools import TLRUCache

log = logging.getLogger(__name__)

MAX_BYTES = 128 * 1024 * 1024
"""What a cache in memory holds at most, about."""

ENTRY_BYTES = 1024
"""What an entry takes beside its answer, about."""


class Cache(ABC):
    """Keeps answers under keys that hash all that decides them (docs/caching.md).

    A cache is a help and never a reason to fail: where `get` raises there is nothing, where `set` raises
    nothing is kept. They end within a time of their own. `in_flight` are the answers that are being had in
    this process: what to keep, or None for nothing.
    """

    def __init__(self) -> None:
        self.in_flight: dict[str, asyncio.Future[bytes | None]] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def get(self, key: str) -> bytes | None:
        """What was kept under the key, None where there is nothing."""

    @abstractmethod
    async def set(self, key: str, value: bytes, seconds: float) -> None:
        """Keep it so long, or shorter where there is no room."""

    async def close(self) -> None:
        """Wait for what is being kept; who has connections gives them back then. Idempotent."""
        if self._keeping:
            await asyncio.wait(self._keeping)

    async def look_up(self, key: str) -> bytes | None:
        """What `get` gives; None where it raises."""
        try:
            return await self.get(key)
        except Exception:
            log.warning("the cache failed, and everything is asked", exc_info=True)
            return None

    def keep(self, key: str, value: bytes, seconds: float) -> asyncio.Task[None]:
        """Begin to `set`; the task never raises, and nobody but `close` has to wait for it."""
        task = asyncio.create_task(self._keep(key, value, seconds))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)
        return task

    async def _keep(self, key: str, value: bytes, seconds: float) -> None:
        try:
            await self.set(key, value, seconds)
        except Exception:
            log.warning("the cache failed, and an answer is not kept", exc_info=True)


class MemoryCache(Cache):
    """In this process, bounded in bytes; what was used least recently goes first."""

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
