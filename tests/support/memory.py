"""What is allocated while something runs."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def bytes_beside_the_result(work: Callable[[], object]) -> int:
    """The most bytes that `work` holds while it runs, without those of what it returns."""
    gc.collect()
    gc.freeze()  # what is there already need not be gone through again
    tracemalloc.start()
    result = None
    try:
        result = work()
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return peak - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        del result
