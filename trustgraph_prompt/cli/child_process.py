"""Runs the rest of a command in a child process: native code that loops or crashes ends only this one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

import typer

_ENDING = (signal.SIGINT, signal.SIGTERM)


class ChildEnded(Exception):
    """A signal ended the child; nobody sent it to the command."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


def continue_in_child() -> None:
    """Fork, before anything is printed, and return in the child.

    The parent ends as the child does, or raises `ChildEnded`.
    """
    child = os.fork()
    if not child:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)  # a handler in Python would wait for native code
        return

    def forward(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(child, number)

    for number in _ENDING:
        signal.signal(number, forward)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        raise typer.Exit(code)
    if -code in _ENDING:
        signal.signal(-code, signal.SIG_DFL)
        signal.raise_signal(-code)
    raise ChildEnded(-code)
