"""What went wrong, in the `error` of a response."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Error:
    """`type` is for programs, `message` for people."""

    type: str
    message: str
