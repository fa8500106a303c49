"""Where the file of an embedded broker is: whether it is still there, and whether it can grow."""

from __future__ import annotations

import os
from typing import Final

from trustgraph_prompt.errors import BrokerUnavailable

MEMORY: Final = ":memory:"

#: Bytes that must be free on the disk: a message of 5 MB is written twice, and its answer too.
LEAST_FREE: Final = 16_000_000


class FileGone(BrokerUnavailable):
    """The path leads to this file no more: it was moved or deleted."""


class Place:
    """The place of a file that is open. An open file stays usable when it has lost its name, to no use."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = self._found()

    def check(self) -> None:
        """Raises `FileGone` where others who open the path would not find this file."""
        if self._identity is None:
            return
        try:
            found = self._found()
        except OSError:
            found = None
        if found != self._identity:
            now = "it is gone" if found is None else "another is in its place"
            raise FileGone(f"{self._path}: the file was moved or deleted, {now}; put it back, or start anew")

    def check_room(self) -> None:
        """Raises `BrokerUnavailable` where the disk is as good as full."""
        if self._identity is None:
            return
        disk = os.statvfs(self._path)
        free = disk.f_bavail * disk.f_frsize
        if free < LEAST_FREE:
            raise BrokerUnavailable(
                f"{self._path}: {free / 1e6:,.1f} MB are free on the disk, {LEAST_FREE / 1e6:g} MB are needed"
            )

    def _found(self) -> tuple[int, int] | None:
        if self._path == MEMORY:
            return None
        found = os.stat(self._path)
        return found.st_dev, found.st_ino
