"""Forwards the log of Pulsar's client to the Python logger `pulsar`.

The client must not log into Python from its own threads: that can crash (apache/pulsar#16527), and hang at
exit. It writes to an unlinked file instead, and each connection forwards the new lines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pulsar

_FORWARD_SECONDS: Final = 0.5
#: Bytes after which the file is truncated, so that it does not grow for months.
_LARGEST: Final = 1_000_000
#: Date, time, level, thread, source location and text.
_LINE: Final = re.compile(r"\S+ \S+ (?P<level>[A-Z]+) +\[\d+\] (?P<place>\S+) \| (?P<text>.*)")
#: Errors that our checks expect, or that we raise ourselves; logged at DEBUG.
_EXPECTED: Final = re.compile(
    r"ConsumerBusy"
    r"|UnknownError \(Failed to recover Transaction Buffer"
    r"|\[non-persistent://.*\] Failed to getLastMessageId: UnknownError"
)

log = logging.getLogger("pulsar")


class ClientLog:
    """The log file of the process: the client uses the logger of its first connection for all of them."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._incomplete = b""
        self._lock = threading.Lock()

    @contextmanager
    def logger(self) -> Iterator[pulsar.FileLogger]:
        """The logger for a new client, at the level of the Python logger `pulsar`, by default WARNING."""
        if self._file is not None:
            yield pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
            return
        file, path = tempfile.mkstemp(prefix="pulsar-client-", suffix=".log")
        try:
            yield pulsar.FileLogger(_level(), path)
        except BaseException:
            os.close(file)
            raise
        else:
            self._file = file
        finally:
            os.unlink(path)

    async def follow(self) -> None:
        """Forward new lines at intervals, until cancelled."""
        while True:
            await asyncio.sleep(_FORWARD_SECONDS)
            self.forward()

    def forward(self) -> None:
        """Log the lines that the client has written since the last call."""
        if (file := self._file) is None:
            return
        with self._lock:
            written = b"".join(iter(lambda: os.read(file, 65_536), b""))
            if os.lseek(file, 0, os.SEEK_CUR) > _LARGEST:
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
            *lines, self._incomplete = (self._incomplete + written).split(b"\n")
        for line in lines:
            _log(line.decode(errors="replace"))


CLIENT_LOG: Final = ClientLog()


def _level() -> pulsar.LoggerLevel:
    if log.level in (logging.NOTSET, logging.WARNING):
        return pulsar.LoggerLevel.Warn
    if log.level > logging.WARNING:
        return pulsar.LoggerLevel.Error
    return pulsar.LoggerLevel.Info if log.level > logging.DEBUG else pulsar.LoggerLevel.Debug


def _log(line: str) -> None:
    if parts := _LINE.fullmatch(line):
        level = logging.getLevelNamesMapping().get(parts["level"].replace("WARN", "WARNING"), logging.WARNING)
        if _EXPECTED.search(parts["text"]):
            level = logging.DEBUG
        log.log(level, "%s (%s)", parts["text"], parts["place"])
    elif line:
        log.warning("%s", line)
