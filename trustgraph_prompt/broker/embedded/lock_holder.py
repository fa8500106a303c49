"""Finds the process that holds the write lock of a SQLite file, for error messages."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from trustgraph_prompt.errors import excerpt

#: The byte of the `-shm` file that a writer locks (https://www.sqlite.org/walformat.html).
_WRITE_LOCK: Final = 120


def holder(database: str) -> str:
    """Describe the process that holds the lock; empty if there is none, or it is unknown.

    Only Linux lists locks. (`F_GETLK` needs an open file, and closing it would release the locks of this
    process.)
    """
    with suppress(OSError, ValueError):
        inode = os.stat(f"{database}-shm").st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            *_, access, process, file, begin, end = line.split()
            its = file.rpartition(":")[2] == str(inode) and access == "WRITE"
            if its and int(begin) <= _WRITE_LOCK and (end == "EOF" or int(end) >= _WRITE_LOCK):
                return _describe(int(process))
    return ""


def _describe(process: int) -> str:
    if process <= 0:
        return "a process of another container"
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        program = " ".join(Path(os.fsdecode(word)).name for word in words[:3] if word)
        return f"process {process} ({excerpt(program, 80)})"
    return f"process {process}"
