"""The readiness of the worker, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import gmtime, strftime


class Health:
    """`waiting` has the reasons why the worker is not ready, by part; empty when it is ready.

    `notes` returns problems that do not affect readiness, such as a rejected config entry.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {"worker": "starting"}
        self.notes: Callable[[], Mapping[str, str]] = dict

    @property
    def ready(self) -> bool:
        """Whether requests are served."""
        return not self.waiting


def reason_since(reason: object, since: float) -> str:
    """A reason for `Health.waiting` with the time of its begin, in seconds since the epoch."""
    return f"{reason} (since {strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(since))})"
