"""The process in which a `Converter` converts files. Its arguments are the limits, in seconds and bytes."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
from threading import Thread
from typing import BinaryIO, Final

from trustgraph_prompt.documents.converter import OUT_OF_MEMORY
from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.formats import convert
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.process_memory import data_in_use, limit_memory

_MOST_KEPT: Final = 256 * 1024 * 1024
"""Bytes that a file may leave behind in a process that converts another one."""


def main() -> None:
    """Convert the files that come on standard input, until it is closed."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if (
        signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):  # as for a command in the background of a script
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends even native code
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    Thread(target=_end_with_parent, daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print
    max_seconds, max_memory = float(sys.argv[1]), int(sys.argv[2])
    limit_memory(max_memory)
    try:
        while _convert_one(answers, max_seconds):
            pass
    except (EOFError, pickle.UnpicklingError):  # the command has ended
        return
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _end_with_parent() -> None:
    """End this process, even amid a file, when the other end of its standard input is closed."""
    closing = select.poll()
    closing.register(sys.stdin, 0)
    closing.poll()
    os._exit(0)


def _convert_one(answers: BinaryIO, max_seconds: float) -> bool:
    """Convert a file; return whether there is memory for another one."""
    before = data_in_use() or 0
    data, file = pickle.load(sys.stdin.buffer)
    signal.setitimer(signal.ITIMER_PROF, max_seconds)  # its signal ends the process
    converted = _converted(data, file)
    del data
    goes_on = (data_in_use() or 0) - before < _MOST_KEPT
    pickle.dump((converted, goes_on), answers)
    answers.flush()
    signal.setitimer(signal.ITIMER_PROF, 0)
    return goes_on


def _converted(data: bytes, file: str) -> Document | ConfigError:
    try:
        return convert(data, file)
    except ConfigError as error:
        return error


if __name__ == "__main__":
    main()
