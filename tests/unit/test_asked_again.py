"""What may have been lost is asked once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from trustgraph_prompt.llm.asked_again import answered_first


class Service:
    """Answers the n-th request once it is told to; `ended` are those nobody listens to any more."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[list[str]]] = []
        self.ended: set[int] = set()

    async def ask(self) -> AsyncGenerator[str, None]:
        n = len(self.answers)
        self.answers.append(asyncio.get_running_loop().create_future())
        try:
            for response in await self.answers[n]:
                yield response
        finally:
            self.ended.add(n)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(30):
            while len(self.answers) < times:
                await asyncio.sleep(0)


async def heard(service: Service, seconds: float | None) -> list[str]:
    async with aclosing(answered_first(service.ask, seconds)) as responses:
        return [response async for response in responses]


async def test_what_is_answered_is_asked_once() -> None:
    service = Service()
    hearing = asyncio.create_task(heard(service, 60))
    await service.until_asked(1)
    service.answers[0].set_result(["a", "b"])
    assert await hearing == ["a", "b"]
    assert len(service.answers) == 1


@pytest.mark.parametrize("first", [0, 1])
async def test_of_two_the_one_that_is_answered_first_counts(first: int) -> None:
    service = Service()
    hearing = asyncio.create_task(heard(service, 0))
    await service.until_asked(2)
    service.answers[first].set_result(["a", "b"])
    assert await hearing == ["a", "b"]
    assert service.ended == {0, 1}


async def test_without_a_time_it_is_never_asked_again() -> None:
    service = Service()
    hearing = asyncio.create_task(heard(service, None))
    await service.until_asked(1)
    service.answers[0].set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await hearing
    assert service.ended == {0}


async def test_who_leaves_ends_both() -> None:
    service = Service()
    hearing = asyncio.create_task(heard(service, 0))
    await service.until_asked(2)
    hearing.cancel()
    await asyncio.gather(hearing, return_exceptions=True)
    assert all(answer.cancelled() for answer in service.answers)
