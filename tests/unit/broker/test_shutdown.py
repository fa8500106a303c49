from __future__ import annotations

import asyncio

import pytest

from trustgraph_prompt.broker.shutdown import Handles, Shutdown, run_all


class Door:
    """Closes when it is let, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.attempts = self.closed = 0
        self.let = asyncio.Event()
        self.let.set()
        self._failures = failures
        self._shutdown = Shutdown(self._end)

    async def close(self) -> None:
        await self._shutdown.run()

    async def _end(self) -> None:
        self.attempts += 1
        await self.let.wait()
        if self.attempts <= self._failures:
            raise OSError(f"attempt {self.attempts}")
        self.closed += 1


async def test_shutdown_runs_once_however_often_it_is_asked_for() -> None:
    door = Door()
    await asyncio.gather(door.close(), door.close())
    await door.close()
    assert (door.attempts, door.closed) == (1, 1)


async def test_cancelling_a_shutdown_does_not_interrupt_it() -> None:
    door = Door()
    door.let.clear()
    first = asyncio.create_task(door.close())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(door.close())
    await asyncio.sleep(0)
    assert not second.done()
    door.let.set()
    await second
    assert (door.attempts, door.closed) == (1, 1)


async def test_failed_shutdown_is_tried_again() -> None:
    door = Door(failures=1)
    with pytest.raises(OSError, match="attempt 1"):
        await door.close()
    await door.close()
    await door.close()
    assert (door.attempts, door.closed) == (2, 1)


async def test_run_all_closes_all_and_raises_the_first_error_at_the_end() -> None:
    doors = [Door(), Door(failures=1), Door(failures=1), Door()]
    with pytest.raises(OSError, match="attempt 1"):
        await run_all([door.close for door in doors])
    assert [door.closed for door in doors] == [1, 0, 0, 1]


async def test_handles_close_all_they_keep_though_one_fails() -> None:
    handles = Handles()
    doors = [handles.keep(Door()), handles.keep(Door(failures=1)), handles.keep(Door())]
    with pytest.raises(OSError, match="attempt 1"):
        await handles.close()
    assert [door.closed for door in doors] == [1, 0, 1]
    await handles.close()
    assert [door.closed for door in doors] == [1, 1, 1]
