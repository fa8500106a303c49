"""Notifies the other processes on the same file, and detects their deaths, with Unix datagram sockets.

Each process has a socket beside the file, named by its connection. A datagram means only "look again", so
extra ones and full queues are harmless. The kernel closes the socket of a process however it ends, so a
refusing socket means that its process is dead.
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

#: Bytes. The lowest limit of a socket's path is 104 bytes (macOS), including the socket's name, a number.
_LONGEST_DIRECTORY: Final = 80


class PeerProcesses:
    """The socket of this process. `notified` runs in the event loop."""

    def __init__(self, database: str, notified: Callable[[], None]) -> None:
        self._directory = Path(f"{database}-peers")
        self._alias: str | None = None
        self._notified = notified
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._probe = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # one for all: descriptors may run out
        self._own = 0

    def bind(self, connection: int) -> None:
        """Bind the socket, before others see the row of the connection and find it dead. Raises `OSError`."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if len(os.fsencode(self._directory)) > _LONGEST_DIRECTORY:
            self._alias = tempfile.mkdtemp(prefix="peers-")
            os.symlink(self._directory, f"{self._alias}/d")
        self._own = connection
        with suppress(FileNotFoundError):
            os.unlink(self._path(connection))
        self._socket.bind(self._path(connection))

    def listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._read_datagrams)

    def notify(self, connections: Iterable[int]) -> bool:
        """Tell other processes to look again. Returns whether all of them are alive."""
        refused = [number for number in connections if number != self._own and not self._send(number)]
        return not refused

    def dead(self, connections: Iterable[int]) -> list[int]:
        """Return the connections whose process has ended."""
        return [number for number in connections if number != self._own and not self._is_alive(number)]

    def remove(self, connection: int) -> None:
        """Delete the socket of a dead process."""
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
            pass  # the queue is full: it will look anyway
        return True

    def _is_alive(self, connection: int) -> bool:
        try:
            self._probe.connect(self._path(connection))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True

    def _read_datagrams(self) -> None:
        with suppress(BlockingIOError):
            while self._socket.recv(16):
                pass
        self._notified()

    def _path(self, connection: int) -> str:
        return f"{self._alias}/d/{connection}" if self._alias else str(self._directory / str(connection))
