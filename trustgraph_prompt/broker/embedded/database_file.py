"""Where the file of an embedded broker is: whether it is still there, and whether it can grow."""

from __future__ import annotations

import os
from math import inf
from time import monotonic
from typing import Final

from trustgraph_prompt.errors import BrokerUnavailable

MEMORY: Final = ":memory:"

#: Bytes that must be free on the disk: a message of 5 MB is written twice, and its answer too.
LEAST_FREE: Final = 16_000_000


#: Between two looks at a file that is in use: a look costs a tenth of what sending a message does.
SECONDS_BETWEEN_LOOKS: Final = 0.1


class FileGone(BrokerUnavailable):
    """The path leads to this file no more: it was moved or deleted."""


class DatabaseFile:
    """The place of a file that is open. An open file stays usable when it has lost its name, to no use."""

    def __init__(self, path: str) -> None:
        self._path = path
        files = [] if path == MEMORY else [path, f"{path}-wal", f"{path}-shm"]
        self._files = {file: identity for file in files if (identity := _identity(file))}
        self._looked = -inf

    def check(self) -> None:
        """Raises `FileGone` where others who open the path would not find this file."""
        self._looked = -inf
        for file, identity in self._files.items():
            if (found := _identity(file)) != identity:
                now = "it is gone" if found is None else "another is in its place"
                raise FileGone(f"{file}: the file was moved or deleted, {now}; put it back, or start anew")
        self._looked = monotonic()

    def check_at_times(self) -> None:
        """The same, unless it was looked a moment ago."""
        if monotonic() - self._looked >= SECONDS_BETWEEN_LOOKS:
            self.check()

    def check_room(self) -> None:
        """Raises `BrokerUnavailable` where the disk is as good as full."""
        if not self._files:
            return
        disk = os.statvfs(self._path)
        free = disk.f_bavail * disk.f_frsize
        if free < LEAST_FREE:
            raise BrokerUnavailable(
                f"{self._path}: {free / 1e6:,.1f} MB are free on the disk, {LEAST_FREE / 1e6:g} MB are needed"
            )


def _identity(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
