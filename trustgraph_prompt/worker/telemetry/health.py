"""Whether the worker is alive, and ready; with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import gmtime, strftime


class Health:
    """`waiting` says what keeps the worker from being ready, by what it is about; empty when it is ready.

    `notes` are things somebody should look at and that stop nothing, such as a config entry refused.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {"worker": "starting"}
        self.notes: Callable[[], Mapping[str, str]] = dict

    @property
    def ready(self) -> bool:
        """Whether requests are being served."""
        return not self.waiting


def lasting(trouble: object, since: float) -> str:
    """What keeps the worker from being ready, and since when, in seconds since the epoch."""
    return f"{trouble} (since {strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(since))})"
