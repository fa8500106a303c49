"""Messages that wait for their time, while somebody sets the clock by which they wait."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

#: Seconds by which a clock is put back at once; what is less is a correction, or a machine that was busy.
_LEAST_JUMP: Final = 1.0


class Delays:
    """Times are in the file, which outlives processes: they go by a clock that can be set."""

    def __init__(self, database: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._ahead = clock() - time.monotonic()

    def look_at_clock(self) -> None:
        """Put forward what waits, if the clock was put back.

        Whoever waits for a message looks in time: an event loop has a clock that cannot be set. Where the
        step fails, this is undone with it: a jump is over only when nothing is left to put forward.
        """
        ahead = self._clock() - time.monotonic()
        put_back = self._ahead - ahead
        if put_back > _LEAST_JUMP and (waiting := self.put_forward(put_back)):
            _log.warning(
                "the clock was put back by %.0f s; %d messages that wait for their time are put forward",
                put_back,
                waiting,
            )
        else:
            self._ahead = ahead

    def put_forward(self, seconds: float = 0.0) -> int:
        """What was published in the future, with a delay, was published so many seconds before, or now.

        Done once, whichever processes have noticed: then it is not of the future any more.
        """
        now = self._clock()
        waiting = self._database.execute(
            "SELECT DISTINCT messages.id, published FROM deliveries JOIN messages ON messages.id = message "
            "WHERE due IS NOT NULL AND published > ?",
            (now + _LEAST_JUMP,),
        ).fetchall()
        for message, published in waiting:
            by = max(seconds, published - now)
            self._database.execute(
                "UPDATE deliveries SET due = due - ? WHERE message = ? AND due IS NOT NULL", (by, message)
            )
            self._database.execute(
                "UPDATE messages SET published = published - ? WHERE id = ?", (by, message)
            )
        return len(waiting)
