"""How long a worker waits for what may never come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The waits of a worker, in seconds."""

    give_up: float = 5.0
    """How long requests that are given up may take to finish a response, or to send an error."""

    take_over: float = 30.0
    """How long the old version of a changed flow keeps running if the new one cannot subscribe."""

    close_record: float = 1.0
    """For the deletion of an entry in a crash record."""

    close_config: float = 5.0
    """For closing the config."""

    between_looks: float = 0.5
    """How often to look whether the prompt of a flow exists."""

    before_reopening: float = 0.5
    """Between what the broker closed and its successor, so that a broker that closes each is not flooded."""

    disown: float = 2.0
    """How long another worker may take to disown a message that was merely redelivered to this one."""

    write_ends: float = 1.0
    """Until the end of messages is recorded. Delay is cheap: a finished message is not delivered again."""

    after_defect: float = 5.0
    """Before a flow is restarted after an internal error."""
