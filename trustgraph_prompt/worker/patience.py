"""What is done while the broker refuses: say so, wait, try again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from time import time
from typing import TypeVar

from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.worker.health import lasting

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds before the next try; doubled each time."""


async def insist(
    what: str, action: Callable[[], Awaitable[T]], said: MutableMapping[str, str], stopping: asyncio.Event
) -> T | None:
    """What `action` gives, tried until the broker lets it; `said` is told why not yet. None once stopping."""
    said[what] = "starting"
    pause, began = SHORTEST_PAUSE, time()
    while not stopping.is_set():
        try:
            result = await action()
        except BrokerError as error:
            if stopping.is_set():  # which may be why
                break
            said[what] = lasting(error, began)
            log.error("%s: %s; again in %.1f s", what, error, pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
            pause = min(LONGEST_PAUSE, pause * 2)
        else:
            said.pop(what, None)
            return result
    said.pop(what, None)
    return None
