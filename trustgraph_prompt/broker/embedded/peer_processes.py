"""The other processes on the same file: each has a Unix datagram socket beside it, named by its connection.

A datagram says "look again", nothing more, so that one too many is harmless and a full queue is no loss.
The kernel closes the socket of a process however it ends, so a socket that refuses tells of a death.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

#: The shortest limit of a socket's path is macOS's 104 bytes; the name in it is a number.
_LONGEST_DIRECTORY: Final = 80


class PeerProcesses:
    """This process's socket, and what it knows of the others. `woken` runs in the event loop."""

    def __init__(self, database: str, woken: Callable[[], None]) -> None:
        self._directory = Path(f"{database}-peers")
        self._alias: str | None = None
        self._woken = woken
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._probe = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # one for all: descriptors may run out
        self._own = 0

    def appear(self, connection: int) -> None:
        """Before others can see the connection's row, or they would take it for dead. Raises `OSError`."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if len(os.fsencode(self._directory)) > _LONGEST_DIRECTORY:
            self._alias = tempfile.mkdtemp(prefix="peers-")
            os.symlink(self._directory, f"{self._alias}/d")
        self._own = connection
        with suppress(FileNotFoundError):
            os.unlink(self._path(connection))
        self._socket.bind(self._path(connection))

    def listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._heard)

    def wake(self, connections: Iterable[int]) -> bool:
        """Tell them to look again; whether all of them live."""
        refused = [number for number in connections if number != self._own and not self._send(number)]
        return not refused

    def dead(self, connections: Iterable[int]) -> list[int]:
        """Those whose process has ended."""
        return [number for number in connections if number != self._own and not self._lives(number)]

    def remove(self, connection: int) -> None:
        """Clear away what a dead process left."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(connection))

    def close(self) -> None:
        with suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._probe.close()
        self.remove(self._own)
        if self._alias:
            shutil.rmtree(self._alias, ignore_errors=True)

    def _send(self, connection: int) -> bool:
        try:
            self._socket.sendto(b".", self._path(connection))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # its queue is full: it has been told
        return True

    def _lives(self, connection: int) -> bool:
        try:
            self._probe.connect(self._path(connection))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True

    def _heard(self) -> None:
        with suppress(BlockingIOError):
            while self._socket.recv(16):
                pass
        self._woken()

    def _path(self, connection: int) -> str:
        return f"{self._alias}/d/{connection}" if self._alias else str(self._directory / str(connection))
