"""What answers cost, and what they may cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of several together; None is "the provider did not say", which is not 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(_sum(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))

    @classmethod
    def sum(cls, usages: Iterable[Usage]) -> Usage:
        """All of them together; what none of them reported stays None."""
        total = cls()
        for usage in usages:
            total += usage
        return total


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens."""

    prompt: float
    completion: float

    def of(self, usage: Usage) -> float:
        """What `usage` costs; tokens that were not reported cost nothing here."""
        return (
            (usage.prompt_tokens or 0) * self.prompt + (usage.completion_tokens or 0) * self.completion
        ) / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """What a request may cost; None is unlimited.

    `attempts`: how often the question is put. `tokens`: over all calls, prompts and answers.
    `seconds`: from the publishing of the request. `money`: in the unit of the prices.
    """

    attempts: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: float | None = None

    def within(self, other: Budget) -> Budget:
        """Both at once: the smaller of each limit."""
        return Budget(*(_least(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _least(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else min(a, b)
