"""Checks the parts of a worker regularly: an open connection does not prove that messages still pass."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import time

from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable
from trustgraph_prompt.worker.telemetry.health import Health, reason_since
from trustgraph_prompt.worker.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 2.0

SECONDS_FOR_A_LOOK = 15.0
"""More than the timeout of `Consumer.check`; a check that ignores its own timeout cannot stop the watch."""

FAILURES = 2
"""Checks in a row that must fail before a part counts as unavailable: one may just be slow."""

SECONDS_TO_RENEWAL = 60.0
"""A part that fails for so long, while the broker answers others, will not recover by itself."""

Action = Callable[[], Awaitable[None]]


@dataclass(eq=False, repr=False)
class Watch:
    """Checks the parts of a worker every few seconds; shows in `health` and `metrics` which are unavailable.

    A part that cannot recover by itself is restarted. With `notes`, a part of the broker that is unavailable
    while others work is only noted there, and the worker stays ready.
    """

    health: Health
    metrics: Metrics
    notes: MutableMapping[str, str] | None = None
    clock: Callable[[], float] = time

    def __post_init__(self) -> None:
        self._notes = self.health.waiting if self.notes is None else self.notes
        self._parts: list[_WatchedPart] = []

    @contextmanager
    def over(self, name: str, check: Action, renew: Action | None = None) -> Iterator[None]:
        """Watch a part during the block.

        `check` raises `BrokerClosed` if the part cannot recover, else another `BrokerError` or `OSError`.
        `renew` closes a part of the broker, so that its owner opens it again.
        """
        part = _WatchedPart(name, check, renew)
        self._parts.append(part)
        try:
            yield
        finally:
            self._parts.remove(part)
            if part.checking is not None:
                part.checking.cancel()
            self._clear(name)
            self.metrics.part(name, well=False)

    def forget(self, name: str) -> None:
        """Remove the metric of a part."""
        self.metrics.forget_part(name)

    async def run(self) -> None:
        """Check all parts regularly, until cancelled."""
        while True:
            await asyncio.gather(self.look(), asyncio.sleep(SECONDS_BETWEEN_LOOKS))

    async def look(self) -> None:
        """Check every part once; a slow check does not delay the others."""
        for part in self._parts:
            if part.checking is None or part.checking.done():
                part.checking = asyncio.create_task(self._check(part), name=f"look at {part.name}")
        if checking := [part.checking for part in self._parts if part.checking is not None]:
            await asyncio.wait(checking, timeout=SECONDS_BETWEEN_LOOKS)
        answers = any(part.renew is not None and part.error is None for part in self._parts)
        for part in self._parts:
            self._report(part, broker_answers=answers)

    async def _check(self, part: _WatchedPart) -> None:
        try:
            async with asyncio.timeout(SECONDS_FOR_A_LOOK):
                await part.check()
        except TimeoutError:
            part.failed(BrokerUnavailable(f"no answer in {SECONDS_FOR_A_LOOK:g} s"), self.clock())
        except (BrokerError, OSError) as error:
            part.failed(error, self.clock())
        except Exception:
            log.exception("internal error while checking %s", part.name)
        else:
            part.error, part.failures = None, 0

    def _report(self, part: _WatchedPart, *, broker_answers: bool) -> None:
        """Show the state of a part; `broker_answers`: the broker answered about this part or another."""
        closed = isinstance(part.error, BrokerClosed)
        away = closed or part.failures >= FAILURES
        self.metrics.part(part.name, well=not away)
        if part.error is None or not away:
            if self._clear(part.name):
                log.info("%s is available again", part.name)
            return
        only_this_part = broker_answers and part.renew is not None
        reasons = self._notes if only_this_part else self.health.waiting
        if not self._clear(part.name, but=reasons) and part.name not in reasons:
            log.error("%s is unavailable: %s", part.name, part.error)
        reasons[part.name] = reason_since(part.error, part.since)
        part.since = min(part.since, self.clock())  # the clock may have been set back
        if closed or (broker_answers and self.clock() - part.since > SECONDS_TO_RENEWAL):
            part.begin_renewal()

    def _clear(self, name: str, *, but: MutableMapping[str, str] | None = None) -> bool:
        """Remove the reason why a part is unavailable, except from `but`; returns whether there was one."""
        removed = [each.pop(name, None) for each in (self.health.waiting, self._notes) if each is not but]
        return any(removed)


@dataclass(eq=False)
class _WatchedPart:
    name: str
    check: Action
    renew: Action | None
    error: BrokerError | OSError | None = None
    failures: int = 0
    since: float = 0.0
    checking: asyncio.Task[None] | None = None
    _renewal: asyncio.Task[None] | None = None

    def failed(self, error: BrokerError | OSError, now: float) -> None:
        if not self.failures:
            self.since = now
        self.failures += 1
        self.error = error

    def begin_renewal(self) -> None:
        """Restart the part in the background, because closing it may take long."""
        if self.renew is not None and self._renewal is None:
            log.error("%s is restarted", self.name)
            self._renewal = asyncio.create_task(self._renew(self.renew), name=f"renewal of {self.name}")

    async def _renew(self, renew: Action) -> None:
        try:
            await renew()
        except BrokerError as error:
            log.warning("%s could not be closed before its restart: %s", self.name, error)
