"""Where a cache of responses keeps its entries: in this process, or where several share them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar

from cachetools import TLRUCache

from trustgraph_prompt.ask import Cache

T = TypeVar("T")

PREFIX = "response:"


class Store(Protocol):
    """Keeps bytes under keys, each for its seconds; safe under threads."""

    def get(self, key: str) -> bytes | None:
        """What is kept under the key, None where there is nothing."""

    def set(self, key: str, value: bytes, seconds: float) -> None:
        """Keep it so long, or shorter where there is no room."""

    def clear(self) -> None:
        """Forget everything that is kept for this process alone."""

    def __len__(self) -> int:
        """How many entries are kept for this process alone."""

    def close(self) -> None:
        """Give back what it takes to keep them. Idempotent."""


class InMemory:
    """At most so many; what was used least recently goes first."""

    def __init__(self, max_size: int, clock: Callable[[], float]) -> None:
        self._lock = Lock()
        self._kept: TLRUCache[str, tuple[bytes, float]] = TLRUCache(
            max_size, ttu=lambda _, kept, now: now + kept[1], timer=clock
        )

    def get(self, key: str) -> bytes | None:
        with self._lock:
            kept = self._kept.get(key)
        return None if kept is None else kept[0]

    def set(self, key: str, value: bytes, seconds: float) -> None:
        with self._lock:
            self._kept.pop(key, None)
            if self._kept.maxsize >= 1:
                self._kept[key] = value, seconds

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def close(self) -> None: ...


class Shared:
    """A cache of `ask`, for those who do not await: it runs in a thread of its own."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="shared response cache", daemon=True)
        self._thread.start()
        self._lock = Lock()
        self._is_closed = False

    def get(self, key: str) -> bytes | None:
        return self._run(lambda: self._cache.look_up(PREFIX + key))

    def set(self, key: str, value: bytes, seconds: float) -> None:
        async def keep() -> None:
            await self._cache.keep(PREFIX + key, value, seconds)

        self._run(keep)

    def clear(self) -> None:
        """What others share is not this process's to forget."""

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        if self._run(self._end, last=True):
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]], *, last: bool = False) -> T | None:
        """What comes of some work in the thread, None once it was the last."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_closed = last
            running = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return running.result()

    async def _end(self) -> bool:
        """Wait for those who still wait for an answer, and close the cache."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        await self._cache.close()
        return True
