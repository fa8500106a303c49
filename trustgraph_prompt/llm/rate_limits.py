"""What all calls of a process share: how many may be in flight, and how much may be asked in a minute."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trustgraph_prompt.errors import ProviderPaused
from trustgraph_prompt.llm.adaptive_rate import AdaptiveRate
from trustgraph_prompt.llm.retry import LONGEST_BELIEVED, LONGEST_WAIT, Sleep

MINUTE = 60.0

#: Seconds of a pause whose length the server does not say; each further one in a row is twice as long.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = MINUTE

#: Seconds of a pause that say nothing about the pace at which the server answers otherwise.
_LONG_PAUSE = 5.0

#: What a verdict weighs in the share of refusals by which a server is judged: of the last ten or so.
_WEIGHT = 0.1


class Limits:
    """Lets calls in; None is no limit.

    At most `in_flight` calls at a time, and in any 60 seconds at most `requests_per_minute` that start and
    `tokens_per_minute` that they take: what a call is expected to take when it starts, what it took once
    that is known. A call that alone takes more goes when nothing else has been taken for a minute.

    Calls to one server go in the order in which they came; servers that calls wait for take turns. Who has
    the turn is not overtaken, however much it needs.

    A server that refuses some calls for its rate is called at the pace at which it answers. One that refuses
    most is not called for as long as it says, or else for a pause that grows until a call is answered; calls
    that had been let in before add nothing to that. Calls to other servers go on.

    `clock` and `sleep` are in seconds. All calls are of one event loop. Raises `ValueError` for a limit that
    lets nothing through.
    """

    def __init__(
        self,
        in_flight: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        #: Calls that have been let in and have not left, and calls that wait to be let in.
        self.in_flight = self.waiting = 0
        #: Told of each pause when it begins: the server that wants it, and its seconds.
        self.on_pause: Callable[[str, float], None] = lambda server, seconds: None
        self._slots = _limit(in_flight)
        self._requests = _Window(_limit(requests_per_minute))
        self._tokens = _Window(_limit(tokens_per_minute))
        self._gates: dict[str, _Gate] = {}
        self._clock = clock
        self._sleep = sleep
        self._turns: deque[_Gate] = deque()  # those that calls wait for; the first has the turn
        self._waking: set[_Waiter] = set()  # let in, and have not noticed yet
        self._alarm: asyncio.Task[None] | None = None
        self._rings = math.inf

    @property
    def counts_tokens(self) -> bool:
        """Whether it matters how many tokens a call takes."""
        return self._tokens.limit < math.inf

    @property
    def pause(self) -> float:
        """Seconds for which some server is not called, because it said so: the longest of all."""
        now = self._clock()
        return max((gate.pause(now) for gate in self._gates.values()), default=0.0)

    async def enter(self, tokens: int = 0, *, server: str = "") -> Admission:
        """A place for a call that is expected to take so many tokens of a server, as soon as there is one.

        Raises `ProviderPaused` where the server wants to be left alone for longer than `LONGEST_WAIT`.
        """
        gate = self._gates.get(server) or self._gates.setdefault(server, _Gate(server))
        now = self._clock()
        if not (self._turns or self._waking or gate.until_open(now) or self._until_free(tokens, now)):
            if not gate.pending:
                gate.pace.begin_again()
            return self._place(gate, tokens, now)
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        if not gate.line:
            self._turns.append(gate)
        gate.line.append(waiter)
        self.waiting += 1
        self._let_in()
        try:
            if waiter.place.done():
                await asyncio.sleep(0)  # who was let in a moment ago has yet to wake up, and begins before
            return await waiter.place
        except asyncio.CancelledError:
            self._withdraw(gate, waiter)
            raise
        finally:
            self._waking.discard(waiter)

    def answered(self, place: Admission) -> None:
        """The server has begun to answer the call: it is willing."""
        place.gate.answered(place, self._clock())
        if place.gate.closings:  # it may have opened, or become wider
            self._let_in()

    def refused(self, place: Admission, retry_after: float | None) -> None:
        """The server has refused the call for its rate, and wants to be left alone for so many seconds."""
        if seconds := place.gate.refused(place, retry_after, self._clock()):
            self.on_pause(place.gate.server, seconds)
        self._let_in()

    def leave(self, place: Admission, tokens: int = 0) -> None:
        """The call has ended, and took so many tokens."""
        self._leave(place, tokens)

    def give_back(self, place: Admission) -> None:
        """No call was made, or none that counts."""
        self._requests.correct(place.request, 0, self._clock())
        self._leave(place, 0)

    def _leave(self, place: Admission, tokens: int) -> None:
        self.in_flight -= 1
        place.gate.settle(place)
        self._tokens.correct(place.taken, tokens, self._clock())
        self._let_in()

    def _let_in(self) -> None:
        """Let in whoever may be, now and not one after the other as each wakes up."""
        now = self._clock()
        while (gate := self._whose_turn(now)) is not None:
            first = gate.line[0]
            if first.place.cancelled():
                self._dismiss(gate, first)
                continue
            if (seconds := self._until_free(first.tokens, now)) > 0:
                break
            self._dismiss(gate, first)
            self._waking.add(first)
            first.place.set_result(self._place(gate, first.tokens, now))
        else:
            seconds = math.inf
        opens = (gate.until_open(now) for gate in self._turns)
        self._look_again(min((seconds, *(wait for wait in opens if wait > 0))), now)

    def _place(self, gate: _Gate, tokens: int, now: float) -> Admission:
        self.in_flight += 1
        request = self._requests.take(1, now)
        gate.enter(now)
        return Admission(request, self._tokens.take(tokens, now), gate, gate.closings, gate.pace.changes)

    def _whose_turn(self, now: float) -> _Gate | None:
        """The first gate that is open; whoever waits for one that stays closed too long is sent away."""
        for gate in list(self._turns):
            if (pause := gate.pause(now)) > LONGEST_WAIT:
                self._send_away(gate, pause)
            elif gate.until_open(now) <= 0:
                return gate
        return None

    def _send_away(self, gate: _Gate, pause: float) -> None:
        for waiter in list(gate.line):
            self._dismiss(gate, waiter)
            if not waiter.place.cancelled():
                waiter.place.set_exception(
                    ProviderPaused(
                        f"no calls for {pause:.0f} seconds, as the provider has asked for", retry_after=pause
                    )
                )

    def _dismiss(self, gate: _Gate, waiter: _Waiter) -> None:
        """Out of the line; was it the first, then the next turn is another's."""
        if waiter is gate.line[0]:
            self._turns.remove(gate)
            if len(gate.line) > 1:
                self._turns.append(gate)
        gate.line.remove(waiter)
        self.waiting -= 1

    def _withdraw(self, gate: _Gate, waiter: _Waiter) -> None:
        """Whoever waited has been cancelled, perhaps while it was let in: then it took nothing."""
        if waiter in gate.line:
            self._dismiss(gate, waiter)
            self._let_in()
        elif not waiter.place.cancelled() and waiter.place.exception() is None:
            self.leave(waiter.place.result())

    def _until_free(self, tokens: int, now: float) -> float:
        """Seconds until there is a place, as far as that is known; infinite until another call leaves."""
        if self.in_flight >= self._slots:
            return math.inf
        return max(self._requests.until_free(1, now), self._tokens.until_free(tokens, now))

    def _look_again(self, seconds: float, now: float) -> None:
        """See that calls that wait for the time are let in when it has come."""
        if self._alarm is not None and (not self._turns or now + seconds < self._rings):
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None and seconds < math.inf:
            self._rings = now + seconds
            self._alarm = asyncio.create_task(self._ring(seconds), name="limits")

    async def _ring(self, seconds: float) -> None:
        await self._sleep(seconds)
        self._alarm = None
        self._let_in()


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call that is expected to take so many tokens, and the place it will have."""

    tokens: int
    place: asyncio.Future[Admission]


@dataclass(slots=True)
class Taken:
    """So much, taken at that time."""

    time: float
    amount: int


@dataclass(eq=False, slots=True)
class Admission:
    """What a call has been given: a request, tokens, and a way through a gate.

    `closings` and `changes`: of the gate and of its pace, so far. `pending`: the server has neither begun to
    answer nor refused.
    """

    request: Taken
    taken: Taken
    gate: _Gate
    closings: int
    changes: int
    pending: bool = True


class _Window:
    """How much has been taken in the last minute, of what may be."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._taken: deque[Taken] = deque()
        self._sum = 0

    def until_free(self, amount: int, now: float) -> float:
        """Seconds until something comes back, if that is needed for `amount`."""
        self._forget(now)
        if self._sum + min(amount, self.limit) <= self.limit:
            return 0.0
        return self._taken[0].time + MINUTE - now

    def take(self, amount: int, now: float) -> Taken:
        """Take so much, whether it is there or not."""
        taken = Taken(now, amount)
        if amount and self.limit < math.inf:
            self._taken.append(taken)
            self._sum += amount
        return taken

    def correct(self, taken: Taken, amount: int, now: float) -> None:
        """It was another amount: what is less was never taken, what is more is taken now."""
        self._forget(now)
        if amount > taken.amount:
            self.take(amount - taken.amount, now)
        elif self._taken and self._taken[0].time <= taken.time:  # else it is forgotten already
            self._sum += amount - taken.amount
            taken.amount = amount

    def _forget(self, now: float) -> None:
        while self._taken and (now - self._taken[0].time >= MINUTE or not self._taken[0].amount):
            self._sum -= self._taken.popleft().amount


