"""Adjusts delayed messages when the system clock is set back."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

#: Smaller jumps, in seconds, are corrections of the clock, or come from a busy machine.
_LEAST_JUMP: Final = 1.0


class Delays:
    """Detects jumps of the clock. Due times are in system time, as the file outlives processes."""

    def __init__(self, database: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._ahead = clock() - time.monotonic()

    def check_clock(self) -> None:
        """Advance delayed messages if the clock was set back.

        Consumers look in time, as event loops use a monotonic clock. If the step is rolled back, so are the
        updates: a jump is therefore considered handled only when no message is left to advance.
        """
        ahead = self._clock() - time.monotonic()
        set_back = self._ahead - ahead
        if set_back > _LEAST_JUMP and (waiting := self.advance(set_back)):
            _log.warning("the clock was set back by %.0f s; advanced %d delayed messages", set_back, waiting)
        else:
            self._ahead = ahead

    def advance(self, seconds: float = 0.0) -> int:
        """Move delayed messages with a publication time in the future back by `seconds`, at least to now.

        Only one process does it, as the times are not in the future after that.
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
