"""The readiness of the worker, with reasons."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from itertools import islice
from time import gmtime, strftime, time

from trustgraph_prompt.errors import excerpt

MAX_NOTES, MAX_PART, MAX_REASON = 100, 200, 1_000
"""Reasons that are shown, and characters of the part and the reason in each."""


class Reasons(UserDict[str, str]):
    """Reasons by part. `since` is when there was the first, or none any more, in seconds since the epoch."""

    since: float

    def __setitem__(self, part: str, reason: str) -> None:
        if not self:
            self.since = time()
        super().__setitem__(part, reason)

    def __delitem__(self, part: str) -> None:
        super().__delitem__(part)
        if not self:
            self.since = time()


class Health:
    """`waiting` has the reasons why the worker is not ready, by part; empty when it is ready.

    `notes` returns problems that do not affect readiness, such as a rejected config entry. `started` is in
    seconds since the epoch.
    """

    def __init__(self, notes: Callable[[], Mapping[str, str]] = dict) -> None:
        self.waiting = Reasons({"worker": "starting"})
        self.started = self.waiting.since
        self.notes = notes

    @property
    def ready(self) -> bool:
        """Whether requests are served."""
        return not self.waiting


def reason_since(reason: object, since: float) -> str:
    """A reason for `Health.waiting` with the time of its begin, in seconds since the epoch."""
    return f"{reason} (since {strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(since))})"


def brief(notes: Mapping[str, str]) -> dict[str, str]:
    """Notes cut to a bounded size: keys and errors come from outside."""
    brief = {
        excerpt(part, MAX_PART): excerpt(reason, MAX_REASON)
        for part, reason in islice(notes.items(), MAX_NOTES)
    }
    if len(notes) > MAX_NOTES:
        brief["…"] = f"{len(notes) - MAX_NOTES:,} more; the log has all"
    return brief
