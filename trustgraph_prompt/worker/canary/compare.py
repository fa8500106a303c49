"""Compares the answers of a canary with those of the served version, and decides by rule which one stays.

A ratio of two versions has an interval from the delta method on its logarithm. The variance is that between
whole answers, because the objects of one answer succeed and fail together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from statistics import NormalDist
from typing import Final, Self

from trustgraph_prompt.errors import ConfigError, Reason
from trustgraph_prompt.worker.messages.answer_record import Answer

CONFIDENCE: Final = 0.95

FEWEST: Final = 20
"""Answers of each version below which there is no interval: the method needs many."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is compared of an answer. `published` is in seconds since the epoch, `refused` by reason.

    `canary` is the id of the canary that answered, None for the served version.
    """

    published: float
    canary: str | None
    version: str
    reason: str
    objects: int
    refused: Mapping[str, int]
    truncated: bool
    cached: bool
    attempts: int
    tokens: float | None
    cost: float | None
    seconds: float | None

    @classmethod
    def of(cls, answer: Answer, published: float) -> Self:
        """What is compared of the record of an answer. Raises as Python does if it is malformed."""
        refused = Counter(str(rejected["issues"][0]["reason"]) for rejected in answer.rejected)
        if (unlisted := answer.rejected_count - refused.total()) > 0:
            refused["unlisted"] = unlisted
        return cls(
            published,
            None if answer.canary is None else str(answer.canary),
            str(answer.version),
            str(answer.reason),
            len(answer.objects),
            refused,
            answer.truncated is True,
            answer.cached is True,
            len(answer.calls),
            _number(answer.usage.get("total_tokens")),
            _number(answer.cost),
            _number(answer.seconds),
        )


def _number(value: float | None) -> float | None:
    if value is not None and not (isinstance(value, int | float) and isfinite(value)):
        raise TypeError(f"{value!r} is no number")
    return value


_Counted = Callable[[Observed], tuple[float | None, int]]
"""What is counted in an answer, None if it is not known, and out of how many."""


def _of_model(value: Callable[[Observed], float | None]) -> _Counted:
    """For answers of a model only: those of the cache cost nothing."""
    return lambda answer: (None if answer.cached else value(answer), 1)


QUANTITIES: Final[Mapping[str, _Counted]] = {
    "objects": lambda answer: (answer.objects, 1),
    "refused": lambda answer: (sum(answer.refused.values()), answer.objects + sum(answer.refused.values())),
    "failed": lambda answer: (answer.reason != Reason.SUCCESS, 1),
    "truncated": lambda answer: (answer.truncated, 1),
    "attempts": _of_model(lambda answer: answer.attempts),
    "tokens": _of_model(lambda answer: answer.tokens),
    "cost": _of_model(lambda answer: answer.cost),
    "seconds": _of_model(lambda answer: answer.seconds),
}
"""What can be compared: accepted objects per answer; the share of objects that are refused, of answers
without a result, and of truncated answers; calls, tokens, money and seconds per answer of a model."""

_EVENTS: Final = frozenset({"objects", "refused", "failed", "truncated"})
"""Quantities that count events, of which none may just not have come yet."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A quantity of one version: the sum of `parts` by the sum of `wholes` over `answers`.

    `squares` is the sum of the squared deviations of the answers from the rate.
    """

    parts: float
    wholes: float
    answers: int
    squares: float

    @classmethod
    def of(cls, quantity: str, answers: Iterable[Observed]) -> Self | None:
        """The rate in these answers; None if nothing is known of it."""
        counted = map(QUANTITIES[quantity], answers)
        pairs = [(part, whole) for part, whole in counted if part is not None]
        parts, wholes = sum(part for part, _ in pairs), sum(whole for _, whole in pairs)
        if not wholes:
            return None
        rate = parts / wholes
        return cls(parts, wholes, len(pairs), sum((part - rate * whole) ** 2 for part, whole in pairs))

    @property
    def value(self) -> float:
        return self.parts / self.wholes

    @property
    def logarithm(self) -> tuple[float, float]:
        """The logarithm and its variance; where no event has come, those of half an event (Poisson)."""
        if not self.parts:
            return log(0.5 / self.wholes), 1 / 0.5
        return log(self.value), self.answers / (self.answers - 1) * self.squares / self.parts**2


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quantity of the canary, divided by that of the served version, with an interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f}x ({self.low:.2f}x to {self.high:.2f}x)"


def ratio(
    quantity: str, served: Sequence[Observed], canary: Sequence[Observed], confidence: float = CONFIDENCE
) -> Ratio | None:
    """Compare a quantity of two versions; None if there are too few answers or events."""
    old, new = Rate.of(quantity, served), Rate.of(quantity, canary)
    if old is None or new is None or min(old.answers, new.answers) < FEWEST:
        return None
    events = max(old.parts, new.parts) if quantity in _EVENTS else min(old.parts, new.parts)
    if events <= 0:
        return None
    (old_log, old_variance), (new_log, new_variance) = old.logarithm, new.logarithm
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(old_variance + new_variance)
    centre = new_log - old_log
    return Ratio(exp(centre), exp(centre - reach), exp(centre + reach))


_RULE = re.compile(r"(?P<quantity>\w+)\s*(?P<sign>[<>])\s*(?P<bound>\d{1,9}(?:\.\d{1,9})?)\s*x")


@dataclass(frozen=True, slots=True)
class AbortRule:
    """When a canary is aborted: if a quantity, as a ratio, is `above` the bound, or else below it."""

    quantity: str
    above: bool
    bound: float

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Parse a rule such as `refused > 1.5x`. Raises `ConfigError`."""
        match = _RULE.fullmatch(text.strip())
        if match is None or match["quantity"] not in QUANTITIES:
            raise ConfigError(
                "the rule is not valid",
                where=where,
                found=text,
                expected=f"such as 'refused > 1.5x', with one of {', '.join(QUANTITIES)}",
            )
        return cls(match["quantity"], match["sign"] == ">", float(match["bound"]))

    def fires(self, ratio: Ratio | None) -> bool:
        """Whether the whole interval lies beyond the bound."""
        return ratio is not None and (ratio.low > self.bound if self.above else ratio.high < self.bound)

    def __str__(self) -> str:
        return f"{self.quantity} {'>' if self.above else '<'} {self.bound:g}x"


