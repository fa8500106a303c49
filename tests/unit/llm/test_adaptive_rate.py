"""How many calls a server gets that refuses some of them: by chance, or because they are too many."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise

import pytest

from tests.support.deltas import CALL
from tests.support.virtual_time import now, run
from trustgraph_prompt.errors import ProviderPaused, ProviderRateLimit
from trustgraph_prompt.llm import Call, Completer, Delta, Identity, Limiter, Limits

Refuses = Callable[[], bool]


class Server(Completer):
    """Refuses at once, or begins to answer after a part of `seconds`; knows what it did when."""

    identity = Identity("test", place="here")
    prefill = False

    def __init__(
        self, refuses: Refuses, seconds: float, *, retry_after: float | None = None, begins: float = 1.0
    ) -> None:
        self.refuses = refuses
        self.verdicts: list[tuple[float, bool]] = []  # when, and whether it was refused
        self._seconds = seconds
        self._retry_after = retry_after
        self._begins = begins
        self._random = random.Random(1)

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        refused = self.refuses()
        self.verdicts.append((now(), refused))
        if refused:
            await asyncio.sleep(0.003)
            raise ProviderRateLimit("slow down", retry_after=self._retry_after)
        seconds = self._seconds * self._random.uniform(0.8, 1.2)
        await asyncio.sleep(seconds * self._begins)
        yield Delta("Here")
        await asyncio.sleep(seconds * (1 - self._begins))
        yield Delta(" it is.", finish_reason="stop")

    async def close(self) -> None: ...

    def rate(self, start: float, end: float) -> float:
        """Calls a second that were answered in that time."""
        return sum(start <= when < end and not refused for when, refused in self.verdicts) / (end - start)

    def refused(self, start: float, end: float) -> float:
        """The share of calls that were refused in that time."""
        verdicts = [refused for when, refused in self.verdicts if start <= when < end]
        return sum(verdicts) / len(verdicts)


def at_random(share: float) -> Refuses:
    chance = random.Random(2)
    return lambda: chance.random() < share


def beyond(rate: float, burst: int) -> Refuses:
    """A token bucket."""
    tokens, filled = float(burst), 0.0

    def refuses() -> bool:
        nonlocal tokens, filled
        tokens, filled = min(burst, tokens + (now() - filled) * rate), now()
        if tokens < 1:
            return True
        tokens -= 1
        return False

    return refuses


async def keep_busy(server: Server, in_flight: int, seconds: float) -> Limits:
    """Keep more requests waiting than there are places; a refused one comes back a little later."""
    limits = Limits(in_flight, clock=now)
    limiter, chance, end = Limiter(server, limits), random.Random(3), now() + seconds

    async def requesting() -> None:
        while now() < end:
            try:
                async for _ in limiter.stream(CALL):
                    pass
            except ProviderRateLimit:
                await asyncio.sleep(chance.uniform(0, 2))

    tasks = [asyncio.create_task(requesting()) for _ in range(3 * in_flight + 100)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return limits


@pytest.mark.parametrize("retry_after", [None, 2.0, 60.0])
@pytest.mark.parametrize(("in_flight", "seconds", "begins"), [(32, 0.15, 1.0), (32, 1.0, 1.0), (8, 4.0, 0.1)])
@pytest.mark.parametrize("share", [0.1, 0.2])
def test_refusals_by_chance_leave_at_least_half_of_the_rate(
    in_flight: int, seconds: float, begins: float, share: float, retry_after: float | None
) -> None:
    async def main() -> None:
        server = Server(at_random(share), seconds, retry_after=retry_after, begins=begins)
        await keep_busy(server, in_flight, 100 * seconds)

        assert server.rate(0, 100 * seconds) > in_flight / seconds / 2

    run(main())


def test_long_retry_after_of_a_few_calls_pauses_no_others() -> None:
    async def main() -> None:
        server = Server(at_random(0.1), 0.15, retry_after=60.0)
        limits = await keep_busy(server, 32, 10)
        assert server.rate(0, 10) > 0.8 * 32 / 0.15
        assert limits.pause == 0

    run(main())


@pytest.mark.parametrize("retry_after", [None, 1.0])
@pytest.mark.parametrize(
    ("rate", "burst", "in_flight", "seconds", "begins"),
    [
        (50, 50, 32, 0.15, 1.0),
        (50, 5, 32, 0.15, 1.0),
        (50, 50, 500, 0.15, 1.0),
        (50, 50, 500, 5.0, 0.1),
        (10, 10, 32, 0.15, 1.0),
        (8, 500, 32, 0.15, 1.0),
        (5, 1, 32, 0.15, 1.0),
        (1, 60, 32, 1.0, 1.0),
        (2, 2, 64, 30.0, 0.1),
    ],
)
def test_server_at_its_limit_is_called_at_little_more_than_that_rate(
    rate: float, burst: int, in_flight: int, seconds: float, begins: float, retry_after: float | None
) -> None:
    async def main() -> None:
        server = Server(beyond(rate, burst), seconds, retry_after=retry_after, begins=begins)
        long = 30 * max(1.0, 10 / rate)
        await keep_busy(server, in_flight, 2 * long)

        assert server.rate(long, 2 * long) > 0.6 * rate
        assert server.refused(long, 2 * long) < 0.08
        assert sum(refused for when, refused in server.verdicts if when < 10) < 2.2 * in_flight + 10 * rate

    run(main())


def test_limit_is_found_among_refusals_by_chance() -> None:
    async def main() -> None:
        limit, chance = beyond(50, 50), at_random(0.1)
        server = Server(lambda: chance() or limit(), 0.15)
        await keep_busy(server, 32, 200)

        assert server.rate(100, 200) > 0.75 * 50
        assert server.refused(100, 200) < 0.2

    run(main())


def test_server_that_recovers_is_called_as_fast_as_before() -> None:
    async def main() -> None:
        server = Server(beyond(10, 10), 0.15)
        busy = asyncio.create_task(keep_busy(server, 32, 200))
        await asyncio.sleep(60)
        server.refuses = lambda: False
        await busy

        assert server.rate(150, 200) > 0.9 * 32 / 0.15

    run(main())


def test_hours_without_calls_do_not_slow_the_next_ones() -> None:
    async def main() -> None:
        server = Server(at_random(0.1), 0.15)
        limiter = Limiter(server, Limits(32, clock=now))

        async def some(calls: int) -> None:
            async def one() -> None:
                try:
                    async for _ in limiter.stream(CALL):
                        pass
                except ProviderRateLimit:
                    pass

            await asyncio.gather(*(one() for _ in range(calls)))

        for _ in range(5):
            await some(40)
            await asyncio.sleep(36_000)
        began = now()
        await some(2_000)
        assert now() - began < 2 * 2_000 * 0.15 / 32

    run(main())


def test_server_that_refuses_everything_is_called_once_in_each_pause() -> None:
    async def main() -> None:
        server = Server(lambda: True, 0.15)
        await keep_busy(server, 32, 1000)

        first = [when for when, _ in server.verdicts if when < 1]
        later = [when for when, _ in server.verdicts if when >= 1]
        assert len(first) <= 32
        assert [round(after - before) for before, after in pairwise(later)][:6] == [2, 4, 8, 16, 32, 60]

    run(main())


def test_server_is_not_called_before_its_retry_after() -> None:
    async def main() -> None:
        server = Server(lambda: 20 <= now() < 50, 0.15, retry_after=30.0)
        await keep_busy(server, 32, 100)

        refused = [when for when, refused in server.verdicts if refused]
        assert len(refused) < 2 * 32
        assert max(refused) < 21
        assert server.rate(60, 100) > 0.9 * 32 / 0.15

    run(main())


def test_endless_retry_after_delays_calls_by_five_minutes_at_most() -> None:
    async def main() -> None:
        refusals = iter([True])
        server = Server(lambda: next(refusals, False), 1.0, retry_after=1e9)
        limiter = Limiter(server, Limits(32, clock=now))

        async def patient() -> float:
            while True:
                try:
                    async for _ in limiter.stream(CALL):
                        pass
                    return now()
                except ProviderPaused as error:
                    await asyncio.sleep(error.retry_after or 0.0)

        with pytest.raises(ProviderRateLimit):
            async for _ in limiter.stream(CALL):
                pass
        served = await asyncio.gather(*(patient() for _ in range(5)))
        assert len(server.verdicts) == 6
        assert max(served) < 310

    run(main())
