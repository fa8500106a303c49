"""Estimates what a run will take before anything is asked: at least and at most so many calls and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from pathlib import Path
from typing import NamedTuple, Self

from trustgraph_prompt.ask.follow_ups import MOST_DOUBLINGS
from trustgraph_prompt.ask.step import first_call
from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.errors import ConfigError, ProviderError, RenderError, RequestError
from trustgraph_prompt.extraction import run
from trustgraph_prompt.extraction.questions import Q, RunQuestion
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.extraction.tokenizer import Tokenizer, bundled, choose_tokenizer
from trustgraph_prompt.graph.ontology import TERMS as ONTOLOGY_TERMS
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.llm import Call, Provider
from trustgraph_prompt.llm.token_estimates import estimate as estimate_text
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.example import Example
from trustgraph_prompt.prompts.within_ontology import within

SPREAD = 4.0
"""How far the answers may be from the likely length, as a factor, if all that is known are the texts: a
quarter of their tokens, or four times as many. With real answers, one plus this by the root of their number:
the sums of real runs were within that nine times of ten (docs/how-to/cost.md)."""

_AT_A_TIME = 8
"""Questions whose tokens the server counts."""


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
        return cls(prompt, first_call(prompt, prompt.question(terms)), _tokens_of(terms))


class KnownAnswer(NamedTuple):
    """The tokens of an answer and of the terms of its question, and the calls that it took, if it is real."""

    term_tokens: int
    tokens_out: int
    calls: int | None = None


class Consumption(NamedTuple):
    """What questions take, in the currency of the price; `money` is None without one."""

    calls: int
    tokens_in: int
    tokens_out: int
    money: float | None = None


class RunEstimate(NamedTuple):
    """What the questions without an answer will take: at least `low`, at most `high`.

    `kept` is how many questions have an answer. `bases` says for each prompt what the length of its answers
    is estimated from. `tokenizer` has counted `tokens_in`; it is None if nothing is left to ask.
    """

    questions: int
    kept: int
    low: Consumption
    high: Consumption
    bases: Mapping[str, str]
    tokenizer: Tokenizer | None


def estimate_run(
    jobs: Sequence[Q],
    prompts: PromptSet,
    provider: Provider,
    *,
    state: Path,
    terms: Mapping[str, object],
    ontology: OntologyIndex | None,
    tokenizer_file: Path | None,
    examples: Sequence[Example],
    price: Price | None,
) -> RunEstimate:
    """Estimate what a run over these jobs would take, and close the provider. The model is not called.

    Answers are as long as those in the state, or without any as the `examples` suggest. Raises `ConfigError`
    for a question that cannot be rendered and for an unusable tokenizer file, and `BrokerError` if the state
    is unusable.
    """
    to_ask, kept = run.divided(jobs, state)
    planned = (_planned(job, prompts, terms, ontology) for job in to_ask)
    questions = [each for each in planned if each is not None]
    tokens_in, tokenizer = asyncio.run(_counted(questions, provider, tokenizer_file))
    known = {
        **_by_prompt((example.prompt, _example_answer(example)) for example in examples),
        **_by_prompt((result.job.prompt, _kept_answer(result, terms)) for result in kept),
    }
    low, high = estimate(questions, tokens_in, known, price=price)
    bases = {job.prompt: _basis(known.get(job.prompt, ())) for job in to_ask}
    return RunEstimate(len(questions), len({result.job.id for result in kept}), low, high, bases, tokenizer)


def estimate(
    questions: Sequence[PlannedQuestion],
    tokens_in: Sequence[int],
    known: Mapping[str, Sequence[KnownAnswer]],
    *,
    price: Price | None = None,
) -> tuple[Consumption, Consumption]:
    """What questions of so many tokens take at least and at most, by what is `known` of answers by prompt."""
    by_prompt: dict[str, list[tuple[PlannedQuestion, int]]] = {}
    for question, tokens in zip(questions, tokens_in, strict=True):
        by_prompt.setdefault(question.prompt.id, []).append((question, tokens))
    ranges = [_of_prompt(same, known.get(prompt, ())) for prompt, same in by_prompt.items()]
    return _sum([low for low, _ in ranges], price), _sum([high for _, high in ranges], price)


def _sum(taken: Sequence[Consumption], price: Price | None) -> Consumption:
    tokens_in, tokens_out = sum(each.tokens_in for each in taken), sum(each.tokens_out for each in taken)
    money = None if price is None else price.of(Usage(tokens_in, tokens_out))
    return Consumption(sum(each.calls for each in taken), tokens_in, tokens_out, money)


def _of_prompt(
    questions: Sequence[tuple[PlannedQuestion, int]], known: Sequence[KnownAnswer]
) -> tuple[Consumption, Consumption]:
    """What questions of one prompt take: their first calls at least, and further ones at most.

    Each further call shows the model the question and its last answer.
    """
    first, count = questions[0][0], len(questions)
    tokens_in = sum(tokens for _, tokens in questions)
    short, long = _lengths(count, sum(question.term_tokens + 1 for question, _ in questions), known)
    limit = first.call.config.answer_limit or inf
    further = ceil(count * _further_calls(first.prompt, limit, long / count, known))
    is_text = first.prompt.contract.format == "text"
    longest = (count + further) * limit * (1 if is_text else 2**MOST_DOUBLINGS)
    low = Consumption(count, tokens_in, int(min(max(count, short), count * limit)))
    tokens_out = ceil(min(max(count, long), longest))
    return low, Consumption(
        count + further, tokens_in + further * (tokens_in + tokens_out) // count, tokens_out
    )


def _lengths(count: int, term_tokens: int, known: Sequence[KnownAnswer]) -> tuple[float, float]:
    """The tokens of so many answers, if they are short and if they are long.

    Answers are longer where the terms are, but examples, whose terms are few, hardly say by how much.
    """
    if not known:
        return term_tokens / SPREAD, term_tokens * SPREAD
    if known[0].calls is None:
        ratios = [answer.tokens_out / (answer.term_tokens + 1) for answer in known]
        return count * min(answer.tokens_out for answer in known), term_tokens * max(ratios)
    ratio = sum(answer.tokens_out for answer in known) / sum(answer.term_tokens + 1 for answer in known)
    return term_tokens * ratio / _spread(known), term_tokens * ratio * _spread(known)


def _further_calls(
    prompt: PromptDefinition, limit: float, tokens_out: float, known: Sequence[KnownAnswer]
) -> float:
    """How many calls after the first one a question with so long an answer may take.

    These are all further attempts and passes. An answer with a token limit is also asked for again with twice
    the limit, and continued until it is complete. Where real answers are known, it is what those took, and
    one call more: a few without any prove little.
    """
    most = prompt.attempts * prompt.passes - 1
    if limit < inf and prompt.contract.format != "text":
        most += MOST_DOUBLINGS + ceil(tokens_out / limit) - 1
    took = [answer.calls - 1 for answer in known if answer.calls is not None]
    return min(most, _spread(known) * (1 + sum(took)) / len(took)) if took else most


def _spread(known: Sequence[KnownAnswer]) -> float:
    return 1 + SPREAD / sqrt(len(known))


def _basis(known: Sequence[KnownAnswer]) -> str:
    """What the length of the answers to a prompt is estimated from."""
    if not known:
        return "the length of the texts"
    if known[0].calls is None:
        return "the prompt's examples"
    return f"{len(known)} kept answer{'s' if len(known) > 1 else ''}"


def _by_prompt(answers: Iterable[tuple[str, KnownAnswer | None]]) -> dict[str, list[KnownAnswer]]:
    by_prompt: dict[str, list[KnownAnswer]] = {}
    for prompt, answer in answers:
        if answer is not None:
            by_prompt.setdefault(prompt, []).append(answer)
    return by_prompt


def _kept_answer(result: Result[Q], terms: Mapping[str, object]) -> KnownAnswer | None:
    """What an answer of the state took; None if its provider did not report it."""
    calls = [call["usage"] for call in result.answer.calls] if result.answer is not None else []
    if not calls or not calls[0]["prompt_tokens"]:
        return None
    tokens_out = sum(usage["completion_tokens"] or 0 for usage in calls)
    return KnownAnswer(_tokens_of({**terms, **result.job.terms}), tokens_out, len(calls))


def _example_answer(example: Example) -> KnownAnswer | None:
    """What an example of a prompt file tells; None if it does not have the question."""
    return KnownAnswer(_tokens_of(example.terms), estimate_text(example.answer)) if example.terms else None


def _tokens_of(terms: Mapping[str, object]) -> int:
    """About how many tokens the terms of a question have, without an ontology: it makes no answer longer."""
    return sum(estimate_text(str(value)) for name, value in terms.items() if name not in ONTOLOGY_TERMS)


async def _counted(
    questions: Sequence[PlannedQuestion], provider: Provider, file: Path | None
) -> tuple[list[int], Tokenizer | None]:
    """Count the tokens of questions, with the bundled tokenizer where the server gives up."""
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


def _planned(
    question: RunQuestion,
    prompts: PromptSet,
    terms: Mapping[str, object],
    ontology: OntologyIndex | None,
) -> PlannedQuestion | None:
    """The question, None if the model need not be asked, as the text has no word of the ontology."""
    prompt, terms = prompts.get(question.prompt), {**terms, **question.terms}
    try:
        if ontology is None:
            return PlannedQuestion.of(prompt, terms)
        prompt, of_ontology = within(ontology, prompt, str(terms.get("text", "")))
        return None if of_ontology is None else PlannedQuestion.of(prompt, {**terms, **of_ontology})
    except (RenderError, RequestError) as error:
        raise ConfigError(f"the question cannot be asked: {error}", where=question.place) from error
