"""Waiting for a broker: log it, wait longer each time, try again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from time import time
from typing import Any, TypeVar

from tenacity import RetryCallState, retry_if_exception_type, wait_exponential, wait_random_exponential
from tenacity.wait import WaitBaseT

from trustgraph_prompt.errors import BrokerError, BrokerUnavailable
from trustgraph_prompt.retrying import error_of, retrying
from trustgraph_prompt.worker.telemetry.health import reason_since

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds before the next try of what a worker cannot start without; doubled each time."""

LONGEST_OUTAGE_PAUSE = 30.0
"""Seconds before the next try to settle a message; doubled from 1, with full jitter."""

_BROKER_FAILED = retry_if_exception_type(BrokerError)
_BROKER_IS_AWAY = retry_if_exception_type(BrokerUnavailable)
_START_PAUSES = wait_exponential(SHORTEST_PAUSE, LONGEST_PAUSE)
_OUTAGE_PAUSES = wait_random_exponential(max=LONGEST_OUTAGE_PAUSE)


async def until_stopped(
    what: str, action: Callable[[], Awaitable[T]], said: MutableMapping[str, str], stopping: asyncio.Event
) -> T | None:
    """The result of `action`, tried until the broker allows it; None once `stopping` is set.

    `said[what]` holds the reason while it is tried.
    """
    began = time()
    said[what] = "starting"

    def tell(state: RetryCallState) -> None:
        said[what] = reason_since(error_of(state), began)
        log.error("%s: %s; again in %.1f s", what, error_of(state), state.upcoming_sleep)

    async def sleep(seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), seconds)

    async def unless_stopping() -> T | None:
        return None if stopping.is_set() else await action()

    try:
        result = await retrying(
            unless_stopping,
            retry=_BROKER_FAILED,
            stop=lambda state: stopping.is_set(),
            wait=_START_PAUSES,
            before_sleep=tell,
            sleep=sleep,
        )
    except BrokerError:  # stopping, which may be the cause of the error
        result = None
    said.pop(what, None)
    return result


async def unless_stopped(action: Coroutine[Any, Any, T], stopping: asyncio.Event) -> T | None:
    """The result of `action`, which is cancelled once `stopping` is set: then None."""
    doing, stopped = asyncio.create_task(action), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([doing, stopped], return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        stopped.cancel()
        await asyncio.wait([doing, stopped])


async def through_outages(
    action: Callable[[], Awaitable[T]],
    sleep: Callable[[float], Awaitable[None]],
    pauses: WaitBaseT = _OUTAGE_PAUSES,
) -> T:
    """The result of `action`, tried for as long as the broker is away. Raises any other `BrokerError`."""

    def tell(state: RetryCallState) -> None:
        log.warning("the broker is away: %s", error_of(state))

    return await retrying(
        action,
        retry=_BROKER_IS_AWAY,
        wait=pauses,
        before_sleep=tell,
        sleep=sleep,
    )
