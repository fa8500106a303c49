"""Whether this process can still open anything: a connection to its model or its broker, say."""

from __future__ import annotations

import os
from errno import EMFILE, ENFILE

SPARE = 4
"""So many must be free: what is open now may need another at any time."""


def shortage() -> OSError | None:
    """The error (`EMFILE`, `ENFILE`) where few file descriptors are free, in this process or the system."""
    opened: list[int] = []
    try:
        for _ in range(SPARE):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return OSError(error.errno, f"fewer than {SPARE} file descriptors are free: {error.strerror}")
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


def out_of_descriptors(error: BaseException | None) -> bool:
    """Whether it, or what it was caused by, is that the process or the system has no file descriptor left."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False
