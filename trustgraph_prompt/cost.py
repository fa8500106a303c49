"""Token usage, prices and budgets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add

__all__ = ["Budget", "Price", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one or several calls; None if the provider did not report them, which is not 0.

    `cached_tokens` are the prompt tokens that were read from the provider's cache, `cache_creation_tokens`
    those that were written to it.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*(b if a is None else a if b is None else a + b for a, b in pairs))

    @property
    def tokens(self) -> int:
        """The total, or the sum of its parts if that is more; 0 if nothing was reported."""
        return max(self.total_tokens or 0, (self.prompt_tokens or 0) + (self.completion_tokens or 0))

    @classmethod
    def sum(cls, usages: Iterable[Usage]) -> Usage:
        """Add up usages; what none of them reported stays None."""
        each = iter(usages)
        return reduce(add, each, next(each, cls()))


@dataclass(frozen=True, slots=True)
class Price:
    """Prices per million tokens, in any currency.

    `cached` applies to prompt tokens from the provider's cache; None: the price of other prompt tokens.
    """

    prompt: float
    completion: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """The cost of `usage`. Tokens that are only part of the total cost the higher of the two prices."""
        prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
        unsplit = usage.tokens - prompt - completion
        higher = max(self.prompt, self.completion)
        cost = prompt * self.prompt + completion * self.completion + unsplit * higher
        if self.cached is not None:
            cost -= min(usage.cached_tokens or 0, prompt) * (self.prompt - self.cached)
        return cost / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a request; None is unlimited.

    `attempts`: how often the model is asked. `tokens`: of all calls, prompts and answers. `seconds`: from the
    publish time of the request. `money`: in the currency of the prices. `work_seconds`: from the first call;
    a redelivered request starts again. `characters`: of one answer with its thinking; a longer answer is
    truncated.
    """

    attempts: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: float | None = None
    work_seconds: float | None = None
    characters: int | None = 1_000_000
