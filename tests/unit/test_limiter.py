"""How many calls are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from trustgraph_prompt.llm import Call, Delta, Identity, Limiter, Limits, Message

CALL = Call([Message("user", "Say it.")])


class Slow:
    """Answers when told to; knows how many it is answering."""

    identity = Identity("test")
    prefill = False

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.now = self.most = 0

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            yield Delta("Hello")
            await self.go_on.wait()
            yield Delta(".")
        finally:
            self.now -= 1

    async def close(self) -> None:
        self.go_on.set()


async def text(provider: Limiter) -> str:
    return "".join([delta.text async for delta in provider.stream(CALL)])


async def test_no_more_calls_are_in_flight_than_the_limit_says() -> None:
    limits, slow = Limits(3), Slow()
    providers = [Limiter(slow, limits), Limiter(slow, limits)]
    calls = [asyncio.create_task(text(providers[n % 2])) for n in range(10)]
    while slow.now < 3:
        await asyncio.sleep(0)
    slow.go_on.set()

    assert await asyncio.gather(*calls) == ["Hello."] * 10
    assert slow.most == 3


async def test_a_call_that_is_left_gives_its_place_back() -> None:
    provider = Limiter(Slow(), Limits(1))
    for _ in range(3):
        async with aclosing(provider.stream(CALL)) as deltas:
            assert (await anext(deltas)).text == "Hello"


async def test_a_call_that_is_left_is_left_by_the_provider_within() -> None:
    slow = Slow()
    async with aclosing(Limiter(slow, Limits(1)).stream(CALL)) as deltas:
        await anext(deltas)
        assert slow.now == 1

    assert slow.now == 0


async def test_closing_closes_the_provider_within() -> None:
    slow = Slow()

    await Limiter(slow, Limits(1)).close()

    assert slow.go_on.is_set()
