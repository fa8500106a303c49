"""What takes long, beside the event loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 4_000_000
"""Steps taken on the event loop, 20 ms where they are hostile; `reader.reading` counts those of an answer."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="beside the loop")
"""One thread: several would together leave the event loop little."""


async def beside(work: Callable[[], T], steps: int | None = None) -> T:
    """What comes of `work`, which is done at once if it takes few `steps`: None where nobody knows how many.

    Raises what it raises. Who is cancelled leaves the work to its end, which nobody hears of.
    """
    if steps is not None and steps <= AT_ONCE:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
