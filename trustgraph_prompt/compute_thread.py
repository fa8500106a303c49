"""Runs long computations in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

AT_ONCE = 4_000_000
"""Steps that may be taken on the event loop: at most about 20 ms. `reader.reading` estimates the steps."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="beside the loop")
"""One thread only: several would compete with the event loop for the interpreter lock."""


async def beside(work: Callable[[*Arguments], T], *arguments: *Arguments, steps: int | None = None) -> T:
    """Call `work` and return its result: in the thread, or at once if it takes at most `AT_ONCE` steps.

    `steps` is None if unknown. Raises what `work` raises. If the caller is cancelled, `work` runs to its end
    and its result is dropped.
    """
    if steps is not None and steps <= AT_ONCE:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *arguments)
