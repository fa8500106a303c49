"""Converts files in a process that can be ended: a hostile file takes neither all time nor all memory.

The pipes of the process carry pickled values: the content and the name of a file, then its document or
error, and whether the process can convert another one.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.formats import convert, is_plain
from trustgraph_prompt.documents.named_files import content
from trustgraph_prompt.errors import ConfigError

MAX_SECONDS: Final = 900.0
"""Of CPU for one file, some 15,000 pages of PDF: pages can share drawings, each of which is drawn again."""

MAX_MEMORY: Final = 2 * 1024 * 1024 * 1024
"""Bytes for one file."""

OUT_OF_MEMORY: Final = 3
"""The exit code of a process that met the limit of memory."""

_PROGRAM: Final = "trustgraph_prompt.documents.conversion_process"


class Converter:
    """Reads files. Text and Markdown are read here, others in one process, from the first of them on.

    A file takes at most `max_seconds` of CPU and `max_memory` bytes. One thread may use it at a time.
    """

    def __init__(self, max_seconds: float = MAX_SECONDS, max_memory: int = MAX_MEMORY) -> None:
        self._max_seconds = max_seconds
        self._max_memory = max_memory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, file: Path) -> Document:
        """Read a file, or standard input for `-`. Raises `ConfigError` if that is impossible."""
        return self.convert(content(file), str(file))

    def convert(self, data: bytes, file: str) -> Document:
        """Convert the content of a file. Raises `ConfigError` like `documents.convert`, and at a limit."""
        if is_plain(data, file):
            return convert(data, file)
        try:
            converted, can_go_on = self._exchange((data, file))
        except BaseException:
            self._end()
            raise
        if not can_go_on:
            self._end()
        if isinstance(converted, ConfigError):
            raise converted
        return converted

    def _exchange(self, asked: tuple[bytes, str]) -> tuple[Document | ConfigError, bool]:
        try:
            process = self._process = self._process or self._started()
        except OSError as error:
            message = f"cannot be read: the process that reads it does not start: {error.strerror}"
            raise ConfigError(message, where=asked[1]) from error
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(asked, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)  # type: ignore[no-any-return]
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            code = process.wait()
        if code == -signal.SIGINT:
            raise KeyboardInterrupt
        raise ConfigError(self._why_it_ended(code), where=asked[1])

    def _started(self) -> subprocess.Popen[bytes]:
        limits = (str(self._max_seconds), str(self._max_memory))
        paths = os.pathsep.join(map(os.path.abspath, sys.path))  # of a script's folder, too
        environment = {**os.environ, "PYTHONPATH": paths}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # else it begins with a traceback
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM, *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if sys.stderr else subprocess.DEVNULL,  # it may be closed
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _why_it_ended(self, code: int) -> str:
        if code == -signal.SIGPROF:
            return f"takes more than {self._max_seconds:g} seconds of CPU to read; split it"
        if code == OUT_OF_MEMORY:
            return f"needs more than {self._max_memory // 1024 // 1024:,} MiB of memory to read; split it"
        if code == -signal.SIGKILL:
            return "cannot be read: the process that reads it was killed, perhaps for want of memory"
        return f"cannot be read: the process that reads it crashed (exit code {code})"

    def _end(self) -> None:
        if self._process is None:
            return
        with suppress(BrokenPipeError), self._process as process:  # closes the pipes, and waits
            process.kill()
        self._process = None
