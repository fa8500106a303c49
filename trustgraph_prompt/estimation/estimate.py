"""Adds up what questions will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from math import ceil, sqrt
from operator import add
from statistics import fmean, stdev
from sys import maxsize
from typing import Self

from trustgraph_prompt.ask.next_step import MOST_DOUBLINGS
from trustgraph_prompt.ask.step import first_call
from trustgraph_prompt.cost import Price
from trustgraph_prompt.estimation.answer_lengths import AnswerLengths
from trustgraph_prompt.estimation.calls import CallRange, Calls, Range
from trustgraph_prompt.llm import Call
from trustgraph_prompt.llm.token_estimates import estimate as estimate_text
from trustgraph_prompt.prompts import PromptDefinition

SLOW, FAST = 20, 100
"""Tokens that a model is assumed to write in a second, for each call in progress."""

_DEVIATIONS = 2
"""Standard deviations on both sides of a mean that hold 95 % of the values."""


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question that would be asked: its first call, and about how many tokens its terms have."""

    prompt: PromptDefinition
    call: Call
    term_tokens: int

    @classmethod
    def of(cls, prompt: PromptDefinition, terms: Mapping[str, object]) -> Self:
        """Render the question. Raises `RequestError` for a missing term, and `RenderError`."""
        prompt.require(terms)
        call = first_call(prompt, prompt.question(terms))
        return cls(prompt, call, sum(estimate_text(str(value)) for value in terms.values()))


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits of a run: calls at a time, requests and tokens per minute; None is no limit."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def seconds(self, first: CallRange, later: CallRange) -> Range:
        """From no later calls to all of them, and from a fast model to a slow one.

        What the limits allow in the first minute may be taken at once.
        """
        low, high = first.low, first.high + later.high
        return Range(
            max(60 * (self._minutes(low) - 1), low.tokens_out / (FAST * self.concurrency)),
            max(60 * self._minutes(high), high.tokens_out / (SLOW * self.concurrency)),
        )

    def _minutes(self, calls: Calls) -> float:
        requests, tokens = self.requests_per_minute, self.tokens_per_minute
        return max(calls.calls / requests if requests else 0, calls.usage.tokens / tokens if tokens else 0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take.

    `first` are the first calls of the questions, `later` the calls after them: further attempts and passes,
    and continuations. `money` is that of both, in the currency of the price. `answers_by` says for each
    prompt what the length of its answers is estimated from.
    """

    first: CallRange
    later: CallRange
    money: Range | None
    seconds: Range
    answers_by: Mapping[str, str]


def estimate(
    questions: Sequence[PlannedQuestion],
    tokens_in: Sequence[int],
    lengths: AnswerLengths,
    *,
    price: Price | None,
    pace: Pace,
) -> Estimate:
    """Estimate what questions of so many tokens will take."""
    asked = Calls(len(questions), sum(tokens_in))
    first, later = CallRange(asked, asked), CallRange()
    by_prompt: dict[str, list[tuple[PlannedQuestion, int]]] = {}
    for question, tokens in zip(questions, tokens_in, strict=True):
        by_prompt.setdefault(question.prompt.id, []).append((question, tokens))
    for prompt, same in by_prompt.items():
        samples = lengths.samples.get(prompt, ())
        short, long = zip(*(lengths.of(prompt, question.term_tokens) for question, _ in same), strict=True)
        at_most = [_all_later(*each, length) for each, length in zip(same, long, strict=True)]
        limit = same[0][0].call.config.answer_limit or maxsize
        low, high = (sum(min(length, limit) for length in each) for each in (short, long))
        if samples:
            low, high = _sum([sample.tokens_out for sample in samples], len(same))
        first += CallRange(Calls(tokens_out=low), Calls(tokens_out=high))
        known = [sample.later for sample in samples if sample.later is not None]
        later += _later(known, at_most) if known else CallRange(high=reduce(add, at_most))
    ends = first.low + later.low, first.high + later.high
    return Estimate(
        first,
        later,
        None if price is None else Range(*(price.of(calls.usage) for calls in ends)),
        pace.seconds(first, later),
        {prompt: lengths.basis(prompt) for prompt in by_prompt},
    )


def _all_later(question: PlannedQuestion, tokens_in: int, tokens_out: int) -> Calls:
    """All further attempts and passes of the prompt, each of which shows the model its last answer.

    An answer with a token limit is continued once for each attempt, asked for again with twice the limit, and
    continued until a long one is complete.
    """
    prompt, limit = question.prompt, question.call.config.answer_limit
    calls = prompt.attempts
    if limit is not None:
        calls += max(prompt.attempts, MOST_DOUBLINGS) + ceil(tokens_out / limit) - 1
        tokens_out = min(tokens_out, limit * 2**MOST_DOUBLINGS)
    calls = calls * prompt.passes - 1
    return Calls(calls, calls * (tokens_in + tokens_out), calls * tokens_out)


def _later(known: Sequence[Calls], at_most: Sequence[Calls]) -> CallRange:
    """The later calls of some questions, by those that others took.

    The high end supposes that one more of those took all later calls: a few without any prove little.
    """
    worst = max(at_most, key=lambda calls: calls.tokens_in)
    low = [_sum(values, len(at_most))[0] for values in zip(*map(astuple, known), strict=True)]
    high = [_sum(values, len(at_most))[1] for values in zip(*map(astuple, (*known, worst)), strict=True)]
    return CallRange(Calls(*low), Calls(*high))


def _sum(values: Sequence[int], count: int) -> tuple[int, int]:
    """The 95 % prediction interval of the sum of `count` values; from one value, half and double of it."""
    mean = fmean(values)
    if len(values) == 1:
        return int(count * mean / 2), ceil(count * mean * 2)
    spread = _DEVIATIONS * stdev(values) * sqrt(count + count**2 / len(values))
    return max(0, int(count * mean - spread)), ceil(count * mean + spread)
