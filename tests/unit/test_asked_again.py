"""What may have been lost is asked once more, and what is only slow is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from tests.support import virtual_time
from trustgraph_prompt.llm.asked_again import answered_first

AGAIN = 240.0


class Service:
    """Answers the n-th request after `seconds[n]`, or raises what is to be said; None says nothing at all."""

    def __init__(self, *said: tuple[float, list[str] | Exception] | None) -> None:
        self.said = said
        self.asked: list[float] = []
        self.ended: set[int] = set()

    async def ask(self, after: float) -> AsyncGenerator[str, None]:
        n = len(self.asked)
        self.asked.append(after)
        assert virtual_time.now() == after
        try:
            seconds, answer = self.said[n] or (float("1e9"), [])
            await asyncio.sleep(seconds)
            if isinstance(answer, Exception):
                raise answer
            for response in answer:
                yield response
        finally:
            self.ended.add(n)


def heard(service: Service, seconds: float | None = AGAIN) -> tuple[list[str], float]:
    """What was heard, and when."""

    async def hear() -> tuple[list[str], float]:
        async with aclosing(answered_first(service.ask, seconds)) as responses:
            return [response async for response in responses], virtual_time.now()

    return virtual_time.run(hear())


def test_what_is_answered_is_asked_once() -> None:
    service = Service((239, ["a", "b"]))
    assert heard(service) == (["a", "b"], 239)
    assert service.asked == [0]


def test_what_was_lost_is_asked_once_more() -> None:
    service = Service(None, (10, ["a", "b"]))
    assert heard(service) == (["a", "b"], 250)
    assert service.asked == [0, AGAIN]
    assert service.ended == {0, 1}


def test_a_slow_answer_counts_when_it_comes_and_is_asked_for_twice_at_most() -> None:
    service = Service((500, ["slow"]), (500, ["slower"]))
    assert heard(service) == (["slow"], 500)
    assert service.asked == [0, AGAIN]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_one_leaves_the_other_its_time(failing: int) -> None:
    said: list[Any] = [(500, ["slow"]), (260, ["slow"])]
    said[failing] = (250 - AGAIN * failing, ValueError("no"))
    service = Service(*said)
    assert heard(service) == (["slow"], 500)
    assert service.asked == [0, AGAIN]


def test_an_error_before_the_time_is_told_at_once() -> None:
    service = Service((1, ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        heard(service)
    assert service.ended == {0}


def test_when_both_fail_the_last_error_is_told() -> None:
    with pytest.raises(ValueError, match="second"):
        heard(Service((300, ValueError("first")), (70, ValueError("second"))))


def test_an_answer_of_nothing_is_an_answer() -> None:
    assert heard(Service((1, []))) == ([], 1)


def test_without_a_time_it_is_never_asked_again() -> None:
    service = Service((10_000, ["a"]))
    assert heard(service, None) == (["a"], 10_000)
    assert service.asked == [0]


def test_who_leaves_ends_both() -> None:
    service = Service(None, None)

    async def leave() -> None:
        hearing = asyncio.create_task(_hear(service))
        await asyncio.sleep(300)
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)

    virtual_time.run(leave())
    assert service.ended == {0, 1}


async def _hear(service: Service) -> None:
    async with aclosing(answered_first(service.ask, AGAIN)) as responses:
        async for _ in responses:
            raise AssertionError("nobody answers")