@dataclass(frozen=True, slots=True)
class Look:
    """What the rules said after so many answers of the canary: the ratios by rule, and which rule fired."""

    answers: int
    confidence: float
    ratios: Mapping[AbortRule, Ratio | None]

    @property
    def fired(self) -> AbortRule | None:
        return next((rule for rule, ratio in self.ratios.items() if rule.fires(ratio)), None)


def look_counts(fewest: int, most: int) -> list[int]:
    """After how many answers of a canary the rules look: `fewest`, each time twice as many, and `most`."""
    counts = []
    while fewest < most:
        counts.append(fewest)
        fewest *= 2
    return [*counts, most]


def looks(
    answers: Iterable[Observed], canary: str, rules: Sequence[AbortRule], fewest: int, most: int
) -> Iterator[Look]:
    """Look at the answers in their order; ends with the look at which a rule fires, or the last one.

    It depends on the answers alone. A look waits until the served version has `fewest` answers, too. The
    intervals of many looks are so wide that all of them together are as rarely wrong as one.
    """
    counts = look_counts(fewest, most)
    confidence = 1 - (1 - CONFIDENCE) / len(counts)
    served: list[Observed] = []
    new: list[Observed] = []
    for answer in answers:
        if answer.canary in (None, canary):
            (served if answer.canary is None else new).append(answer)
        while counts and len(new) >= counts[0] and len(served) >= fewest:
            ratios = {rule: ratio(rule.quantity, served, new, confidence) for rule in rules}
            yield (look := Look(counts.pop(0), confidence, ratios))
            if look.fired:
                return
