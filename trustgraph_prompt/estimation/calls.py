"""Numbers of calls and their tokens, from a low to a high one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from trustgraph_prompt.cost import Usage


@dataclass(frozen=True, slots=True)
class Calls:
    """A number of calls, and their tokens."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Self) -> Calls:
        return Calls(
            self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        )

    @property
    def usage(self) -> Usage:
        """Their tokens, none of which come from the provider's cache."""
        return Usage(self.tokens_in, self.tokens_out)


@dataclass(frozen=True, slots=True)
class CallRange:
    """At least `low` and at most `high`."""

    low: Calls = Calls()
    high: Calls = Calls()

    def __add__(self, other: Self) -> CallRange:
        return CallRange(self.low + other.low, self.high + other.high)


class Range(NamedTuple):
    """At least `low` and at most `high`."""

    low: float
    high: float
