"""A model that is away is waited for: a circuit for each server, model and key."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import count

from trustgraph_prompt.errors import (
    BrokerError,
    CallTimeout,
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderModelAway,
    ProviderModelNotLoaded,
    ProviderUnavailable,
)
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.llm.provider import Provider, ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.retry import Sleep

#: Seconds between two probes: at least, and the upper bound of the longest pause.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

#: Failures without a success between them that open a circuit, and of how many requests they must be: one
#: request that fails each time says nothing about the server.
FAILURES, REQUESTS = 5, 3

#: How often a request may have been suspect before its failures count as its own.
SUSPICIONS = 10

#: The part of its time that a call may be silent before that counts as a failure of the server's.
PATIENCE = 0.95

#: Suspects that are remembered.
MOST_SUSPECTS = 10_000

#: The id of the request that is being asked for, which stays the same over its retries.
REQUEST: ContextVar[str] = ContextVar("request", default="")

Ready = Callable[[str | None], Awaitable[None]]
IsWell = Callable[[], Awaitable[bool]]


class ProviderAway(ProviderUnavailable):
    """The provider is away, which says nothing about the request. It is asked again when the circuit closes.

    `suspect`: the request was the probe, and the server refused it or failed on it. Should all that wait be
    requests of which the server fails, another must be the next probe. `own`: it has been suspect too often,
    and its failure counts as its own. `retry_after` is the pause for a request that is put off.
    """

    category = ProviderModelAway.category  # whoever asks over topics is told so
    transient = False

    def __init__(
        self, circuit: Circuit, *, suspect: bool = False, own: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(f"the model is away: {circuit.why}", retry_after=retry_after, loggable=circuit.why)
        self.circuit = circuit
        self.suspect = suspect
        self.own = own


class Circuit:
    """Whether one model of one server can be asked with one key.

    While it is open, a request may try after each pause, also while an earlier probe still waits for its
    answer: each time the one that has waited longest. Pauses grow to a minute. Where nobody comes for that
    long, the server itself is asked whether it is well. `why` and `since` (seconds since the epoch) say what
    is the matter; both are empty while it is closed. `room` is set while new requests are welcome: while the
    circuit is closed, or a probe is due and nobody waits to be it.
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
        self._probes: set[str] = set()  # chosen, and not asked yet
        self._due = False
        self._taken = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the model is away."""
        return self._probing is not None

    def admits(self, request: str) -> bool:
        """Whether a call for the request may be made now."""
        if self.is_open and request not in self._probes:
            if not self._due:
                return False
            self._take(request)
        self._probes.discard(request)
        return True

    async def turn(self, request: str, seconds: float | None = None) -> bool:
        """Wait until the request may be asked, with all others or as a probe; False if time is up before."""
        if not self.is_open:
            return True
        if self._due:
            self._take(request)
            return True
        place = request, asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        has_come = False
        try:
            async with asyncio.timeout(seconds):
                await place[1]
            has_come = True
        except TimeoutError:
            pass
        finally:
            if place in self._waiting:
                self._waiting.remove(place)
            elif not has_come and request in self._probes:
                self._probes.remove(request)
                self._choose()
        return has_come

    def failed(self, request: str, error: ProviderError, is_well: IsWell | None = None) -> None:
        """A call has failed in a way that says something only together with others."""
        if self.is_open:
            return
        self._failures += 1
        self._failed.add(request)
        if self._failures >= FAILURES and len(self._failed) >= REQUESTS:
            self.open(error, is_well)

    def open(self, error: ProviderError, is_well: IsWell | None = None) -> None:
        """The model is away, or still is, and this is why; `is_well` asks the server, where one can."""
        self._is_well = is_well
        self.why = f"{error.category}: {error.loggable}" if error.loggable else error.category
        if not self.is_open:
            self.since = self._clock()
            self.openings += 1
            for request in self._failed:  # one of them may be what the server died of
                self.suspect(request)
            self.room.clear()
            self._probing = asyncio.create_task(self._probe(), name=f"probes of {self.model}")
        self._changed(self)

    def suspect(self, request: str) -> None:
        """The server has taken the request and failed on it, and might not fail on others."""
        if len(self._suspects) > MOST_SUSPECTS:
            self._suspects.clear()
        self._suspects.setdefault(request, _Suspect(self._answers)).times += 1

    def blames(self, request: str) -> bool:
        """Whether the request was suspect too often, and another was answered since it first was."""
        suspect = self._suspects.get(request)
        return suspect is not None and suspect.times > SUSPICIONS and suspect.answers < self._answers

    def succeeded(self, request: str, *, probe: bool) -> None:
        """The server has answered. While the circuit is open only the answer to a probe counts."""
        self._failures = 0
        self._failed.clear()
        self._suspects.pop(request, None)
        self._answers += 1
        if probe and self.is_open:
            self.close()
            self._changed(self)

    def close(self) -> None:
        """Let all who wait go on."""
        if self._probing is not None:
            self._probing.cancel()
        self._probing, self.why, self.since = None, "", 0.0
        self._probes.clear()
        self._due = False
        self.room.set()
        while self._waiting:
            _wake(self._waiting.popleft()[1])

    async def _probe(self) -> None:
        for n in count():
            await self._sleep(self._uniform(SHORTEST_PAUSE, min(LONGEST_PAUSE, 2.0 ** min(n, 10))))
            self._choose()
            while self._due:
                if await self._nobody_comes() and self._is_well is not None and await self._is_well():
                    self._probing = None  # this very task, which ends
                    self.close()
                    self._changed(self)
                    return

    def _choose(self) -> None:
        """The next probe is who has waited longest, or else whoever comes first."""
        if self._waiting:
            request, place = self._waiting.popleft()
            self._probes.add(request)
            _wake(place)
        else:
            self._taken.clear()
            self._due = True
            self.room.set()

    async def _nobody_comes(self) -> bool:
        """Whether the probe is still due after the longest pause."""
        pause = asyncio.ensure_future(self._sleep(LONGEST_PAUSE))
        taken = asyncio.ensure_future(self._taken.wait())
        try:
            await asyncio.wait((pause, taken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            taken.cancel()
        return self._due

    def _take(self, request: str) -> None:
        self._due = False
        self.room.clear()
        self._taken.set()
        self._probes.add(request)


@dataclass(slots=True)
class _Suspect:
    """How many `answers` there had been when a request became suspect, and how many times it was since."""

    answers: int
    times: int = 0


class Breaker(ProviderWrapper):
    """Makes no call while the circuit of the model is open, but for probes, and says when it opens.

    `circuit_of` gives the circuit of the model that a call names, None where such calls are not waited for.
    `ready` tells whether the server has the model that a call names (None: the provider's own), where the
    provider can tell. `holds(model)`: whether the requests for the model are all that there are to ask, so
    that they can wait; others must not take the place of requests for another model. `seconds` are those
    that a request may be worked on: a server that is silent for as long has failed.
    """

    def __init__(
        self,
        provider: Provider,
        circuit_of: Callable[[str | None], Circuit | None],
        *,
        ready: Ready | None = None,
        holds: Callable[[str | None], bool] = lambda model: True,
        seconds: float | None = None,
    ) -> None:
        super().__init__(provider)
        self._circuit_of = circuit_of
        self._ready = ready
        self._holds = holds
        self._deadline = None if seconds is None else seconds * PATIENCE

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer of the provider within. Raises `ProviderAway`, also for what the provider failed of."""
        model, request = call.config.model, REQUEST.get()
        circuit = self._circuit_of(model)
        if circuit is None:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    yield delta
            return
        if not circuit.admits(request):
            raise self._away(circuit, model)
        is_probe, openings, heard = circuit.is_open, circuit.openings, False

        def answered() -> None:
            circuit.succeeded(request, probe=is_probe and openings == circuit.openings)

        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                first = await self._first(deltas)
                heard = True
                answered()
                if first is not None:
                    yield first
                async for delta in deltas:
                    yield delta
        except ProviderError as error:
            if heard:
                raise
            over_topics = self.identity.system == "topic"
            if not _may_be_away(error, over_topics=over_topics):
                if is_probe and not _is_of_this_process(error):
                    answered()
                raise
            await self._judge(circuit, model, request, error, openings)
            if openings == circuit.openings and not circuit.is_open:
                raise
            suspect = is_probe and circuit.is_open and not _cannot_connect(error)
            if suspect and await self._is_alone(model, error):
                circuit.suspect(request)
            own = circuit.blames(request)
            raise self._away(circuit, model, suspect=suspect, own=own) from error.__cause__

    async def _first(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        """The beginning of the answer, None where it is empty. Raises `ProviderUnavailable` for silence."""
        try:
            async with asyncio.timeout(self._deadline) as limit:
                return await anext(deltas, None)
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"no answer began within {self._deadline:.0f} seconds"
        raise ProviderUnavailable(said, loggable=said) from CallTimeout(said)

    async def _judge(
        self, circuit: Circuit, model: str | None, request: str, error: ProviderError, openings: int
    ) -> None:
        is_well = None if self._ready is None else partial(self._is_well, model)
        if circuit.is_open:
            circuit.open(error, is_well)
        elif openings == circuit.openings:
            tells = isinstance(error, ProviderAuthentication | ProviderInvalidModel) or _cannot_connect(error)
            if not tells or (self._ready is None and error.transient):
                circuit.failed(request, error, is_well)
            else:
                async with circuit.confirming:
                    if not circuit.is_open and _are_the_same(await self._trouble(model), error):
                        circuit.open(error, is_well)

    async def _is_alone(self, model: str | None, error: ProviderError) -> bool:
        """Whether the server fails on the request and is well, or has gone away while it worked on it.

        Of a server that cannot be asked whether it is well, nobody knows.
        """
        if self._ready is None:
            return False
        trouble = await self._trouble(model)
        return not _are_the_same(trouble, error) or (trouble is not None and _cannot_connect(trouble))

    async def _is_well(self, model: str | None) -> bool:
        try:
            return await self._trouble(model) is None
        except Exception:  # such as that its flow has ended, and the provider is closed
            return False

    async def _trouble(self, model: str | None) -> ProviderError | None:
        """What the server says without any request."""
        try:
            if self._ready is not None:
                await self._ready(model)
        except ProviderError as trouble:
            return trouble
        return None

    def _away(
        self, circuit: Circuit, model: str | None, *, suspect: bool = False, own: bool = False
    ) -> ProviderAway:
        holds = self._holds(model)
        wait = None if holds else LONGEST_PAUSE
        return ProviderAway(circuit, suspect=suspect or not holds, own=own, retry_after=wait)


def _may_be_away(error: ProviderError, *, over_topics: bool) -> bool:
    """Whether the failure may be one of the server's, and not of the request or of this process.

    A worker that is asked over topics and answers with an error is there, unless its own model is away.
    """
    if out_of_descriptors(error):
        return False
    if over_topics:
        return isinstance(error, ProviderModelAway) or isinstance(error.__cause__, CallTimeout)
    away = ProviderUnavailable | ProviderAuthentication | ProviderInvalidModel | ProviderModelNotLoaded
    return isinstance(error, away)


def _is_of_this_process(error: ProviderError) -> bool:
    """Whether the server was not even asked, for want of a broker or a file descriptor."""
    return out_of_descriptors(error) or isinstance(error.__cause__, BrokerError)


def _cannot_connect(error: ProviderError) -> bool:
    return isinstance(error.__cause__, OSError)


def _are_the_same(trouble: ProviderError | None, error: ProviderError) -> bool:
    return isinstance(trouble, (type(error), ProviderUnavailable))


def _wake(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)
