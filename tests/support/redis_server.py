"""A real Redis for the tests, on a socket in a folder: it can be stopped, and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

BINARY: Final = shutil.which("redis-server")
_START_SECONDS: Final = 60.0


class RedisServer:
    """`folder` must have a short path: a socket's name has at most 107 characters."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        assert BINARY is not None
        command = (BINARY, "--port", "0", "--unixsocket", str(self._socket), "--save", "")
        self._process = subprocess.Popen(command, cwd=self._socket.parent, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_SECONDS
        while not self._listens():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.01)

    def _listens(self) -> bool:
        """Whether somebody is there: the socket exists a moment before that."""
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self._socket)) == 0

    def freeze(self) -> None:
        """It is there, and answers nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._socket.unlink(missing_ok=True)
            self._process = None
