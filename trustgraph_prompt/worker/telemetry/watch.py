"""Watches progress: being connected does not prove that anything would ever arrive, or leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import time

from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable
from trustgraph_prompt.worker.telemetry.health import Health, lasting
from trustgraph_prompt.worker.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 2.0

SECONDS_FOR_A_LOOK = 15.0
"""More than a broker has to answer (`Consumer.check`), so that nothing can stop the watch."""

FAILURES = 2
"""Looks in a row that must fail before a part counts as away: one slow answer says nothing."""

SECONDS_TO_RENEWAL = 60.0
"""A part that gets no answer for so long, from a broker that answers others, will not come back by itself."""

Action = Callable[[], Awaitable[None]]


class Watch:
    """Looks at the parts of a worker every few seconds, and says in `health` and `metrics` which are away.

    A part that is gone for good is renewed; all others may come back by themselves, and are then waited for
    no more. Where there are `notes`, it is only noted there that a place on the broker is away while others
    stand: the worker is as ready as it would be without it.
    """

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        *,
        notes: MutableMapping[str, str] | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._health = health
        self._notes = health.waiting if notes is None else notes
        self._metrics = metrics
        self._clock = clock
        self._parts: list[_Part] = []

    @contextmanager
    def over(self, name: str, check: Action, renew: Action | None = None) -> Iterator[None]:
        """Watch a part for the time of the block.

        `check` raises `BrokerClosed` where the part is gone, another `BrokerError` or `OSError` where it may
        come back.
        `renew` ends a part that the broker is asked about, so that whoever runs it begins anew.
        """
        part = _Part(name, check, renew)
        self._parts.append(part)
        try:
            yield
        finally:
            self._parts.remove(part)
            part.leave_alone()
            self._unsay(name)
            self._metrics.part(name, well=False)

    def forget(self, name: str) -> None:
        """There is no part of that name any more."""
        self._metrics.forget_part(name)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.gather(self.look(), asyncio.sleep(SECONDS_BETWEEN_LOOKS))

    async def look(self) -> None:
        """One look at every part; who takes long to answer keeps nobody from being looked at."""
        for part in self._parts:
            if part.asking is None or part.asking.done():
                part.asking = asyncio.create_task(self._ask(part), name=f"look at {part.name}")
        if asking := [part.asking for part in self._parts if part.asking is not None]:
            await asyncio.wait(asking, timeout=SECONDS_BETWEEN_LOOKS)
        answers = any(part.renew is not None and part.trouble is None for part in self._parts)
        for part in self._parts:
            self._judge(part, answers)

    async def _ask(self, part: _Part) -> None:
        try:
            async with asyncio.timeout(SECONDS_FOR_A_LOOK):
                await part.check()
        except TimeoutError:
            part.failed(BrokerUnavailable(f"no answer in {SECONDS_FOR_A_LOOK:g} s"), self._clock())
        except (BrokerError, OSError) as error:
            part.failed(error, self._clock())
        except Exception:
            log.exception("this is a defect of the worker; %s goes unwatched", part.name)
        else:
            part.trouble, part.failures = None, 0

    def _judge(self, part: _Part, answers: bool) -> None:
        """Say how the part is; `answers` tells whether the broker did, about this one or another."""
        gone = isinstance(part.trouble, BrokerClosed)
        away = gone or part.failures >= FAILURES
        self._metrics.part(part.name, well=not away)
        was_away = self._unsay(part.name)
        if part.trouble is None or not away:
            if was_away:
                log.info("%s is back", part.name)
            return
        if not was_away:
            log.error("%s is away: %s", part.name, part.trouble)
        one_of_many = answers and part.renew is not None
        said = self._notes if one_of_many else self._health.waiting
        said[part.name] = lasting(part.trouble, part.since)
        part.since = min(part.since, self._clock())  # the clock may have been put back
        if gone or (answers and self._clock() - part.since > SECONDS_TO_RENEWAL):
            part.begin_renewal()

    def _unsay(self, name: str) -> bool:
        """Whether it was said that the part is away."""
        said = [each.pop(name, None) for each in (self._health.waiting, self._notes)]
        return any(said)


@dataclass(eq=False)
class _Part:
    name: str
    check: Action
    renew: Action | None
    trouble: BrokerError | OSError | None = None
    failures: int = 0
    since: float = 0.0
    asking: asyncio.Task[None] | None = None
    _renewal: asyncio.Task[None] | None = None

    def failed(self, trouble: BrokerError | OSError, now: float) -> None:
        if not self.failures:
            self.since = now
        self.failures += 1
        self.trouble = trouble

    def leave_alone(self) -> None:
        if self.asking is not None:
            self.asking.cancel()

    def begin_renewal(self) -> None:
        """In the background: what is gone may take its time to end."""
        if self.renew is not None and self._renewal is None:
            log.error("%s is begun anew", self.name)
            self._renewal = asyncio.create_task(self._renew(self.renew), name=f"renewal of {self.name}")

    async def _renew(self, renew: Action) -> None:
        try:
            await renew()
        except BrokerError as error:
            log.warning("%s did not end well: %s", self.name, error)
