"""Whether this process can still open anything: a connection to its model or its broker, say."""

from __future__ import annotations

import os

SPARE = 4
"""So many must be free: what is open now may need another at any time."""


async def check() -> None:
    """Raises `OSError` where too few file descriptors are free, in this process or in the system."""
    opened: list[int] = []
    try:
        for _ in range(SPARE):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise OSError(f"fewer than {SPARE} file descriptors are free: {error.strerror}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)
