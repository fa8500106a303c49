"""Waiting for a broker: what is said meanwhile, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable
from trustgraph_prompt.worker.retry_broker import (
    cancel_when_stopped,
    retry_outages,
    retry_until_stopped,
)

BRIEF = 0.001


def failing(*failures: Exception) -> Callable[[], Awaitable[str]]:
    """An action that fails so, one after the other, and then succeeds."""
    left = list(failures)

    async def action() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return action


async def no_time(seconds: float) -> None: ...


class TestUntilStopped:
    async def test_retry_says_why_it_waits_until_it_succeeds(self) -> None:
        said: dict[str, str] = {}
        heard: list[str] = []

        async def action() -> str:
            heard.append(said["flow f"])
            return await attempt()

        attempt = failing(BrokerUnavailable("away"), BrokerError("not allowed"))

        assert await retry_until_stopped("flow f", action, said, asyncio.Event(), BRIEF) == "done"
        assert [why.split(" (since")[0] for why in heard] == ["starting", "away", "not allowed"]
        assert said == {}

    async def test_retry_ends_at_once_when_it_is_stopped_while_it_waits(self) -> None:
        said: dict[str, str] = {}
        stopping = asyncio.Event()
        attempt = retry_until_stopped("x", failing(BrokerError("no")), said, stopping, 3600)
        waiting = asyncio.create_task(attempt)
        while said.get("x", "starting") == "starting":
            await asyncio.sleep(0)

        stopping.set()

        assert await waiting is None
        assert said == {}

    async def test_retry_does_not_begin_once_it_is_stopped(self) -> None:
        stopping = asyncio.Event()
        stopping.set()
        assert await retry_until_stopped("x", failing(ZeroDivisionError()), {}, stopping) is None

    async def test_defect_is_raised_and_the_reason_to_wait_stays(self) -> None:
        said: dict[str, str] = {}
        with pytest.raises(ZeroDivisionError):
            await retry_until_stopped("flow f", failing(ZeroDivisionError()), said, asyncio.Event())
        assert said == {"flow f": "starting"}


class TestCancelledWhenStopped:
    async def test_result_of_an_action_that_ends_before_the_stop_is_returned(self) -> None:
        stopping = asyncio.Event()

        async def action() -> str:
            await asyncio.sleep(0)
            return "done"

        assert await cancel_when_stopped(action(), stopping) == "done"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_action_that_does_not_end_is_cancelled_when_stopped(self) -> None:
        stopping, ended = asyncio.Event(), asyncio.Event()

        async def action() -> bool:
            try:
                return await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.set()

        waiting = asyncio.create_task(cancel_when_stopped(action(), stopping))
        await asyncio.sleep(0)
        assert not waiting.done()
        stopping.set()

        assert await waiting is None
        assert ended.is_set()


class TestThroughOutages:
    async def test_waits_through_an_outage_grow_up_to_half_a_minute(self) -> None:
        slept: list[list[float]] = []

        async def sleep(seconds: float) -> None:
            slept[-1].append(seconds)

        for _ in range(100):
            slept.append([])
            assert await retry_outages(failing(*[BrokerUnavailable("away")] * 9), sleep=sleep) == "done"

        limits = [min(30.0, 2.0**attempt) for attempt in range(9)]
        for pauses, limit in zip(zip(*slept, strict=True), limits, strict=True):
            assert limit / 2 < max(pauses) <= limit

    @pytest.mark.parametrize("error", [BrokerError("not allowed"), BrokerClosed("gone"), ValueError("odd")])
    async def test_error_that_is_no_outage_is_raised(self, error: Exception) -> None:
        with pytest.raises(type(error)):
            await retry_outages(failing(BrokerUnavailable("away"), error), sleep=no_time)
