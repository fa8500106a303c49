"""The command in processes that are forked from one that has imported it (`fork_server.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

#: What decides how Python itself starts, which a fork does not do.
_OF_PYTHON: Final = ("PYTHON", "LC_", "LANG")


def can_fork(variables: Mapping[str, str]) -> bool:
    """Whether a fork does as well as a process that starts with these variables."""
    return not any(name.startswith(_OF_PYTHON) for name in variables)


class Fork:
    """A command that runs."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self._told = told

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, or the negative number of the signal that ended it; once.

        After so many seconds it is told to print where it stands and to abort.
        """
        with self._told as told:
            told.settimeout(seconds)
            with suppress(TimeoutError):
                return int(told.recv(16))
            self.send_signal(signal.SIGABRT)
            return int(told.recv(16))

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class AsyncFork:
    """The same as asyncio's own processes are."""

    def __init__(self, fork: Fork, stderr: asyncio.StreamReader | None) -> None:
        self.pid, self.kill, self.send_signal = fork.pid, fork.kill, fork.send_signal
        self.stderr = stderr
        self._ended = asyncio.create_task(asyncio.to_thread(fork.wait))

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)


def fork(
    arguments: list[str], folder: Path, environment: Mapping[str, str], streams: tuple[int, int, int]
) -> Fork:
    """Start the command with descriptors as its standard input, output and error."""
    order = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
    with _starting:
        orders = _orders()
    told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(orders, [json.dumps(order).encode()], [theirs.fileno(), *streams])
    return Fork(int(told.recv(16)), told)


async def fork_async(
    arguments: list[str], folder: Path, environment: Mapping[str, str], stderr: int
) -> AsyncFork:
    """The same; `stderr` is a descriptor, or `PIPE`."""
    if stderr != subprocess.PIPE:
        forked = await asyncio.to_thread(_fork_quietly, arguments, folder, environment, stderr)
        return AsyncFork(forked, None)
    ours, theirs = os.pipe()
    try:
        forked = await asyncio.to_thread(_fork_quietly, arguments, folder, environment, theirs)
    finally:
        os.close(theirs)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(ours, "rb", 0))
    return AsyncFork(forked, reader)


def _fork_quietly(arguments: list[str], folder: Path, environment: Mapping[str, str], stderr: int) -> Fork:
    with open(os.devnull) as nothing:
        return fork(arguments, folder, environment, (nothing.fileno(), 1, stderr))


@cache
def _orders() -> socket.socket:
    """Where a process that forks takes orders. It ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [sys.executable, "-P", str(Path(__file__).with_name("fork_server.py"))]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # what has several threads must not be forked
    with theirs:
        _forking.append(
            subprocess.Popen(program, stdin=theirs.fileno(), env=one_thread, start_new_session=True)
        )
    return ours


_forking: Final[list[subprocess.Popen[bytes]]] = []
_starting: Final = Lock()
"""Of two threads that want the first fork at once, only one starts the process that forks."""
