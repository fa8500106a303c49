"""Checks that the file of an embedded broker is still in place and has room to grow."""

from __future__ import annotations

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