class _Gate:
    """The way to one server: closed while it wants to be left alone, and no wider than it answers.

    It closes when most of the latest calls were refused: a server that answers most of them refuses for
    reasons that a pause does not mend, and is called at an `AdaptiveRate`. It opens for one call that has no
    verdict yet, and for one more with each answer, and with each second, since an answer may take minutes to
    begin.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.line: deque[_Waiter] = deque()
        self.closings = self.pending = 0
        self.pace = AdaptiveRate()
        self._width = math.inf
        self._share_refused = 0.5  # nothing is known of a new one: its first refusal decides
        self._closed = self._opens = -math.inf
        self._next_pause = _FIRST_PAUSE

    def pause(self, now: float) -> float:
        """Seconds that the server is left alone; 0 where it is not."""
        return max(0.0, self._opens - now) if self._share_refused >= 0.5 else 0.0

    def until_open(self, now: float) -> float:
        """Seconds until another call may go through, unless the server says something before."""
        too_narrow = self.pending + 1 - self._width - max(0.0, now - self._opens)
        return max(self.pause(now), self.pace.until_next(now), too_narrow)

    def enter(self, now: float) -> None:
        """A call goes through."""
        if self._share_refused >= 0.5 and self._opens - self._closed >= _LONG_PAUSE:
            self.pace.begin_again()
        self.pace.take(now)
        self.pending += 1

    def settle(self, place: Admission) -> None:
        """A call is no longer pending, if it was."""
        self.pending -= place.pending
        place.pending = False

    def answered(self, place: Admission, now: float) -> None:
        """The server has begun to answer a call."""
        self.settle(place)
        self._width += 1
        self._share_refused -= _WEIGHT * self._share_refused
        self.pace.answered(place.changes, now)
        self._next_pause = _FIRST_PAUSE

    def refused(self, place: Admission, retry_after: float | None, now: float) -> float | None:
        """A call has been refused; for how many seconds the gate is closed for that, if it is.

        A call that went through before the last closing only counts where its own wait is longer.
        """
        self.settle(place)
        self.pace.refused(now)
        asked = max(0.0, min(retry_after or 0.0, LONGEST_BELIEVED))
        if place.closings < self.closings:
            self._opens = max(self._opens, self._closed + asked)
            return None
        self._share_refused += _WEIGHT * (1.0 - self._share_refused)
        if self._share_refused <= 0.5:
            return None
        seconds = asked or self._next_pause
        self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE)
        self._share_refused = 0.5
        self._width = 1
        self.closings += 1
        self._closed, self._opens = now, now + seconds
        return seconds


def _limit(value: int | None) -> float:
    if value is not None and value < 1:
        raise ValueError(f"a limit of {value} lets nothing through")
    return math.inf if value is None else value
