"""What answers cost, and what they may cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Budget", "Price", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of several together; None is "the provider did not say", which is not 0.

    Of the prompt's tokens, `cached_tokens` were read from the provider's own cache and
    `cache_creation_tokens` written to it.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.completion_tokens, other.completion_tokens),
            _sum(self.total_tokens, other.total_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.cache_creation_tokens, other.cache_creation_tokens),
        )

    @property
    def tokens(self) -> int:
        """How many were reported: the total, or its parts where they are more."""
        return max(self.total_tokens or 0, (self.prompt_tokens or 0) + (self.completion_tokens or 0))

    @classmethod
    def sum(cls, usages: Iterable[Usage]) -> Usage:
        """All of them together; what none of them reported stays None."""
        total = cls()
        for usage in usages:
            total += usage
        return total


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens.

    `cached` is for tokens of the prompt that the provider had in its own cache; None is what others cost.
    """

    prompt: float
    completion: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """What `usage` costs; of a total, what is in neither of its parts costs the dearer price."""
        prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
        unsplit = usage.tokens - prompt - completion
        dearer = max(self.prompt, self.completion)
        cost = prompt * self.prompt + completion * self.completion + unsplit * dearer
        if self.cached is not None:
            cost -= min(usage.cached_tokens or 0, prompt) * (self.prompt - self.cached)
        return cost / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """What a request may cost; None is unlimited.

    `attempts`: how often the question is put. `tokens`: over all calls, prompts and answers.
    `seconds`: from the publishing of the request. `money`: in the unit of the prices. `work_seconds`: from
    when the question is put; whoever puts it again has as many. `characters`: of one answer, its thinking
    included; what is longer is cut.
    """

    attempts: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: float | None = None
    work_seconds: float | None = None
    characters: int | None = 1_000_000


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
