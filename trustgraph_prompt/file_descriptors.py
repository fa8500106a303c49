"""Whether the process is out of file descriptors, and so cannot open connections."""

from __future__ import annotations

import os
from errno import EMFILE, ENFILE

SPARE = 4
"""How many must be free: the components that are running may need another one at any time."""


def shortage() -> OSError | None:
    """Return the error (`EMFILE`, `ENFILE`) if fewer than `SPARE` are free in this process or the system."""
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
    """Whether an error, or one of its causes, says that no file descriptor is left."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False
