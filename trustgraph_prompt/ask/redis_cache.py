"""A cache in Redis, which several workers can share (needs the extra `redis`)."""

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
"""How long a Redis that failed or was slow is not used, so that not every request waits for it."""

SECONDS_OF_SILENCE = 60.0
"""The least time between two log lines about a Redis that fails."""

SCHEMES = ("redis", "rediss", "unix")

OPTIONS = ("db", "protocol", "client_name")
"""The options of a URL, besides those that begin with `ssl_`."""


class RedisCache(Cache):
    """Stores answers in Redis.

    `url` is redis://, rediss:// or unix://; `get` and `set` take at most `timeout` seconds. Every failure is
    a miss. A Redis that fails, or takes more than half of the timeout, is not used for a while; then one
    request tries it, and the others do not wait for that. Limit its size in Redis (`maxmemory` with an LRU
    policy). Raises `ConfigError` for an invalid URL, and where the extra is not installed.
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
        """Return the result of a command, None where it fails."""
        began = self._clock()
        if began < self._left_alone_until:
            return None
        if is_trial := self._has_failed:
            self._left_alone_until = began + SECONDS_LEFT_ALONE
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                answer = await command()
        except Exception as error:  # a server that is not Redis makes the library raise anything
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
            log.warning("the cache is unavailable; questions go to the model: %s", why)


def _client(url: str) -> Redis:
    """Make a client, which connects later. Raises `ConfigError`, without quoting what may be a password."""
    try:
        from redis import asyncio as redis
    except ImportError:
        raise ConfigError(
            "a cache in Redis needs the extra `redis`: pip install 'trustgraph-prompt[redis]'"
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
            connection.ssl_context.get()  # reads the certificate files
    except Exception:  # of any kind: the library checks each option differently
        wrong = wrong or "its host, its port or one of its options cannot be used"
    if wrong:
        raise ConfigError(
            f"the URL is not valid: {wrong}; expected one such as redis://HOST:PORT/0, with no options but "
            f"{', '.join(OPTIONS)} and those of TLS (ssl_…)"
        )
    return redis.Redis.from_pool(pool)
