"""Where a cache of responses keeps its entries: in this process, or where several share them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock, Thread
from typing import Protocol

from cachetools import TLRUCache

from trustgraph_prompt.ask import Cache

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
            self._kept.expire()
            return len(self._kept)

    def close(self) -> None: ...


class Shared:
    """A cache of `ask`, for those who do not await: it runs in a thread of its own."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="shared response cache", daemon=True)
        self._thread.start()
        self._closing = Lock()

    def get(self, key: str) -> bytes | None:
        looking = self._cache.look_up(PREFIX + key)
        if not self._thread.is_alive():
            looking.close()
            return None
        return asyncio.run_coroutine_threadsafe(looking, self._loop).result()

    def set(self, key: str, value: bytes, seconds: float) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cache.keep, PREFIX + key, value, seconds)

    def clear(self) -> None:
        """What others share is not this process's to forget."""

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        with self._closing:
            if self._thread.is_alive():
                asyncio.run_coroutine_threadsafe(self._cache.close(), self._loop).result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
