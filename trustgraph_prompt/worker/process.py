"""The worker as a process: signals, and what garbage collection costs it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)

OBJECTS_BEFORE_COLLECTION = 10_000
"""More that were made than freed: Python's own 700 are reached often when many requests are in flight."""


def collect_seldom() -> None:
    """Leave alone what is there now, which stays to the end, and look for garbage less often.

    A full collection stops all requests while it goes through what is imported; frozen, that is left out.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)


@contextmanager
def signals() -> Iterator[asyncio.Event]:
    """An event that a first SIGTERM or SIGINT sets; a second one quits at once, with exit code 1.

    From the first line on: the first process of a container gets no signal that it does not handle.
    """
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stopping
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
