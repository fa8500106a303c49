"""Whether time grows with size and no faster. CPU time is compared, which other processes hardly change."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLACK = 0.02  # seconds: garbage collection, caches


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether four times the size takes clearly less than sixteen times the time, in one of three tries."""
    return any(
        cpu_seconds(lambda: work(4 * size)) < 9 * cpu_seconds(lambda: work(size)) + _SLACK for _ in range(3)
    )


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
