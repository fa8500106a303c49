"""What is done while the broker refuses: say so, wait, try again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.worker.health import Health

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the next try; doubled each time."""


async def insist(
    what: str,
    action: Callable[[], Awaitable[T]],
    health: Health,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """What `action` gives, tried again and again; `health` says what is waited for, and why."""
    health.waiting[what] = "starting"
    pause = SHORTEST_PAUSE
    while True:
        try:
            result = await action()
        except BrokerError as error:
            health.waiting[what] = str(error)
            log.error("%s: %s; again in %.1f s", what, error, pause)
            await sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)
        else:
            health.waiting.pop(what, None)
            return result
