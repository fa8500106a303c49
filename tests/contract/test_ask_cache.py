"""What every cache promises, over all of them; and what a Redis that is away may cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from tests.support.asking import lines
from tests.support.caching import Model, keep
from tests.support.fake_redis import NOTHING, fake_redis
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


async def test_get_returns_the_bytes_that_were_set_last(cache: Cache) -> None:
    await cache.set("a", b"one", 60)
    await cache.set("b", bytes(range(256)), 60)
    await cache.set("a", b"two", 60)

    assert await cache.get("a") == b"two"
    assert await cache.get("b") == bytes(range(256))
    assert await cache.get("c") is None


async def test_entry_is_gone_after_its_seconds(cache: Cache) -> None:
    await cache.set("a", b"one", 0.05)
    await cache.set("b", b"two", 600)

    async with asyncio.timeout(PATIENCE):
        while await cache.get("a") is not None:
            await asyncio.sleep(0.01)
    assert await cache.get("b") == b"two"


async def test_five_hundred_entries_are_set_and_got_at_the_same_time(cache: Cache) -> None:
    await asyncio.gather(*(cache.set(str(n), str(n).encode(), 60) for n in range(500)))

    found = await asyncio.gather(*(cache.get(str(n)) for n in range(500)))

    assert found == [str(n).encode() for n in range(500)]


async def test_cache_can_be_closed_twice(cache: Cache) -> None:
    await cache.set("a", b"one", 60)

    await cache.close()
    await cache.close()


async def test_second_ask_is_answered_from_the_cache(cache: Cache) -> None:
    model = Model(lines([1, 2]))

    first, again = await keep(model, cache), await keep(model, cache)

    assert (first.cached, again.cached) == (False, True)
    assert again.value == first.value
    assert model.calls == 1


class TestRedis:
    """Away, slow, or no Redis at all: everything is asked, and nobody waits for long."""

    pytestmark = pytest.mark.redis

    async def test_two_redis_caches_on_one_server_share_their_entries(
        self, redis_server: RedisServer
    ) -> None:
        one, other = (RedisCache(redis_server.url, timeout=PATIENCE) for _ in range(2))

        await one.set("a", b"shared", 60)

        assert await other.get("a") == b"shared"
        await one.close()
        await other.close()

    async def test_redis_that_is_gone_is_a_miss_with_a_warning_each_minute(
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
            assert "the cache is unavailable" in caplog.text

        redis_server.start()
        now = 100.0
        await cache.set("a", b"again", 600)
        assert await cache.get("a") == b"again"
        await cache.close()

    async def test_hanging_redis_is_waited_for_once(self, redis_server: RedisServer) -> None:
        cache = RedisCache(redis_server.url, timeout=1, clock=lambda: 0.0)
        redis_server.freeze()

        async with asyncio.timeout(PATIENCE):  # a hundred waits would be longer
            assert set(await asyncio.gather(*(cache.get("a") for _ in range(2000)))) == {None}
            for _ in range(100):
                assert await cache.get("a") is None

        redis_server.stop()
        await cache.close()


class TestARedisThatIsNoHelp:
    """Slow, broken, or something else altogether."""

    async def test_slow_redis_is_left_alone_and_then_tried_by_one_request(self) -> None:
        now, go = 0.0, asyncio.Event()

        async def slowly() -> bytes:
            nonlocal now
            await go.wait()
            now += 31
            return b"$3\r\none\r\n"

        async with fake_redis(slowly) as redis:
            cache = RedisCache(redis.url, timeout=60, clock=lambda: now)
            go.set()
            assert await cache.get("a") == b"one"  # it came
            assert await cache.get("a") is None
            assert redis.commands == 1

            for tries in (2, 3):
                now += 6
                go.clear()
                trial = asyncio.create_task(cache.get("a"))
                await asyncio.sleep(0)
                assert await asyncio.gather(*(cache.get("a") for _ in range(50))) == [None] * 50
                go.set()
                assert await trial == b"one"
                assert redis.commands == tries
            await cache.close()

    async def test_redis_that_is_fast_again_is_asked_by_every_request(self) -> None:
        now, slow = 0.0, 31.0

        async def answer() -> bytes:
            nonlocal now
            now += slow
            return b"$3\r\none\r\n"

        async with fake_redis(answer) as redis:
            cache = RedisCache(redis.url, timeout=60, clock=lambda: now)
            await cache.get("a")
            slow, now = 0.1, now + 6

            assert [await cache.get("a") for _ in range(10)] == [b"one"] * 10
            await cache.close()

    async def test_requests_that_would_queue_longer_than_the_timeout_are_misses(self) -> None:
        async def slowly() -> bytes:
            await asyncio.sleep(0.8)
            return NOTHING

        async with fake_redis(slowly) as redis:
            cache = RedisCache(redis.url, timeout=1)

            assert set(await asyncio.gather(*(cache.get("a") for _ in range(200)))) == {None}

            assert redis.commands < 100  # of 16 connections each is good for one or two
            await cache.close()

    @pytest.mark.parametrize(
        "reply",
        [
            b"*1\r\n" * 200_000,
            b"$abc\r\n",
            b":zz\r\n",
            b"HTTP/1.1 400\r\n",
            b"$-7\r\nxx\r\n",
            b"$999999999999\r\n",
            b"-\xff\xfe\r\n",
            b">-3\r\n",
            b"%1\r\n*0\r\n+a\r\n",
            b"-MOVED 1\r\n",
            b"-ASK x\r\n",
            b"-OOM command not allowed when used memory > 'maxmemory'\r\n",
            b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        ],
        ids=lambda reply: repr(reply[:12]),
    )
    async def test_malformed_reply_of_redis_is_a_miss(self, reply: bytes) -> None:
        async with fake_redis(reply) as redis:
            cache, other = (RedisCache(redis.url, timeout=0.5) for _ in range(2))

            outcome = await keep(Model(lines([1])), cache)
            await other.set("a", b"one", 60)

            assert (outcome.ok, outcome.cached) == (True, False)
            await cache.close()
            await other.close()


async def test_unreachable_redis_is_a_miss() -> None:
    cache = RedisCache("redis://127.0.0.1:1", timeout=PATIENCE)

    outcome = await keep(Model(lines([1])), cache)

    assert outcome.ok
    await cache.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis",
        "http://localhost",
        "redis://h:port",
        "redis://h?no_such_option=1",
        "redis://h?decode_responses=true",
        "redis://h?encoding=utf-17",
        "redis://h?max_connections=0",
        "redis://h?socket_timeout=1",
        "redis://h?db=first",
        "redis://h?protocol=9",
        "redis://h?ssl_cert_reqs=none",
        "rediss://h?ssl_cert_reqs=perhaps",
        "rediss://h?ssl_ca_certs=/no/such/file.pem",
    ],
)
def test_invalid_redis_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="the URL is not valid: it"):
        RedisCache(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://user:secret@h:6379/3?protocol=3&client_name=worker",
        "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=false",
        "unix:///run/redis.sock?db=2",
    ],
)
async def test_valid_redis_url_is_accepted(url: str) -> None:
    await RedisCache(url).close()


def test_a_refused_url_shows_no_password() -> None:
    with pytest.raises(ConfigError) as refusal:
        RedisCache("redis://user:secret/0@host:6379")

    assert "secret" not in str(refusal.value)
