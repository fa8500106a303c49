"""How fast one server is called: as fast as it answers."""

from __future__ import annotations

import math

#: When a round ends: with so many verdicts, or so many refusals, or so many answers and no refusal. Fewer are
#: chance. It lasts a second at least.
_VERDICTS, _REFUSALS, _ANSWERS = 50, 5, 20
_SECONDS = 1.0

#: The share of refusals that slows calls down, beyond the share that is tolerated.
_NOTICED = 0.05

#: What is left of the tolerated share after a round, so that it is put to the test again after a few.
_REMEMBERED = 0.9

_SLOWER, _FASTER = 0.9, 1.05

#: Until the server refuses again, after the first pace, which may be far too slow.
_MUCH_FASTER = 2.0

#: How far the next call may catch up, where one was made late, as a part of the time between two.
_SLACK = 0.25


class AdaptiveRate:
    """Calls in a second: unlimited, until the server refuses more than a few.

    The pace rises slowly and falls quickly, as in TCP's congestion control (AIMD), and each fall is an
    experiment. Verdicts are counted in rounds. After a round with too many refusals calls are made at nine
    tenths of the pace at which the server has answered. If the next round has less than half the share of
    refusals, the server was at its limit: the pace stays, and rises by a twentieth with each round. If not,
    the server refuses for other reasons, and fewer calls only mean fewer answers: the pace is again what it
    was, and that share is tolerated for some rounds.

    So a server with a limit is passed by about a twentieth before the pace falls again, and one that refuses
    at random costs one slower round in several.

    A round begins with the first answer to a call that was made at the new pace: refusals come sooner than
    answers, and would be counted without them.
    """

    def __init__(self) -> None:
        #: How often the pace has changed.
        self.changes = 0
        self._rate = math.inf
        self._next = -math.inf
        self._faster = _FASTER
        self._held_up = False  # whether some call waited for the pace in this round
        self._has_refused = False
        self._tolerated = 0.0
        self._trial: tuple[float, float] | None = None  # the pace before the fall, and the share refused
        self._began = math.inf
        self._answered = self._refused = 0

    def until_next(self, now: float) -> float:
        """Seconds until another call may be made."""
        if now >= self._next:
            return 0.0
        self._held_up = True
        return self._next - now

    def take(self, now: float) -> None:
        """A call is made."""
        if self._rate < math.inf:
            self._next = max(self._next, now - _SLACK / self._rate) + 1 / self._rate

    def answered(self, changes: int, now: float) -> None:
        """The server has answered a call that was made after so many changes."""
        if self._began < math.inf:
            self._answered += 1
            self._end_round(now)
        elif self._has_refused and changes == self.changes:
            self._began = now

    def refused(self, now: float) -> None:
        """The server has refused a call."""
        self._has_refused = True
        if self._began < math.inf:
            self._refused += 1
            self._end_round(now)

    def _end_round(self, now: float) -> None:
        """Change the pace, once the verdicts of the round say enough."""
        seconds, verdicts = now - self._began, self._answered + self._refused
        enough = verdicts >= (_VERDICTS if self._refused else _ANSWERS) or self._refused >= _REFUSALS
        if enough and seconds >= _SECONDS:
            self._change(self._refused / verdicts, seconds)
            self.begin_again()

    def begin_again(self) -> None:
        """Begin another round: this one is over, or for some of its time nobody called."""
        self._began, self._has_refused = math.inf, self._rate < math.inf
        self._answered = self._refused = 0
        self._held_up = False

    def _change(self, share: float, seconds: float) -> None:
        trial, self._trial = self._trial, None
        self.changes += 1
        if trial is not None and share > trial[1] / 2:
            self._rate, self._tolerated = trial[0], share
            self._next = -math.inf
            return
        self._tolerated = self._tolerated * _REMEMBERED if trial is None else share
        if share > self._tolerated + _NOTICED:
            self._trial = self._rate, share
            self._faster = _MUCH_FASTER if self._rate == math.inf else _FASTER
            self._rate = _SLOWER * max(1, self._answered) / seconds
        elif self._held_up:
            if self._refused:
                self._faster = _FASTER
            self._rate *= self._faster
