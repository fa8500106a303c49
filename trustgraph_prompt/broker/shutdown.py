"""Closes connections, consumers and producers reliably: once, despite cancellation, and despite failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

#: Seconds to wait for tasks that nobody needs any more; they normally end within milliseconds.
GRACE_SECONDS: Final = 2.0
#: Seconds to wait for the broker when something is closed.
CLOSE_SECONDS: Final = 1.0


class Closeable(Protocol):
    """Anything that a broker opens: a consumer, a producer, a reader, a table, a caller."""

    async def close(self) -> None: ...


H = TypeVar("H", bound=Closeable)


class Shutdown:
    """Runs `close` once: every `run()` waits for the same task, and cancelling one does not interrupt it.

    If `close` fails, `run()` raises the error, and the next `run()` calls it again, so it must be repeatable.
    """

    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._close = close
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        if self._task is None or has_failed(self._task):
            self._task = asyncio.create_task(self._close())
            self._task.add_done_callback(has_failed)
        await asyncio.shield(self._task)


class Handles:
    """Whatever is open. Holds weak references, so unused handles are forgotten."""

    def __init__(self) -> None:
        self._open: WeakSet[Closeable] = WeakSet()
        self._abandoned: set[asyncio.Task[None]] = set()

    async def open(self, opening: Coroutine[Any, Any, H]) -> H:
        """Await `opening` and keep its result. If cancelled, closes it once open: it would hold messages."""
        task = asyncio.create_task(opening)
        try:
            return self.keep(await asyncio.shield(task))
        except asyncio.CancelledError:
            abandoned = asyncio.create_task(_close_when_open(task))
            self._abandoned.add(abandoned)
            abandoned.add_done_callback(self._abandoned.discard)
            raise

    def keep(self, handle: H) -> H:
        self._open.add(handle)
        return handle

    async def close(self) -> None:
        """Close all handles at once, even if some fail, then raise one of their errors."""
        results = await asyncio.gather(*(handle.close() for handle in self._open), return_exceptions=True)
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=GRACE_SECONDS)
        for error in results:
            if error is not None:
                raise error


async def wait_for_close(closing: Coroutine[Any, Any, None]) -> None:
    """Wait at most `CLOSE_SECONDS`, as a broker that is away must not keep the process from ending.

    After that `closing` continues in the background until the connection ends.
    """
    task = asyncio.create_task(closing)
    task.add_done_callback(has_failed)
    done, _ = await asyncio.wait({task}, timeout=CLOSE_SECONDS)
    if done:
        task.result()


async def run_all(steps: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run the steps in order, even if some fail, then raise the first error."""
    first: Exception | None = None
    for step in steps:
        try:
            await step()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


async def _close_when_open(opening: asyncio.Task[H]) -> None:
    with suppress(Exception):
        handle = await opening
        await handle.close()


def has_failed(task: asyncio.Future[Any]) -> bool:
    """Return whether the task failed or was cancelled; asyncio then no longer logs its error as unseen."""
    return task.done() and (task.cancelled() or task.exception() is not None)
