"""What every cache promises, over all of them; and what a Redis that is away may cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from tests.support.asking import lines
from tests.support.caching import Model, keep
from tests.support.redis_server import RedisServer
from trustgraph_prompt.ask import Cache, MemoryCache, RedisCache
from trustgraph_prompt.errors import ConfigError

PATIENCE = 60.0  # the machine may be busy


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[Cache]:
    if request.param == "memory":
        yield MemoryCache()
        return
    shared = RedisCache(request.getfixturevalue("redis_server").url, timeout=PATIENCE)
    yield shared
    await shared.close()


async def test_what_was_set_is_there_byte_for_byte_and_the_last_of_it_counts(cache: Cache) -> None:
    await cache.set("a", b"one", 60)
    await cache.set("b", bytes(range(256)), 60)
    await cache.set("a", b"two", 60)

    assert await cache.get("a") == b"two"
    assert await cache.get("b") == bytes(range(256))
    assert await cache.get("c") is None


async def test_after_its_seconds_it_is_gone(cache: Cache) -> None:
    await cache.set("a", b"one", 0.05)
    await cache.set("b", b"two", 600)

    async with asyncio.timeout(PATIENCE):
        while await cache.get("a") is not None:
            await asyncio.sleep(0.01)
    assert await cache.get("b") == b"two"


async def test_many_ask_at_the_same_time(cache: Cache) -> None:
    await asyncio.gather(*(cache.set(str(n), str(n).encode(), 60) for n in range(500)))

    found = await asyncio.gather(*(cache.get(str(n)) for n in range(500)))

    assert found == [str(n).encode() for n in range(500)]


async def test_it_can_be_closed_twice(cache: Cache) -> None:
    await cache.set("a", b"one", 60)

    await cache.close()
    await cache.close()


async def test_an_answer_is_kept_and_given(cache: Cache) -> None:
    model = Model(lines([1, 2]))

    first, again = await keep(model, cache), await keep(model, cache)

    assert (first.cached, again.cached) == (False, True)
    assert again.value == first.value
    assert model.calls == 1


class TestRedis:
    """Away, slow, or no Redis at all: everything is asked, and nobody waits for long."""

    pytestmark = pytest.mark.redis

    async def test_two_processes_share_one(self, redis_server: RedisServer) -> None:
        one, other = (RedisCache(redis_server.url, timeout=PATIENCE) for _ in range(2))

        await one.set("a", b"shared", 60)

        assert await other.get("a") == b"shared"
        await one.close()
        await other.close()

    async def test_one_that_is_gone_is_a_miss_and_a_line_now_and_then_until_it_is_back(
        self, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        now = 0.0
        cache = RedisCache(redis_server.url, timeout=PATIENCE, clock=lambda: now)
        await cache.set("a", b"one", 600)
        redis_server.stop()

        with caplog.at_level(logging.WARNING):
            for seconds in (0.0, 1.0, 20.0, 40.0, 59.0):
                now = seconds
                assert await cache.get("a") is None
            assert len(caplog.records) == 1
            now = 66.0
            await cache.set("a", b"one", 600)
            assert len(caplog.records) == 2
            assert "the cache is away" in caplog.text

        redis_server.start()
        now = 100.0
        await cache.set("a", b"again", 600)
        assert await cache.get("a") == b"again"
        await cache.close()

    async def test_one_that_hangs_is_waited_for_once_and_shortly(self, redis_server: RedisServer) -> None:
        cache = RedisCache(redis_server.url, timeout=0.1)
        redis_server.freeze()
        began = asyncio.get_running_loop().time()

        assert set(await asyncio.gather(*(cache.get("a") for _ in range(2000)))) == {None}
        for _ in range(100):
            assert await cache.get("a") is None

        assert asyncio.get_running_loop().time() - began < 8  # a hundred waits would be ten seconds
        redis_server.stop()
        await cache.close()


async def test_a_redis_that_never_was_is_a_miss() -> None:
    cache = RedisCache("redis://127.0.0.1:1", timeout=PATIENCE)

    outcome = await keep(Model(lines([1])), cache)

    assert outcome.ok
    await cache.close()


@pytest.mark.parametrize("url", ["redis", "http://localhost", "redis://h:port", "redis://h?no_such_option=1"])
def test_what_is_no_url_of_a_redis_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="no URL of a Redis"):
        RedisCache(url)


def test_a_refused_url_shows_no_password() -> None:
    with pytest.raises(ConfigError) as refusal:
        RedisCache("redis://user:secret/0@host:6379")

    assert "secret" not in str(refusal.value)
