"""A circuit for each server, model and key: open while the model is unavailable, so that requests wait."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

from trustgraph_prompt.errors import ProviderError, ProviderModelAway, ProviderUnavailable
from trustgraph_prompt.llm.retry import Sleep

#: Seconds between two probes: at least, and the upper bound of the longest pause.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

#: Failures without a success between them that open a circuit, and of how many requests they must be: one
#: request that fails each time says nothing about the server.
FAILURES, REQUESTS = 5, 3

#: How often a request may have been suspect before its failures count as its own.
SUSPICIONS = 10

#: Suspects that are remembered.
MOST_SUSPECTS = 10_000

IsWell = Callable[[], Awaitable[bool]]


class ProviderAway(ProviderUnavailable):
    """The model is unavailable, through no fault of the request, which is sent again when the circuit closes.

    `suspect`: the request was the probe, and the server rejected it or failed on it. If all waiting requests
    are ones that the server fails on, another request must be the next probe. `own`: the request was suspect
    too often, and the failure counts as its own. `retry_after` is the pause, in seconds, of a request that is
    postponed.
    """

    category = ProviderModelAway.category  # what a caller over topics is told
    transient = False

    def __init__(
        self, circuit: Circuit, *, suspect: bool = False, own: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(f"the model is away: {circuit.why}", retry_after=retry_after, loggable=circuit.why)
        self.circuit = circuit
        self.suspect = suspect
        self.own = own


class Circuit:
    """Whether one model of one server can be called with one key.

    While it is open, one request is admitted as a probe after each pause, even if an earlier one still waits
    for its answer: each time the request that has waited longest. Pauses grow to a minute. If no request
    arrives for that long, the server itself is asked whether it is well. `why` and `since` (seconds since the
    epoch) describe the outage and are empty while the circuit is closed. `room` is set while new requests are
    welcome: while the circuit is closed, or a probe is due and no request waits.
    """

    def __init__(
        self,
        server: str = "",
        model: str = "",
        changed: Callable[[Circuit], None] = lambda circuit: None,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.server = server
        self.model = model
        self.why = ""
        self.since = 0.0
        self.openings = 0
        self.room = asyncio.Event()
        self.room.set()
        self.confirming = asyncio.Lock()
        self._changed = changed
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform
        self._failures = 0
        self._failed: set[str] = set()
        self._suspects: dict[str, _Suspect] = {}
        self._answers = 0
        self._is_well: IsWell | None = None
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._probes: set[str] = set()  # chosen, and not sent yet
        self._probe_is_due = False
        self._probe_taken = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the model is unavailable."""
        return self._probing is not None

    def admits(self, request: str) -> bool:
        """Whether a call for the request may be made now."""
        if self.is_open and request not in self._probes:
            if not self._probe_is_due:
                return False
            self._take_probe(request)
        self._probes.discard(request)
        return True

    async def turn(self, request: str, seconds: float | None = None) -> bool:
        """Wait until the request may be sent, as a probe or because the circuit closed; False on timeout."""
        if not self.is_open:
            return True
        if self._probe_is_due:
            self._take_probe(request)
            return True
        entry = request, asyncio.get_running_loop().create_future()
        self._waiting.append(entry)
        admitted = False
        try:
            async with asyncio.timeout(seconds):
                await entry[1]
            admitted = True
        except TimeoutError:
            pass
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif not admitted and request in self._probes:
                self._probes.remove(request)
                self._choose_probe()
        return admitted

    def failed(self, request: str, error: ProviderError, is_well: IsWell | None = None) -> None:
        """Count a failure that the request itself may have caused; several together open the circuit."""
        if self.is_open:
            return
        self._failures += 1
        self._failed.add(request)
        if self._failures >= FAILURES and len(self._failed) >= REQUESTS:
            self.open(error, is_well)

    def open(self, error: ProviderError, is_well: IsWell | None = None) -> None:
        """Open the circuit, or update why it is open; `is_well` asks the server, where it can be asked."""
        self._is_well = is_well
        self.why = f"{error.category}: {error.loggable}" if error.loggable else error.category
        if not self.is_open:
            self.since = self._clock()
            self.openings += 1
            for request in self._failed:  # one of them may have crashed the server
                self.suspect(request)
            self.room.clear()
            self._probing = asyncio.create_task(self._probe(), name=f"probes of {self.model}")
        self._changed(self)

    def suspect(self, request: str) -> None:
        """Note that the server accepted the request and failed on it, and might not fail on others."""
        if len(self._suspects) > MOST_SUSPECTS:
            self._suspects.clear()
        self._suspects.setdefault(request, _Suspect(self._answers)).times += 1

    def blames(self, request: str) -> bool:
        """Whether the request was suspect too often, and another was answered since it first was."""
        suspect = self._suspects.get(request)
        return suspect is not None and suspect.times > SUSPICIONS and suspect.answers < self._answers

    def succeeded(self, request: str, *, probe: bool) -> None:
        """Count an answer. While the circuit is open, only the answer to a probe closes it."""
        self._failures = 0
        self._failed.clear()
        self._suspects.pop(request, None)
        self._answers += 1
        if probe and self.is_open:
            self.close()
            self._changed(self)

    def close(self) -> None:
        """Close the circuit and let all waiting requests go on."""
        if self._probing is not None:
            self._probing.cancel()
        self._probing, self.why, self.since = None, "", 0.0
        self._probes.clear()
        self._probe_is_due = False
        self.room.set()
        while self._waiting:
            _wake(self._waiting.popleft()[1])

    async def _probe(self) -> None:
        for n in count():
            await self._sleep(self._uniform(SHORTEST_PAUSE, min(LONGEST_PAUSE, 2.0 ** min(n, 10))))
            self._choose_probe()
            while self._probe_is_due:
                if await self._nobody_comes() and self._is_well is not None and await self._is_well():
                    self._probing = None  # this very task, which ends
                    self.close()
                    self._changed(self)
                    return

    def _choose_probe(self) -> None:
        """Make the request that has waited longest the next probe, or else the first that arrives."""
        if self._waiting:
            request, future = self._waiting.popleft()
            self._probes.add(request)
            _wake(future)
        else:
            self._probe_taken.clear()
            self._probe_is_due = True
            self.room.set()

    async def _nobody_comes(self) -> bool:
        """Whether the probe is still due after the longest pause."""
        pause = asyncio.ensure_future(self._sleep(LONGEST_PAUSE))
        taken = asyncio.ensure_future(self._probe_taken.wait())
        try:
            await asyncio.wait((pause, taken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            taken.cancel()
        return self._probe_is_due

    def _take_probe(self, request: str) -> None:
        self._probe_is_due = False
        self.room.clear()
        self._probe_taken.set()
        self._probes.add(request)


@dataclass(slots=True)
class _Suspect:
    """The circuit's count of `answers` when a request first became suspect, and how many `times` it did."""

    answers: int
    times: int = 0


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
