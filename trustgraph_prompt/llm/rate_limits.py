"""Limits shared by all calls of a process: calls in flight, requests and tokens per minute, server pauses."""

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

#: Seconds of a pause where the server does not say how long; doubles with each further one in a row.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = MINUTE

#: Seconds of a pause after which the round of the adaptive rate begins again, as no calls were made.
_LONG_PAUSE = 5.0

#: The weight of one result in the moving share of refusals, which covers the last ten or so.
_WEIGHT = 0.1


class Limits:
    """Admits calls within limits; None is no limit.

    At most `in_flight` calls run at a time, and in any 60 seconds at most `requests_per_minute` start and
    `tokens_per_minute` are taken: the expected tokens of a call when it starts, the actual ones once they are
    known. A call that alone exceeds the limit is admitted when nothing was taken for a minute.

    Calls to one server are admitted in the order in which they came; servers with waiting calls take turns.
    The call whose turn it is is not overtaken, however many tokens it needs.

    A server that refuses some calls for its rate is called at the rate at which it answers. One that refuses
    most is not called for as long as it says, or else for a pause that doubles until a call is answered;
    calls that were admitted before do not prolong it. Calls to other servers continue.

    `clock` and `sleep` are in seconds. All calls must be of one event loop. Raises `ValueError` for a limit
    below 1.
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
        #: Calls that were admitted and have not ended, and calls that wait.
        self.in_flight = self.waiting = 0
        #: The limits by their names.
        self.set = {
            "in_flight": in_flight,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }
        #: Whether tokens are limited.
        self.counts_tokens = tokens_per_minute is not None
        self._slots = _limit(in_flight)
        self._by_the_minute = (requests_per_minute, tokens_per_minute) != (None, None)
        self._requests = _Window(_limit(requests_per_minute))
        self._tokens = _Window(_limit(tokens_per_minute))
        self._gates: dict[str, _Gate] = {}
        self._clock = clock
        self._sleep = sleep
        self._turns: deque[_Gate] = deque()  # gates with waiting calls; it is the first one's turn
        self._waking: set[_Waiter] = set()  # admitted, and not resumed yet
        self._timer: asyncio.Task[None] | None = None
        self._timer_ends = math.inf

    @property
    def pauses(self) -> dict[str, float]:
        """Seconds left of the pause of each server that asked for one."""
        now = self._clock()
        return {server: pause for server, gate in self._gates.items() if (pause := gate.pause(now))}

    @property
    def pause(self) -> float:
        """Seconds left of the longest pause of any server."""
        return max(self.pauses.values(), default=0.0)

    async def enter(self, tokens: int = 0, *, server: str = "") -> Admission:
        """Wait until a call that is expected to take so many tokens is admitted.

        Raises `ProviderPaused` where the server asks for a pause of more than `LONGEST_WAIT` seconds.
        """
        gate = self._gates.get(server) or self._gates.setdefault(server, _Gate(server))
        now = self._clock()
        if not (self._turns or self._waking or gate.until_open(now) or self._until_free(tokens, now)):
            if gate.has_refused and not gate.pending:
                gate.rate.begin_again()
            return self._admit(gate, tokens, now)
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        if not gate.line:
            self._turns.append(gate)
        gate.line.append(waiter)
        self.waiting += 1
        self._admit_waiting()
        try:
            if waiter.admission.done():
                await asyncio.sleep(0)  # calls that were admitted before this one resume first
            return await waiter.admission
        except asyncio.CancelledError:
            self._withdraw(gate, waiter)
            raise
        finally:
            self._waking.discard(waiter)

    def answered(self, admission: Admission) -> None:
        """Note that the server has begun to answer the call."""
        admission.gate.answered(admission, self._clock())
        if admission.gate.closings:  # it may have opened, or become wider
            self._admit_waiting()

    def refused(self, admission: Admission, retry_after: float | None) -> float | None:
        """Note that the server has refused the call for its rate; `retry_after` is in seconds.

        Returns the seconds of the pause that begins, if one does.
        """
        pause = admission.gate.refused(admission, retry_after, self._clock())
        self._admit_waiting()
        return pause

    def leave(self, admission: Admission, tokens: int = 0) -> None:
        """Note that the call has ended, and how many tokens it took."""
        self.in_flight -= 1
        if admission.pending:
            admission.gate.settle(admission)
        if self._by_the_minute:
            self._tokens.correct(admission.tokens, tokens, self._clock())
        if self._turns or self._timer is not None:  # else nothing waits, and no timer is to be stopped
            self._admit_waiting()

    def give_back(self, admission: Admission) -> None:
        """Note that no call was made, or none that counts."""
        if self._by_the_minute:
            self._requests.correct(admission.request, 0, self._clock())
        self.leave(admission)

    def _admit_waiting(self) -> None:
        """Admit all calls that may start now, instead of one after the other as each resumes."""
        now = self._clock()
        while (gate := self._next_gate(now)) is not None:
            first = gate.line[0]
            if first.admission.cancelled():
                self._dismiss(gate, first)
                continue
            if (seconds := self._until_free(first.tokens, now)) > 0:
                break
            self._dismiss(gate, first)
            self._waking.add(first)
            first.admission.set_result(self._admit(gate, first.tokens, now))
        else:
            seconds = math.inf
        opens = (gate.until_open(now) for gate in self._turns)
        self._set_timer(min((seconds, *(wait for wait in opens if wait > 0))), now)

    def _admit(self, gate: _Gate, tokens: int, now: float) -> Admission:
        self.in_flight += 1
        gate.enter(now)
        request = took = _NOTHING
        if self._by_the_minute:
            request, took = self._requests.take(1, now), self._tokens.take(tokens, now)
        return Admission(request, took, gate, gate.closings, gate.rate.changes)

    def _next_gate(self, now: float) -> _Gate | None:
        """The first gate that is open. Calls that wait for one that stays closed too long are rejected."""
        for gate in list(self._turns):
            if (pause := gate.pause(now)) > LONGEST_WAIT:
                self._reject_waiting(gate, pause)
            elif gate.until_open(now) <= 0:
                return gate
        return None

    def _reject_waiting(self, gate: _Gate, pause: float) -> None:
        for waiter in list(gate.line):
            self._dismiss(gate, waiter)
            if not waiter.admission.cancelled():
                waiter.admission.set_exception(
                    ProviderPaused(
                        f"the server asked for a pause of {pause:.0f} more seconds", retry_after=pause
                    )
                )

    def _dismiss(self, gate: _Gate, waiter: _Waiter) -> None:
        """Remove a call from its line; if it was the first, the turn passes to the next gate."""
        if waiter is gate.line[0]:
            self._turns.remove(gate)
            if len(gate.line) > 1:
                self._turns.append(gate)
        gate.line.remove(waiter)
        self.waiting -= 1

    def _withdraw(self, gate: _Gate, waiter: _Waiter) -> None:
        """Remove a call that was cancelled; one that was just admitted has taken nothing."""
        if waiter in gate.line:
            self._dismiss(gate, waiter)
            self._admit_waiting()
        elif not waiter.admission.cancelled() and waiter.admission.exception() is None:
            self.leave(waiter.admission.result())

    def _until_free(self, tokens: int, now: float) -> float:
        """Seconds until a call may start, as far as is known; infinite until another call ends."""
        if self.in_flight >= self._slots:
            return math.inf
        if not self._by_the_minute:
            return 0.0
        return max(self._requests.until_free(1, now), self._tokens.until_free(tokens, now))

    def _set_timer(self, seconds: float, now: float) -> None:
        """Admit waiting calls after so many seconds, or earlier if the timer already ends earlier."""
        if self._timer is not None and (not self._turns or now + seconds < self._timer_ends):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and seconds < math.inf:
            self._timer_ends = now + seconds
            self._timer = asyncio.create_task(self._admit_after(seconds), name="limits")

    async def _admit_after(self, seconds: float) -> None:
        await self._sleep(seconds)
        self._timer = None
        self._admit_waiting()


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call that waits, and the tokens it is expected to take."""

    tokens: int
    admission: asyncio.Future[Admission]


