"""A circuit for each server, model and key: open while the model is unavailable, so that requests wait."""

from __future__ import annotations

import asyncio
import math
import random
import time
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

#: Seconds after which the failures of a suspect count as its own, if the server was well in between. Most
#: servers restart in less.
SUSPECT_SECONDS = 60.0

#: Seconds that a suspect waits for another request to be the probe in its place.
GIVES_WAY = 1.0

#: Suspects that are remembered.
MOST_SUSPECTS = 10_000

IsWell = Callable[[], Awaitable[bool]]


class ProviderAway(ProviderUnavailable):
    """The model is unavailable, through no fault of the request, which is sent again when the circuit closes.

    `suspect`: the request was the probe, and the server rejected it or failed on it. If all waiting requests
    are ones that the server fails on, another request must be the next probe. `own`: the request has been
    suspect too long, and the failure counts as its own. `retry_after` is the pause, in seconds, of a request
    that is postponed.
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
    for its answer: each time the request with the fewest suspicions that has waited longest. Pauses grow to a
    minute. If no request arrives for that long, the server itself is asked whether it is well. `why` and
    `since` (seconds since the epoch) describe the outage and are empty while the circuit is closed. `room` is
    set while new requests are welcome: while the circuit is closed, or a probe is due and at most suspects
    wait.
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
        #: Seconds since the epoch.
        self.now = clock
        self._changed = changed
        self._sleep = sleep
        self._uniform = uniform
        self._failures = 0
        self._failed: set[str] = set()
        self._suspects: dict[str, _Suspect] = {}
        self._is_certain = False
        self._last_answer = self._well_at = -math.inf
        self._is_well: IsWell | None = None
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._probes: set[str] = set()  # chosen, and not sent yet
        self._probe_is_due = False
        self._arrival = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the model is unavailable."""
        return self._probing is not None

    def admits(self, request: str) -> bool:
        """Whether a call for the request may be made now."""
        if self.is_open and request not in self._probes:
            if not self._probe_is_due or self._suspicions(request):
                return False
            self._take_probe(request)
        self._probes.discard(request)
        return True

    async def turn(self, request: str, seconds: float | None = None) -> bool:
        """Wait until the request may be sent, as a probe or because the circuit closed; False on timeout."""
        if not self.is_open:
            return True
        if self._probe_is_due and not self._suspicions(request):
            self._take_probe(request)
            return True
        entry = request, asyncio.get_running_loop().create_future()
        self._waiting.append(entry)
        self._arrival.set()
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
                self._choose_probe(among_suspects=True)
        return admitted

    def failed(self, request: str, error: ProviderError, is_well: IsWell | None = None) -> None:
        """Count a failure that the request itself may have caused; several together open the circuit."""
        if self.is_open or (is_well is not None and self._blames(request)):
            return
        self._failures += 1
        self._failed.add(request)
        self._suspect(request)
        if self._failures >= FAILURES and len(self._failed) >= REQUESTS:
            self.open(error, is_well, is_certain=False)

    def open(self, error: ProviderError, is_well: IsWell | None = None, *, is_certain: bool = True) -> None:
        """Open the circuit, or update why it is open; `is_well` asks the server, where it can be asked.

        `is_certain`: the server itself has failed, whatever the requests were.
        """
        self._is_well = is_well
        self.why = f"{error.category}: {error.loggable}" if error.loggable else error.category
        if not self.is_open:
            self.since = self.now()
            self.openings += 1
            self._is_certain = is_certain
            for request in self._failed:  # one of them may have crashed the server
                self._suspect(request).times += 1
            self.room.clear()
            self._probing = asyncio.create_task(self._probe(), name=f"probes of {self.model}")
        self._changed(self)

    def suspect(self, request: str) -> bool:
        """Note that the server accepted a probe and failed on it, and might not fail on other requests.

        True if the failure is the request's own: it says nothing about the server, and the circuit closes.
        """
        self._suspect(request).times += 1
        blamed = self._blames(request)
        if blamed and self.is_open:
            self._recover()
        return blamed

    def succeeded(self, request: str, *, began: float, probe: bool) -> None:
        """Count an answer to a call that `began` at that time.

        The answer to a probe closes an open circuit. So does any other, if failures were counted until it
        opened, unless the call began before the last answer: the server may have been well then.
        """
        shows_well = probe or not (self._is_certain or began < self._last_answer)
        self._last_answer = self.now()
        self._well_at = max(self._well_at, self._last_answer if shows_well else began)
        self._failures = 0
        self._failed.clear()
        self._suspects.pop(request, None)
        if self.is_open and shows_well:
            self._recover()

    def close(self) -> None:
        """Close the circuit and let all waiting requests go on."""
        if self._probing is not None:
            self._probing.cancel()
        self._probing, self.why, self.since = None, "", 0.0
        self._failures = 0
        self._failed.clear()
        self._probes.clear()
        self._probe_is_due = self._is_certain = False
        self.room.set()
        for _, future in self._waiting:
            _wake(future)
        self._waiting.clear()

    def _recover(self) -> None:
        self.close()
        self._changed(self)

    def _suspect(self, request: str) -> _Suspect:
        if len(self._suspects) > MOST_SUSPECTS:
            self._suspects.clear()
        return self._suspects.setdefault(request, _Suspect(self.now()))

    def _suspicions(self, request: str) -> int:
        return self._suspects[request].times if request in self._suspects else 0

    def _rank(self, entry: tuple[str, asyncio.Future[None]]) -> tuple[bool, int]:
        """Sorts waiting requests: the least suspected first, and suspects whose failure is their own."""
        suspicions = self._suspicions(entry[0])
        return suspicions > 0 and not self._blames(entry[0]), suspicions

    def _blames(self, request: str) -> bool:
        """Whether the request has been failing for long, and the server was well since its first failure."""
        since = self._suspects[request].since if request in self._suspects else math.inf
        return since < min(self._well_at, self.now() - SUSPECT_SECONDS)

    async def _probe(self) -> None:
        for n in count():
            await self._sleep(self._uniform(SHORTEST_PAUSE, min(LONGEST_PAUSE, 2.0 ** min(n, 10))))
            self._choose_probe()
            while self._probe_is_due:
                if await self._somebody_comes(GIVES_WAY if self._waiting else LONGEST_PAUSE):
                    continue
                if self._waiting:
                    self._choose_probe(among_suspects=True)
                elif self._is_well is not None and await self._is_well():
                    self._probing = None  # this very task, which ends
                    self._recover()
                    return

    def _choose_probe(self, *, among_suspects: bool = False) -> None:
        """Make the least suspected of the waiting requests the next probe, or else the first that arrives."""
        first = min(self._waiting, key=self._rank, default=None)
        if first and (among_suspects or not self._suspicions(first[0])):
            self._waiting.remove(first)
            self._take_probe(first[0])
            _wake(first[1])
        else:
            self._probe_is_due = True
            self.room.set()

    async def _somebody_comes(self, seconds: float) -> bool:
        """Whether a request comes within so many seconds."""
        self._arrival.clear()
        pause = asyncio.ensure_future(self._sleep(seconds))
        arrival = asyncio.ensure_future(self._arrival.wait())
        try:
            await asyncio.wait((pause, arrival), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            arrival.cancel()
        return self._arrival.is_set()

    def _take_probe(self, request: str) -> None:
        self._probe_is_due = False
        self.room.clear()
        self._arrival.set()
        self._probes.add(request)


@dataclass(slots=True)
class _Suspect:
    """`since` when a request fails, and how many `times` it may have caused an outage."""

    since: float
    times: int = 0


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
