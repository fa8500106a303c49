"""Adapts the rate of calls to the rate at which a server answers."""

from __future__ import annotations

import math

#: A round ends with so many results, or so many refusals, or so many answers without a refusal; fewer may be
#: chance. It lasts a second at least.
_RESULTS, _REFUSALS, _ANSWERS = 50, 5, 20
_SECONDS = 1.0

#: The share of refusals, beyond the tolerated share, that slows calls down.
_NOTICED = 0.05

#: The factor by which the tolerated share decays in a round, so that it is tested again after a few.
_DECAY = 0.9

_SLOWER, _FASTER = 0.9, 1.05

#: The growth until the server refuses again, after the first rate, which may be far too slow.
_MUCH_FASTER = 2.0

#: How far the next call may catch up after a late one, as a part of the interval between two.
_SLACK = 0.25


class AdaptiveRate:
    """Limits calls per second once a server has refused more than a few.

    The rate rises slowly and falls quickly, as in TCP's congestion control (AIMD), and each fall is an
    experiment. Results are counted in rounds. After a round with too many refusals, the rate is set to nine
    tenths of the rate at which the server has answered. If the next round has less than half the share of
    refusals, the server was at its limit: the rate is kept, and rises by a twentieth with each round. If not,
    the server refuses for other reasons, and fewer calls only mean fewer answers: the old rate is restored,
    and that share is tolerated for some rounds.

    So the limit of a server is exceeded by about a twentieth before the rate falls again, and a server that
    refuses at random costs one slower round in several.

    A round begins with the first answer to a call that was made at the new rate: refusals arrive sooner than
    answers, and would otherwise be counted without them.
    """

    def __init__(self) -> None:
        #: How often the rate has changed.
        self.changes = 0
        self._rate = math.inf
        self._next = -math.inf
        self._faster = _FASTER
        self._held_up = False  # whether a call has waited for the rate in this round
        self._has_refused = False
        self._tolerated = 0.0
        self._trial: tuple[float, float] | None = None  # the rate before the fall, and the share refused
        self._began = math.inf
        self._answered = self._refused = 0

    def until_next(self, now: float) -> float:
        """Seconds until another call may be made."""
        if now >= self._next:
            return 0.0
        self._held_up = True
        return self._next - now

    def take(self, now: float) -> None:
        """Note that a call is made."""
        if self._rate < math.inf:
            self._next = max(self._next, now - _SLACK / self._rate) + 1 / self._rate

    def answered(self, changes: int, now: float) -> None:
        """Count an answer to a call that was made after so many changes."""
        if self._began < math.inf:
            self._answered += 1
            self._end_round(now)
        elif self._has_refused and changes == self.changes:
            self._began = now

    def refused(self, now: float) -> None:
        """Count a refusal."""
        self._has_refused = True
        if self._began < math.inf:
            self._refused += 1
            self._end_round(now)

    def _end_round(self, now: float) -> None:
        """Change the rate, once the round has enough results."""
        seconds, results = now - self._began, self._answered + self._refused
        enough = results >= (_RESULTS if self._refused else _ANSWERS) or self._refused >= _REFUSALS
        if enough and seconds >= _SECONDS:
            self._change(self._refused / results, seconds)
            self.begin_again()

    def begin_again(self) -> None:
        """Begin another round: this one is over, or no calls were made for a part of it."""
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
        self._tolerated = self._tolerated * _DECAY if trial is None else share
        if share > self._tolerated + _NOTICED:
            self._trial = self._rate, share
            self._faster = _MUCH_FASTER if self._rate == math.inf else _FASTER
            self._rate = _SLOWER * max(1, self._answered) / seconds
        elif self._held_up:
            if self._refused:
                self._faster = _FASTER
            self._rate *= self._faster
