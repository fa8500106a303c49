"""What is in flight, by count and by bytes: who waits, and in which order."""

from __future__ import annotations

import asyncio

from trustgraph_prompt.broker.pulsar.producer import SendLimit


class Guests:
    """Things that take room and stay until they are told to leave."""

    def __init__(self, in_flight: SendLimit) -> None:
        self._in_flight = in_flight
        self.inside: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def come(self, name: str, size: int) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._stay(name, size))
        await self._settle()

    async def leave(self, name: str) -> None:
        self._ends[name].set()
        await self._settle()

    async def give_up(self, name: str) -> None:
        self._tasks[name].cancel()
        await self._settle()

    async def _stay(self, name: str, size: int) -> None:
        await self._in_flight.acquire(size)
        self.inside.append(name)
        await self._ends[name].wait()
        self.inside.remove(name)
        self._in_flight.release(size)

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_send_limit_admits_as_many_messages_as_its_count() -> None:
    guests = Guests(SendLimit(2, 100))
    for name in "abc":
        await guests.come(name, 1)
    assert guests.inside == ["a", "b"]
    await guests.leave("a")
    assert guests.inside == ["b", "c"]


async def test_send_limit_admits_as_many_bytes_as_its_size_in_order() -> None:
    guests = Guests(SendLimit(10, 100))
    await guests.come("a", 60)
    await guests.come("large", 60)
    await guests.come("small", 1)
    assert guests.inside == ["a"]
    await guests.leave("a")
    assert guests.inside == ["large", "small"]


async def test_message_larger_than_the_send_limit_is_sent_alone() -> None:
    guests = Guests(SendLimit(10, 100))
    await guests.come("a", 1)
    await guests.come("huge", 1000)
    assert guests.inside == ["a"]
    await guests.leave("a")
    assert guests.inside == ["huge"]
    await guests.come("b", 1)
    await guests.leave("huge")
    assert guests.inside == ["b"]


async def test_cancelled_waiter_of_the_send_limit_is_passed_over() -> None:
    guests = Guests(SendLimit(10, 100))
    await guests.come("a", 60)
    await guests.come("large", 60)
    await guests.come("small", 1)
    await guests.give_up("large")
    assert guests.inside == ["a", "small"]
    await guests.leave("a")
    await guests.come("all", 99)
    assert guests.inside == ["small", "all"]


async def test_waiter_cancelled_while_another_leaves_takes_no_room_along() -> None:
    in_flight = SendLimit(1, 100)
    await in_flight.acquire(1)
    waiting = [asyncio.create_task(in_flight.acquire(1)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    in_flight.release(1)
    waiting[1].cancel()
    await asyncio.wait_for(waiting[2], 30)
    assert all(task.cancelled() for task in waiting[:2])
    in_flight.release(1)
    await asyncio.wait_for(in_flight.acquire(1), 30)
