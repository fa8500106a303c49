"""What errors hold on to."""

from __future__ import annotations


def holds_frames(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, keeps frames alive with all their variables."""
    while error is not None:
        if error.__traceback__ is not None or error.__context__ not in (None, error.__cause__):
            return True
        error = error.__cause__
    return False
