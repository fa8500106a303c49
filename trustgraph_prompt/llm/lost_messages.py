"""Judges from recent answers when a message must have been lost, as non-persistent topics lose some."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from math import inf

#: Recent answers that are remembered, and how many of them make the experience to judge from.
ANSWERS, EXPERIENCE = 1000, 20

#: How many times the 99th percentile of the recent answers a request waits, and how many seconds at least.
FACTOR, LEAST = 1.5, 5.0

#: The part of a minute's requests that is sent again early; one may always be.
SHARE = 0.02

MINUTE = 60.0


class LostMessages:
    """Decides when a request that has no response is sent again.

    That is early after `patience`, within a share of the requests of the last minute. It is never early while
    the model is away, or within a minute after a rate limit. What may not be early happens after `latest`
    seconds. `least` is the shortest patience in seconds; `inf` is for topics that lose nothing.
    docs/decisions/0054 has the reasons.
    """

    def __init__(
        self,
        *,
        latest: float = inf,
        least: float = LEAST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = clock
        self._latest = latest
        self._least = least
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []
        self._sent = 0
        self._seconds: deque[tuple[int, int]] = deque()  # those of the last minute: requests sent before each
        self._resent: deque[float] = deque()
        self._rate_limited = -inf
        self._newest_answered = -inf

    @property
    def patience(self) -> float:
        """Seconds without a response after which a message counts as lost."""
        return min(self._latest, self._early_patience)

    @property
    def _early_patience(self) -> float:
        answers = len(self._ordered)
        if answers < EXPERIENCE:
            return inf
        return max(self._least, FACTOR * self._ordered[(99 * answers - 1) // 100])

    def sent(self) -> None:
        """Note that a request was sent for the first time."""
        second = int(self.now())
        if not self._seconds or self._seconds[-1][0] != second:
            self._forget()
            self._seconds.append((second, self._sent))
        self._sent += 1

    def answered(self, sent: float) -> None:
        """Note that the whole answer to a first sending came, which was sent at this time."""
        self._newest_answered = max(self._newest_answered, sent)
        seconds = self.now() - sent
        self._recent.append(seconds)
        insort(self._ordered, seconds)
        if len(self._recent) > ANSWERS:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]

    def rate_limited(self) -> None:
        """Note that a request was rejected because of a rate limit."""
        self._rate_limited = self.now()

    def wait(self, silent: float, is_away: Callable[[], bool]) -> float:
        """Seconds to go on waiting after so many without a response; 0 if the request is sent again now."""
        left = self._latest - silent
        if left <= 0:
            return 0.0
        early = (self._least if silent < self._least else self._early_patience) - silent
        if 0 < early < inf:
            return min(left, early)
        # other requests may bring the experience, and time the permission
        return 0.0 if early <= 0 and self._may_be_early(silent, is_away) else min(left, self._least)

    def _may_be_early(self, silent: float, is_away: Callable[[], bool]) -> bool:
        """Whether one more request may be sent again early; counts it if so."""
        now = self.now()
        if now < self._rate_limited + MINUTE or is_away():
            return False
        self._forget()
        requests = self._sent - self._seconds[0][1] if self._seconds else 0
        # if no newer request was answered either, the model may be slow as a whole
        share = SHARE if now - silent <= self._newest_answered else 0
        if len(self._resent) >= max(1, int(share * requests)):
            return False
        self._resent.append(now)
        return True

    def _forget(self) -> None:
        """Forget what happened more than a minute ago."""
        since = self.now() - MINUTE
        while self._seconds and self._seconds[0][0] <= since:
            self._seconds.popleft()
        while self._resent and self._resent[0] <= since:
            self._resent.popleft()
