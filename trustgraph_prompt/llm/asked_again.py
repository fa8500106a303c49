"""A request that may have been lost is asked once more, and whichever is answered first counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

T = TypeVar("T")


async def answered_first(
    ask: Callable[[float], AsyncGenerator[T, None]], seconds: float | None
) -> AsyncGenerator[T, None]:
    """The responses to one asking; to another, where that is answered first.

    `ask` is told how many seconds after the first one that is. It is asked again, once, when nothing came
    for `seconds`; the first is still heard, for it may only be slow. What one of two raises is no answer
    while the other may still give one. Raises what the last of them raises.
    """
    async with AsyncExitStack() as closing:
        waiting: dict[asyncio.Task[list[T]], AsyncGenerator[T, None]] = {}

        def begin(after: float) -> None:
            responses = ask(after)
            closing.push_async_callback(responses.aclose)
            first = asyncio.create_task(_first(responses))
            closing.push_async_callback(_end, first)
            waiting[first] = responses

        begin(0.0)
        done, _ = await asyncio.wait(waiting, timeout=seconds)
        if not done and seconds is not None:
            begin(seconds)
        while True:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answered = next((first for first in done if first.exception() is None), None)
            if answered is not None:
                break
            last = [first for first in done if waiting.pop(first)][-1]
            if not waiting:
                last.result()
        for response in answered.result():
            yield response
        async for response in waiting[answered]:
            yield response


async def _first(responses: AsyncGenerator[T, None]) -> list[T]:
    """The first of the responses; none where there are none."""
    async for response in responses:
        return [response]
    return []


async def _end(task: asyncio.Task[list[T]]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
