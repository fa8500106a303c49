"""Estimates a run before anything is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trustgraph_prompt.cost import Price
from trustgraph_prompt.errors import ConfigError, RenderError, RequestError
from trustgraph_prompt.estimation import (
    AnswerLengths,
    Estimate,
    Pace,
    PlannedQuestion,
    Sample,
    Tokenizer,
    choose_tokenizer,
    count_tokens,
    estimate,
)
from trustgraph_prompt.extraction import run
from trustgraph_prompt.extraction.results import Q, Question, Result
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.scripted import ScriptedAnswer
from trustgraph_prompt.llm.token_estimates import estimate as estimate_text
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts.example import Example


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
    recorded: Sequence[ScriptedAnswer],
    price: Price | None,
    pace: Pace,
) -> RunEstimate:
    """Estimate what a run over these jobs would take, and close the provider. The model is not called.

    The length of answers is that of those in the state, else of the `recorded` ones, else by the `examples`.
    Raises `ConfigError` for a question that cannot be rendered and for an unusable tokenizer file,
    `BrokerError` if the state is unusable, and `ProviderError` if the server stops counting tokens.
    """
    to_ask, kept = run.divided(jobs, state)
    questions = [_planned(job, prompts, terms) for job in to_ask]
    tokens_in, tokenizer = asyncio.run(_counted(questions, provider, tokenizer_file))
    lengths = _lengths(kept, recorded, examples)
    found = estimate(questions, tokens_in, lengths, price=price, pace=pace)
    return RunEstimate(found, len({result.job.id for result in kept}), tokenizer)


async def _counted(
    questions: Sequence[PlannedQuestion], provider: Provider, file: Path | None
) -> tuple[list[int], Tokenizer | None]:
    try:
        if not questions:
            return [], None
        tokenizer = await choose_tokenizer(provider, file, questions[0].call)
        return await count_tokens(questions, tokenizer), tokenizer
    finally:
        await provider.close()


def _planned(question: Question, prompts: PromptSet, terms: Mapping[str, object]) -> PlannedQuestion:
    try:
        return PlannedQuestion.of(prompts.get(question.prompt), {**terms, **question.terms})
    except (RenderError, RequestError) as error:
        raise ConfigError(f"the question cannot be asked: {error}", where=question.place) from error


def _lengths(
    kept: Sequence[Result[Q]], recorded: Sequence[ScriptedAnswer], examples: Sequence[Example]
) -> AnswerLengths:
    samples: dict[str, list[Sample]] = {}
    for result in kept:
        if result.answer is not None and (sample := Sample.of(result.answer.calls)):
            samples.setdefault(result.job.prompt, []).append(sample)
    if samples:
        return AnswerLengths(samples, examples)
    for answer in recorded:
        if answer.prompt is not None:
            tokens = answer.usage and answer.usage.completion_tokens
            sample = Sample(tokens or estimate_text(answer.thinking + answer.text))
            samples.setdefault(answer.prompt, []).append(sample)
    return AnswerLengths(samples, examples, samples_are="recorded answer(s)")