@dataclass(slots=True)
class WindowEntry:
    """An amount that was taken from a window at a time."""

    time: float
    amount: int


#: What a call takes where nothing is limited by the minute.
_NOTHING = WindowEntry(-math.inf, 0)


@dataclass(eq=False, slots=True)
class Admission:
    """What an admitted call has taken: a request and tokens, at a gate.

    `closings` and `changes` are the counters of the gate and of its rate at that time. `pending`: the server
    has neither begun to answer nor refused.
    """

    request: WindowEntry
    tokens: WindowEntry
    gate: _Gate
    closings: int
    changes: int
    pending: bool = True


class _Window:
    """A sliding window: how much was taken in the last minute, and may still be."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._taken: deque[WindowEntry] = deque()
        self._sum = 0

    def until_free(self, amount: int, now: float) -> float:
        """Seconds until `amount` may be available; 0 if it is."""
        self._forget(now)
        if self._sum + min(amount, self.limit) <= self.limit:
            return 0.0
        return self._taken[0].time + MINUTE - now

    def take(self, amount: int, now: float) -> WindowEntry:
        """Take an amount, even beyond the limit."""
        taken = WindowEntry(now, amount)
        if amount and self.limit < math.inf:
            self._taken.append(taken)
            self._sum += amount
        return taken

    def correct(self, taken: WindowEntry, amount: int, now: float) -> None:
        """Correct an amount that was taken: what is more is taken now, what is less was never taken."""
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
    """Admits calls to one server: none during a pause, and few at a time after it.

    A pause begins when most of the latest calls were refused: a server that answers most of them refuses for
    reasons that a pause does not cure, and is called at an `AdaptiveRate`. After a pause one call may be
    pending, and one more with each answer and with each second, since an answer may take minutes to begin.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.line: deque[_Waiter] = deque()
        self.closings = self.pending = 0
        #: Whether the server has ever refused a call. Until then every call is admitted, at any rate.
        self.has_refused = False
        self.rate = AdaptiveRate()
        self._width = math.inf
        self._share_refused = 0.5  # the first refusal of a new server closes the gate
        self._closed = self._opens = -math.inf
        self._next_pause = _FIRST_PAUSE

    def pause(self, now: float) -> float:
        """Seconds that are left of a pause, else 0."""
        return max(0.0, self._opens - now) if self._share_refused >= 0.5 else 0.0

    def until_open(self, now: float) -> float:
        """Seconds until another call may be admitted, unless an answer comes before."""
        if not self.has_refused:
            return 0.0
        too_narrow = self.pending + 1 - self._width - max(0.0, now - self._opens)
        return max(self.pause(now), self.rate.until_next(now), too_narrow)

    def enter(self, now: float) -> None:
        """Note that a call is admitted."""
        self.pending += 1
        if self.has_refused:
            if self._share_refused >= 0.5 and self._opens - self._closed >= _LONG_PAUSE:
                self.rate.begin_again()
            self.rate.take(now)

    def settle(self, admission: Admission) -> None:
        """Note that a call is no longer pending, if it was."""
        self.pending -= admission.pending
        admission.pending = False

    def answered(self, admission: Admission, now: float) -> None:
        """Note that the server has begun to answer a call."""
        self.settle(admission)
        self._share_refused -= _WEIGHT * self._share_refused
        if self.has_refused:
            self._width += 1
            self.rate.answered(admission.changes, now)
            self._next_pause = _FIRST_PAUSE

    def refused(self, admission: Admission, retry_after: float | None, now: float) -> float | None:
        """Note that a call was refused; return the seconds of the pause if one begins.

        The refusal of a call from before the last pause only counts if its `retry_after` is longer.
        """
        self.settle(admission)
        self.has_refused = True
        self.rate.refused(now)
        asked = max(0.0, min(retry_after or 0.0, LONGEST_BELIEVED))
        if admission.closings < self.closings:
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
        raise ValueError(f"a limit is {value}, expected at least 1")
    return math.inf if value is None else value
