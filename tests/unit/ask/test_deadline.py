"""An alarm interrupts what is waited for, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.virtual_time import now, run
from trustgraph_prompt.ask.deadline import Deadline, DeadlinePassed


async def coming(seconds: float, value: str = "here") -> str:
    await asyncio.sleep(seconds)
    return value


def test_wait_ends_when_the_deadline_passes() -> None:
    async def main() -> None:
        with Deadline(10) as alarm:
            assert await alarm.wait(coming(4)) == "here"
            assert await alarm.wait(coming(4)) == "here"
            with pytest.raises(DeadlinePassed):
                await alarm.wait(coming(4))
        assert now() == 10
        assert await coming(1) == "here"  # nothing is left of it

    run(main())


def test_deadline_interrupts_nothing_between_two_waits() -> None:
    async def main() -> None:
        with Deadline(10) as alarm:
            await alarm.wait(coming(4))
            await asyncio.sleep(20)
            assert alarm.has_passed

    run(main())


def test_deadline_that_was_left_does_not_ring() -> None:
    async def main() -> None:
        with Deadline(10) as alarm:
            await alarm.wait(coming(4))
        await asyncio.sleep(20)
        assert not alarm.has_passed

    run(main())


def test_cancellation_goes_before_the_deadline() -> None:
    async def main() -> None:
        async def waiting() -> None:
            with Deadline(10) as alarm:
                await alarm.wait(coming(60))

        task = asyncio.create_task(waiting())
        asyncio.get_running_loop().call_at(10, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(main())


def test_result_is_returned_though_the_awaited_ignores_its_interruption() -> None:
    async def main() -> None:
        async def stubborn() -> str:
            try:
                return await coming(60)
            except asyncio.CancelledError:
                return "nevertheless"

        with Deadline(10) as alarm:
            assert await alarm.wait(stubborn()) == "nevertheless"
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        async with asyncio.timeout(1) as limit:
            await asyncio.sleep(0.5)
        assert not limit.expired()

    run(main())
