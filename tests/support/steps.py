"""How much Python runs: lines, calls and returns, which are the same on every machine.

What a C function does within one call, such as a regular expression, is not seen; benchmarks measure that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """How many lines, calls and returns of Python `work` takes, in this thread."""
    taken = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal taken
        taken += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return taken


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether four times the size takes about four times the steps, where quadratic work takes sixteen.

    An eighth more is allowed: the closer the bound, the smaller the sizes that show what is quadratic.
    """
    work(size // 2)  # fills caches of other things, and is seen by what measures coverage
    return steps(lambda: work(4 * size)) <= 4.5 * steps(lambda: work(size))
