"""Retries broker operations, with logged exponential backoff."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from time import time
from typing import Any, TypeVar

from tenacity import retry_if_exception_type, wait_random_exponential
from tenacity.wait import WaitBaseT

from trustgraph_prompt.errors import BrokerError, BrokerUnavailable
from trustgraph_prompt.retrying import error_of, retrying
from trustgraph_prompt.worker.telemetry.health import reason_since

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds before the next try of an operation that the start needs; doubled each time."""

LONGEST_OUTAGE_PAUSE = 30.0
"""Maximum seconds before the next try to settle a message; doubled from 1, with full jitter."""

_BROKER_UNAVAILABLE = retry_if_exception_type(BrokerUnavailable)
_OUTAGE_PAUSES = wait_random_exponential(max=LONGEST_OUTAGE_PAUSE)


async def retry_until_stopped(
    part: str,
    action: Callable[[], Awaitable[T]],
    waiting: MutableMapping[str, str],
    stopping: asyncio.Event,
    pause: float = SHORTEST_PAUSE,
) -> T | None:
    """Call `action` until it raises no `BrokerError`; returns its result, None once `stopping` is set.

    `waiting[part]` has the reason meanwhile.
    """
    began, result = time(), None
    waiting[part] = "starting"
    while not stopping.is_set():
        try:
            result = await action()
            break
        except BrokerError as error:
            if stopping.is_set():  # the shutdown may have caused it
                break
            waiting[part] = reason_since(error, began)
            log.error("%s: %s; retry in %.1f s", part, error, pause)
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    waiting.pop(part, None)
    return result


async def cancel_when_stopped(action: Coroutine[Any, Any, T], stopping: asyncio.Event) -> T | None:
    """Run `action`, cancelled once `stopping` is set; returns its result, None if it was cancelled."""
    running, stopped = asyncio.create_task(action), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    finally:
        running.cancel()
        stopped.cancel()
        await asyncio.wait([running, stopped])


async def retry_outages(
    action: Callable[[], Awaitable[T]],
    *,
    wait: WaitBaseT = _OUTAGE_PAUSES,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Call `action` until the broker is available; returns its result. Raises any other `BrokerError`."""
    return await retrying(
        action,
        retry=_BROKER_UNAVAILABLE,
        wait=wait,
        before_sleep=lambda state: log.warning("the broker is unavailable: %s", error_of(state)),
        sleep=sleep,
    )
