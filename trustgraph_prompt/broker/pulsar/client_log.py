"""What Pulsar's client logs, passed on under the name `pulsar` of Python's logging.

The client's threads must not call into Python for that: it can crash (apache/pulsar#16527) and hang at the
end. They write to a file that has no name any more, and every connection passes on what is new in it.
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

_SECONDS: Final = 0.5
#: Bytes after which the file begins anew, so that it does not grow for months.
_LARGEST: Final = 1_000_000
#: Date and time, level, thread, place in the client's source, and the text.
_LINE: Final = re.compile(r"\S+ \S+ (?P<level>[A-Z]+) +\[\d+\] (?P<place>\S+) \| (?P<text>.*)")
#: Answers to questions of ours that are refusals, each of them expected, or raised where it was asked.
_ANSWER: Final = re.compile(
    r"ConsumerBusy"
    r"|UnknownError \(Failed to recover Transaction Buffer"
    r"|\[non-persistent://.*\] Failed to getLastMessageId: UnknownError"
)

log = logging.getLogger("pulsar")


class ClientLog:
    """One for the process, because the client has one: that of the first connection, for good."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._rest = b""
        self._lock = threading.Lock()

    @contextmanager
    def taking(self) -> Iterator[pulsar.FileLogger]:
        """What to open a client with: warnings and errors, or what the logger `pulsar` is set to."""
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
        """Pass on, now and then, until cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            self.pass_on()

    def pass_on(self) -> None:
        """Log what the client has written since the last time."""
        if (file := self._file) is None:
            return
        with self._lock:
            written = b"".join(iter(lambda: os.read(file, 65_536), b""))
            if os.lseek(file, 0, os.SEEK_CUR) > _LARGEST:
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
            *lines, self._rest = (self._rest + written).split(b"\n")
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
    if said := _LINE.fullmatch(line):
        level = logging.getLevelNamesMapping().get(said["level"].replace("WARN", "WARNING"), logging.WARNING)
        if _ANSWER.search(said["text"]):
            level = logging.DEBUG
        log.log(level, "%s (%s)", said["text"], said["place"])
    elif line:
        log.warning("%s", line)
