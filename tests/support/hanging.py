"""Pytest plugin: a test that hangs ends, says where it stood, and the others go on.

Halfway to `faulthandler_timeout` an exception ends it, which is cleaned up after like any other. A test that
goes on regardless, say in native code, loses its process: pytest prints the stack, xdist starts another.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest


class TestHangs(BaseException):
    """Neither an `Exception` nor pytest's `Failed`: for hypothesis such is a failing example to retry."""


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    seconds = float(item.config.getini("faulthandler_timeout")) / 2

    def end(*_: object) -> None:
        with suppress(RuntimeError):  # no loop runs
            for task in asyncio.all_tasks():
                task.print_stack()
        raise TestHangs(f"still at work after {seconds:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
