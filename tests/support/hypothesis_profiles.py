"""Pytest plugin: properties are tried with the same examples in every run, and `make fuzz` looks for others.

`make quick` tries fewer of them. What `make fuzz` finds is kept in `tests/examples`, which every run tries
first. A test finds its own there by its name. Where an error is mended, its example may be deleted; what it
has taught belongs into a test.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase, ReadOnlyDatabase

SECONDS: Final = 10.0
"""For one example of `make fuzz`; most take some milliseconds."""


class TooLong(Exception):
    """An example takes too long, or for ever."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    examples = DirectoryBasedExampleDatabase(config.rootpath / "tests" / "examples")
    kept = ReadOnlyDatabase(examples)
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
    settings.register_profile("same", patient, database=kept)
    settings.register_profile("fuzz", patient, database=examples, max_examples=1000)
    settings.register_profile("quick", patient, database=kept, max_examples=25)
    settings.load_profile("same")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    test: Any = getattr(item, "obj", None)
    handle = getattr(test, "hypothesis", None)
    if handle is None:
        return (yield)
    # A fixed seed would leave the examples alone.
    getattr(test, "__func__", test)._hypothesis_internal_database_key = item.nodeid.encode()
    inner = handle.inner_test
    if settings.get_current_profile_name() == "fuzz":
        handle.inner_test = _limited(inner)
    try:
        return (yield)
    finally:
        handle.inner_test = inner


def _limited(test: Callable[..., object]) -> Callable[..., object]:
    def end(*_: object) -> None:
        raise TooLong(f"more than {SECONDS:g} s")

    @functools.wraps(test)
    def limited(*arguments: Any, **named: Any) -> object:
        outer = signal.signal(signal.SIGALRM, end)
        left = signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            return test(*arguments, **named)
        finally:
            signal.signal(signal.SIGALRM, outer)
            signal.setitimer(signal.ITIMER_REAL, *left)

    return limited
