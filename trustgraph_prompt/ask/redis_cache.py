"""A cache in a Redis, which several workers share (the extra `redis`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs, urlsplit

from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.errors import ConfigError, excerpt

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")

log = logging.getLogger(__name__)

PREFIX = "trustgraph-prompt:answer:"

CONNECTIONS = 16

SECONDS_LEFT_ALONE = 5.0
"""A Redis that failed or was slow is not asked so long, so that not every request waits for it."""

SECONDS_OF_SILENCE = 60.0
"""Between two lines of the log about a Redis that fails."""

SCHEMES = ("redis", "rediss", "unix")

OPTIONS = ("db", "protocol", "client_name")
"""What may stand behind the `?` of a URL, beside what begins with `ssl_`."""


class RedisCache(Cache):
    """`url` is redis://, rediss:// or unix://; no `get` and no `set` takes longer than `timeout` seconds.

    Whatever goes wrong is a miss. A Redis that fails, or takes more than half of the time, is left alone for
    a while; then one request tries it, and the others do not wait for that. How much it holds is for Redis
    itself to bound (`maxmemory` with an LRU policy). Raises `ConfigError` for a URL that is none, and where
    the extra is not installed.
    """

    def __init__(self, url: str, *, timeout: float = 0.5, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._redis = _client(url)
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._timeout = timeout
        self._clock = clock
        self._has_failed = False
        self._left_alone_until = self._silent_until = clock()

    async def get(self, key: str) -> bytes | None:
        found = await self._try(lambda: self._redis.get(PREFIX + key))
        return found if isinstance(found, bytes) else None

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        milliseconds = max(1, round(seconds * 1000))
        await self._try(lambda: self._redis.set(PREFIX + key, value, px=milliseconds))

    async def close(self) -> None:
        await super().close()
        await self._redis.aclose()

    async def _try(self, command: Callable[[], Awaitable[T]]) -> T | None:
        """What Redis answers, None where it does not."""
        began = self._clock()
        if began < self._left_alone_until:
            return None
        if is_trial := self._has_failed:
            self._left_alone_until = began + SECONDS_LEFT_ALONE
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                answer = await command()
        except Exception as error:  # a server that is no Redis makes the library raise what it likes
            self._leave_alone(str(error) or f"no answer within {self._timeout:g} s")
            return None
        if (seconds := self._clock() - began) > self._timeout / 2:
            self._leave_alone(f"an answer took {seconds:.2f} s")
        elif is_trial:
            self._has_failed, self._left_alone_until = False, began
        return answer

    def _leave_alone(self, why: str) -> None:
        now = self._clock()
        self._has_failed, self._left_alone_until = True, now + SECONDS_LEFT_ALONE
        if now >= self._silent_until:
            self._silent_until = now + SECONDS_OF_SILENCE
            log.warning("the cache is away, and everything is asked: %s", why)


def _client(url: str) -> Redis:
    """Not yet connected. Raises `ConfigError`, without quoting what may be a password."""
    try:
        from redis import asyncio as redis
    except ImportError:
        raise ConfigError(
            "a cache in a Redis needs the extra `redis`: pip install 'trustgraph-prompt[redis]'"
        ) from None
    wrong = ""
    try:
        parts = urlsplit(url)
        unknown = [n for n in parse_qs(parts.query) if n not in OPTIONS and not n.startswith("ssl_")]
        if parts.scheme not in SCHEMES:
            wrong = f"it begins with none of {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
        elif unknown:
            wrong = f"it has the option {excerpt(unknown[0], 40)}"
        pool = redis.ConnectionPool.from_url(url, max_connections=CONNECTIONS)
        connection = pool.make_connection()  # type: ignore[no-untyped-call]
        if isinstance(connection, redis.SSLConnection):
            connection.ssl_context.get()  # reads its files
    except Exception:  # of a library that looks at each option in a way of its own
        wrong = wrong or "its host, its port or one of its options cannot be used"
    if wrong:
        raise ConfigError(
            f"the URL is not valid: {wrong}; expected one such as redis://HOST:PORT/0, with no options but "
            f"{', '.join(OPTIONS)} and those of TLS (ssl_…)"
        )
    return redis.Redis.from_pool(pool)
