"""A file that replaces the previous one only when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trustgraph_prompt.errors import StoreError


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield where to write the new content, which takes the place of the file at the end.

    After an error the previous file is still there, and no part of the new one. Raises `StoreError` if it
    cannot be written.
    """
    target = Path(os.path.realpath(path))  # of a link, not the link
    part = target.with_name(f"{target.name}.{os.getpid()}.part")  # a name that no file of the user has
    try:
        yield part
        part.replace(target)
    except OSError as cause:
        raise StoreError(f"{path}: cannot be written: {cause.strerror or cause}") from cause
    finally:
        with suppress(OSError):
            part.unlink()
