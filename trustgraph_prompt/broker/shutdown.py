"""Ending things for certain: whoever is cancelled, whatever fails, and however often it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

#: How long to wait for what nobody wants any more to end; it is milliseconds where all is well.
GRACE_SECONDS: Final = 2.0
#: How long a broker may take to answer a farewell.
FAREWELL_SECONDS: Final = 1.0


class Closeable(Protocol):
    """What a broker opens: a consumer, a producer, a reader, a table, a caller."""

    async def close(self) -> None: ...


H = TypeVar("H", bound=Closeable)


class Shutdown:
    """An end that is reached once: everybody who awaits `reach()` waits for the same task.

    Who is cancelled while waiting does not interrupt it. An end that failed raises its error to who waited,
    and is tried again when it is asked for again, so `end` must be repeatable.
    """

    def __init__(self, end: Callable[[], Awaitable[None]]) -> None:
        self._end = end
        self._task: asyncio.Task[None] | None = None

    async def reach(self) -> None:
        if self._task is None or ended_badly(self._task):
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(ended_badly)
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        await self._end()


class Handles:
    """What was opened and is still in use; forgotten by itself when nobody refers to it any more."""

    def __init__(self) -> None:
        self._open: WeakSet[Closeable] = WeakSet()
        self._unwanted: set[asyncio.Task[None]] = set()

    async def open(self, opening: Coroutine[Any, Any, H]) -> H:
        """Await what opens something; who is cancelled meanwhile leaves nothing that would hold messages."""
        task = asyncio.create_task(opening)
        try:
            return self.keep(await asyncio.shield(task))
        except asyncio.CancelledError:
            unwanted = asyncio.create_task(_close_when_open(task))
            self._unwanted.add(unwanted)
            unwanted.add_done_callback(self._unwanted.discard)
            raise

    def keep(self, handle: H) -> H:
        self._open.add(handle)
        return handle

    async def close(self) -> None:
        """Close them all at once, also when some fail; raises an error of theirs at the end."""
        ends = await asyncio.gather(*(handle.close() for handle in self._open), return_exceptions=True)
        if self._unwanted:
            await asyncio.wait(self._unwanted, timeout=GRACE_SECONDS)
        for error in ends:
            if error is not None:
                raise error


async def farewell(end: Coroutine[Any, Any, None]) -> None:
    """Await what the broker must answer; not long, for it may be away, and hears of it in time all the same.

    What is late goes on by itself, until the connection ends.
    """
    task = asyncio.create_task(end)
    task.add_done_callback(ended_badly)
    ended, _ = await asyncio.wait({task}, timeout=FAREWELL_SECONDS)
    if ended:
        task.result()


async def each(ends: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Await one after the other, whatever the others did; raises the first error at the end."""
    first: Exception | None = None
    for end in ends:
        try:
            await end()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


async def _close_when_open(opening: asyncio.Task[H]) -> None:
    with suppress(Exception):  # nobody is left to be told
        handle = await opening
        await handle.close()


def ended_badly(task: asyncio.Future[Any]) -> bool:
    """Whether the task ended badly. Having looked, asyncio no longer complains that nobody did."""
    return task.done() and (task.cancelled() or task.exception() is not None)
