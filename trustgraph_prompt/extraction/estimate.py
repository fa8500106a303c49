"""Estimates a run before anything is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trustgraph_prompt.cost import Price
from trustgraph_prompt.errors import ConfigError, ProviderError, RenderError, RequestError
from trustgraph_prompt.estimation.answer_lengths import AnswerLengths, Sample
from trustgraph_prompt.estimation.estimate import Estimate, Pace, PlannedQuestion, estimate
from trustgraph_prompt.estimation.tokenizer import Tokenizer, bundled, choose_tokenizer
from trustgraph_prompt.extraction import run
from trustgraph_prompt.extraction.questions import Q, RunQuestion
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts.example import Example

_AT_A_TIME = 8
"""Questions whose tokens the server counts."""


class RunEstimate(NamedTuple):
    """The estimate of the questions that have no answer yet, how many have one, and what counted tokens.

    `tokenizer` is None if nothing is left to ask.
    """

    estimate: Estimate
    kept: int
    tokenizer: Tokenizer | None


def estimate_run(
    jobs: Sequence[Q],
    prompts: PromptSet,
    provider: Provider,
    *,
    state: Path,
    terms: Mapping[str, object],
    tokenizer_file: Path | None,
    examples: Sequence[Example],
    price: Price | None,
    pace: Pace,
) -> RunEstimate:
    """Estimate what a run over these jobs would take, and close the provider. The model is not called.

    Answers are as long as those in the state, or without any as the `examples` suggest. Raises `ConfigError`
    for a question that cannot be rendered and for an unusable tokenizer file, and `BrokerError` if the state
    is unusable.
    """
    to_ask, kept = run.divided(jobs, state)
    questions = [_planned(job, prompts, terms) for job in to_ask]
    tokens_in, tokenizer = asyncio.run(_counted(questions, provider, tokenizer_file))
    samples: dict[str, list[Sample]] = {}
    for result in kept:
        if result.answer is not None and (sample := Sample.of(result.answer.calls)):
            samples.setdefault(result.job.prompt, []).append(sample)
    lengths = AnswerLengths(samples, examples)
    found = estimate(questions, tokens_in, lengths, price=price, pace=pace)
    return RunEstimate(found, len({result.job.id for result in kept}), tokenizer)


async def _counted(
    questions: Sequence[PlannedQuestion], provider: Provider, file: Path | None
) -> tuple[list[int], Tokenizer | None]:
    try:
        if not questions:
            return [], None
        tokenizer = await choose_tokenizer(provider, file, questions[0].call)
        try:
            return await _count_all(questions, tokenizer), tokenizer
        except ProviderError as error:  # such as a server that is too busy
            tokenizer = bundled(str(error))
            return await _count_all(questions, tokenizer), tokenizer
    finally:
        await provider.close()


async def _count_all(questions: Sequence[PlannedQuestion], tokenizer: Tokenizer) -> list[int]:
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def count(question: PlannedQuestion) -> int:
        async with slots:
            return await tokenizer.count(question.call)

    counts = [asyncio.ensure_future(count(question)) for question in questions]
    try:
        return await asyncio.gather(*counts)
    finally:
        for each in counts:  # no more requests to a server that is too busy for one
            each.cancel()


def _planned(question: RunQuestion, prompts: PromptSet, terms: Mapping[str, object]) -> PlannedQuestion:
    try:
        return PlannedQuestion.of(prompts.get(question.prompt), {**terms, **question.terms})
    except (RenderError, RequestError) as error:
        raise ConfigError(f"the question cannot be asked: {error}", where=question.place) from error
