"""A cache in a Redis, which several workers share (the extra `redis`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.errors import ConfigError

T = TypeVar("T")

log = logging.getLogger(__name__)

PREFIX = "trustgraph-prompt:answer:"

CONNECTIONS = 16

SECONDS_LEFT_ALONE = 5.0
"""A Redis that failed is not asked so long, so that not every request waits for it."""

SECONDS_OF_SILENCE = 60.0
"""Between two lines of the log about a Redis that fails."""


class RedisCache(Cache):
    """`url` is redis://, rediss:// or unix://; `timeout` is how many seconds Redis may take to answer.

    How much it holds is for Redis itself to bound (`maxmemory` with an LRU policy). Raises `ConfigError` for
    a URL that is none, and where the extra is not installed.
    """

    def __init__(self, url: str, *, timeout: float = 0.5, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        try:
            from redis import asyncio as redis
            from redis.exceptions import RedisError
        except ImportError:
            raise ConfigError(
                "a cache in a Redis needs the extra `redis`: pip install 'trustgraph-prompt[redis]'"
            ) from None
        try:
            pool = redis.ConnectionPool.from_url(url, max_connections=CONNECTIONS)
            # what the URL says is looked at no earlier
            pool.make_connection()  # type: ignore[no-untyped-call]
        except (TypeError, ValueError):  # whose words may quote a password
            raise ConfigError("no URL of a Redis, such as redis://HOST:PORT/0") from None
        self._redis = redis.Redis.from_pool(pool)
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._failures = (RedisError, OSError, TimeoutError)
        self._timeout = timeout
        self._clock = clock
        self._left_alone_until = self._silent_until = clock()

    async def get(self, key: str) -> bytes | None:
        found = await self._try(lambda: self._redis.get(PREFIX + key))
        return found if isinstance(found, bytes) else None

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        milliseconds = max(1, round(seconds * 1000))
        await self._try(lambda: self._redis.set(PREFIX + key, value, px=milliseconds))

    async def close(self) -> None:
        await self._redis.aclose()

    async def _try(self, command: Callable[[], Awaitable[T]]) -> T | None:
        """What Redis answers, None where it does not."""
        async with self._turns:  # waiting for a turn is no fault of Redis, and does not count as its time
            if self._clock() < self._left_alone_until:
                return None
            try:
                async with asyncio.timeout(self._timeout):
                    return await command()
            except self._failures as error:
                self._leave_alone(str(error) or f"no answer within {self._timeout:g} s")
                return None

    def _leave_alone(self, why: str) -> None:
        now = self._clock()
        self._left_alone_until = now + SECONDS_LEFT_ALONE
        if now >= self._silent_until:
            self._silent_until = now + SECONDS_OF_SILENCE
            log.warning("the cache is away, and everything is asked: %s", why)
