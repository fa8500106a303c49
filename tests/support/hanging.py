"""Pytest plugin: a test that hangs fails, says where it stood, and the others go on.

Halfway to `faulthandler_timeout` an exception ends it, and is raised again each time as much has passed, for
teardowns hang too. A test that goes on regardless, say in native code, loses its process: pytest prints the
stack, xdist starts another.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.outcomes import OutcomeException


class TestHangs(OutcomeException):
    """Ends a test as `pytest.fail` does, so that its fixtures are closed.

    It is not `Failed` itself: hypothesis takes that for a failing example, and tries it again.
    """


_HUNG = pytest.StashKey[TestHangs]()


def _limit(config: pytest.Config) -> float:
    return float(config.getini("faulthandler_timeout"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    seconds = _limit(item.config) / 2

    def end(*_: object) -> None:
        with suppress(RuntimeError):  # no loop runs
            for task in asyncio.all_tasks():
                task.print_stack()
        item.stash[_HUNG] = TestHangs(f"still at work after {seconds:g} s")
        raise item.stash[_HUNG]

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The exception may have ended nothing but a background task of the test."""
    result = yield
    if _HUNG in item.stash:
        raise item.stash[_HUNG]
    return result


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item) -> None:
    """Pytest ends its own watch here, before the teardown."""
    file = node.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(_limit(node.config), file=file, exit=True)


def pytest_enter_pdb() -> None:
    """Whoever debugs takes their time."""
    signal.setitimer(signal.ITIMER_REAL, 0)
