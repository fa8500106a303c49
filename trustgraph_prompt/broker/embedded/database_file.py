"""Checks that the file of an embedded broker is still in place and has room to grow."""

from __future__ import annotations

import contextlib
import os
from math import inf
from time import monotonic
from typing import Final

from trustgraph_prompt.errors import BrokerUnavailable

MEMORY: Final = ":memory:"

#: Bytes that must be free on the disk: a message of 5 MB is written twice, and so is its answer.
LEAST_FREE: Final = 16_000_000


#: Seconds between two checks of a file in use: a check costs a tenth of sending a message.
SECONDS_BETWEEN_LOOKS: Final = 0.1


_FILES_BESIDE: Final = {
    "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
    "-shm": (b"\x18\xe2\x2d\x00", b"\x00\x2d\xe2\x18"),
    "-journal": (b"\xd9\xd5\x05\xf9",),
}
"""How the files begin that SQLite keeps beside a database: it replaces what has another beginning.

After a power cut, and at the end of a transaction, they may be empty or begin with zeros.
"""


def check_beside(path: str) -> None:
    """Raise `ValueError` if SQLite would replace a file beside a database that it has not written."""
    for ending, beginnings in _FILES_BESIDE.items():
        with contextlib.suppress(OSError), open(path + ending, "rb") as file:
            if file.read(4) not in (b"", bytes(4), *beginnings):
                raise ValueError(f"it would replace {path}{ending}, which is not SQLite's; move it away")


class FileGone(BrokerUnavailable):
    """The file was moved or deleted."""


class DatabaseFile:
    """The paths of an open database. A deleted file stays writable for those who have it open."""

    def __init__(self, path: str) -> None:
        self._path = path
        files = [] if path == MEMORY else [path, f"{path}-wal", f"{path}-shm"]
        self._files = {file: identity for file in files if (identity := _identity(file))}
        self._checked = -inf

    def check(self) -> None:
        """Raise `FileGone` if the path no longer leads to the open file."""
        self._checked = -inf
        for file, identity in self._files.items():
            if (found := _identity(file)) != identity:
                now = "it is gone" if found is None else "another is in its place"
                raise FileGone(f"{file}: the file was moved or deleted, {now}; put it back, or restart")
        self._checked = monotonic()

    def check_at_times(self) -> None:
        """Check, unless the last check was a moment ago."""
        if monotonic() - self._checked >= SECONDS_BETWEEN_LOOKS:
            self.check()

    def check_room(self) -> None:
        """Raise `BrokerUnavailable` if the disk is almost full."""
        if not self._files:
            return
        disk = os.statvfs(self._path)
        free = disk.f_bavail * disk.f_frsize
        if free < LEAST_FREE:
            raise BrokerUnavailable(
                f"{self._path}: found {free / 1e6:,.1f} MB free on the disk, "
                f"expected at least {LEAST_FREE / 1e6:g} MB"
            )


def _identity(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
