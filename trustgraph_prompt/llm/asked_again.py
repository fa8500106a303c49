"""A request that may have been lost is asked once more, and whichever is answered first counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

T = TypeVar("T")


async def answered_first(
    ask: Callable[[], AsyncGenerator[T, None]], seconds: float | None
) -> AsyncGenerator[T, None]:
    """The responses to `ask()`; to a second one, where that is answered first.

    It is asked again when nothing came for `seconds`; the first may still be answered, for it may only be
    slow. Raises what the one that counts raises.
    """
    async with AsyncExitStack() as closing:
        firsts: dict[asyncio.Task[T], AsyncGenerator[T, None]] = {}
        done: set[asyncio.Task[T]] = set()
        for limit in (seconds, None):
            responses = ask()
            closing.push_async_callback(responses.aclose)
            first = asyncio.create_task(_first(responses))
            closing.push_async_callback(_end, first)
            firsts[first] = responses
            done, _ = await asyncio.wait(firsts, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if done:
                break
        counts = done.pop()
        yield counts.result()
        async for response in firsts[counts]:
            yield response


async def _first(responses: AsyncGenerator[T, None]) -> T:
    return await anext(responses)


async def _end(task: asyncio.Task[T]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
