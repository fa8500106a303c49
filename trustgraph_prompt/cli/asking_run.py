"""What `extract` and `eval` share: runs that ask a model within limits until a signal, and their estimate."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from trustgraph_prompt.cli import output, progress, prompt_options
from trustgraph_prompt.cli.model_options import RunOptions
from trustgraph_prompt.cost import Price
from trustgraph_prompt.extraction.estimate import RunEstimate, estimate_run
from trustgraph_prompt.extraction.questions import RunQuestion
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.extraction.run import HOPELESS, Extraction
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.llm import Limiter, Limits, Provider
from trustgraph_prompt.llm.calls_in_progress import CallsInProgress
from trustgraph_prompt.llm.spending import SpendingLimit
from trustgraph_prompt.prompts import PromptSet

Q = TypeVar("Q", bound=RunQuestion)

LIMIT_REACHED = 3
"""The exit code of a run that `--max-cost` has ended."""


class Ending(NamedTuple):
    """Whether a signal ended the run, or a failure that every other question would meet as well."""

    interrupted: bool
    is_hopeless: bool


class Questions(NamedTuple, Generic[Q]):
    """What a run asks, of these prompts with these terms, and the file that keeps its answers.

    With an ontology, the prompts keep to it.
    """

    jobs: Sequence[Q]
    prompts: PromptSet
    state: Path
    terms: Mapping[str, object]
    ontology: OntologyIndex | None = None


class LimitedProvider:
    """A provider within the limits of a run: of time for each call, of calls, and of money in all.

    A server with one slot is not flooded. `spending` counts the money if there is a price.
    """

    def __init__(self, provider: Provider, limits: RunOptions, price: Price | None, money: float) -> None:
        self.concurrency = limits.concurrency
        self.calls = CallsInProgress(
            provider,
            begin_seconds=limits.begin_seconds,
            answer_seconds=limits.answer_seconds,
            on_one_slot=lambda: output.note(
                "the server answers one question after the other: from here on, it gets two at a time"
            ),
        )
        self.provider: Provider = self.calls
        if limits.requests_per_minute or limits.tokens_per_minute:
            pace = Limits(None, limits.requests_per_minute, limits.tokens_per_minute)
            self.provider = Limiter(self.calls, pace, self.calls)
        self.spending: SpendingLimit | None = None
        if price is not None:
            self.provider = self.spending = SpendingLimit(self.provider, price, money)


def run(
    asked: Questions[Q],
    within: LimitedProvider,
    summary: progress.Summary,
    listen: Callable[[Result[Q]], None],
    owner: Mapping[str, object],
    is_failure: Callable[[Result[Q]], bool],
) -> Ending:
    """Ask until all is answered, the run is hopeless or a signal ends it, then close the provider.

    `listen` gets each result, and adds it to the summary, which is shown meanwhile with the calls in
    progress. Raises `BrokerError` if the state is unusable, and a `TrustgraphPromptError` of `listen`.
    `is_failure` is that of an `Extraction`.
    """

    def hear(result: Result[Q]) -> None:
        listen(result)
        update()
        if extraction.failed_in_a_row == HOPELESS:
            output.note(f"stopping after {HOPELESS} failures in a row")

    extraction = Extraction(
        asked.jobs,
        asked.prompts,
        within.provider,
        state=asked.state,
        terms=asked.terms,
        concurrency=within.concurrency,
        listen=hear,
        owner=owner,
        ontology=asked.ontology,
        is_failure=is_failure,
    )
    shown = progress.RunProgress(summary, within.calls)
    with shown.shown() as update:
        asyncio.run(_run_until_signal(extraction, within, shown, update))
    return Ending(shown.is_ending, extraction.is_hopeless)


async def _run_until_signal(
    extraction: Extraction[Q],
    within: LimitedProvider,
    shown: progress.RunProgress,
    update: Callable[[], None],
) -> None:
    """Run, and close the provider. The first signal stops the run, the second one ends its calls."""

    def stop() -> None:
        if shown.is_ending:
            extraction.give_up()
            return
        shown.is_ending = True
        waits = f"waiting for {shown.calls}" if shown.calls else "stopping"
        output.note(f"{waits}; interrupt again to end at once")
        within.calls.end()
        extraction.stop()

    async def update_every_second() -> None:
        while True:
            await asyncio.sleep(1)
            update()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    updating = asyncio.create_task(update_every_second())
    try:
        await extraction.run()
    finally:
        updating.cancel()
        await within.provider.close()


def estimate(
    asked: Questions[Q], provider: Provider, limits: RunOptions, price: Price | None, templates: Path | None
) -> RunEstimate:
    """Estimate a run, and close the provider. Raises as `estimate_run`."""
    with output.waiting("counting tokens"):
        return estimate_run(
            asked.jobs,
            asked.prompts,
            provider,
            state=asked.state,
            terms=asked.terms,
            ontology=asked.ontology,
            tokenizer_file=limits.tokenizer,
            examples=prompt_options.examples(templates),
            price=price,
        )


def estimate_as_json(estimated: RunEstimate) -> dict[str, Any]:
    """Return an estimate for programs."""
    tokenizer = estimated.tokenizer
    return {
        "questions": estimated.questions,
        "kept": estimated.kept,
        "low": estimated.low._asdict(),
        "high": estimated.high._asdict(),
        "tokens_counted_with": tokenizer and tokenizer.name,
        "tokens_in_within": tokenizer and tokenizer.within,
        "answers_estimated_from": dict(estimated.bases),
    }


def estimate_text(estimated: RunEstimate) -> str:
    """Return an estimate for people: a table, and what it assumes."""
    asked = f"{output.counted(estimated.questions, 'question')} to ask"
    if estimated.kept:
        asked += f"; {estimated.kept:,} more are answered already and cost nothing"
    if (tokenizer := estimated.tokenizer) is None:
        return asked
    rows = [("", "at least", "at most")]
    for name, low, high in zip(estimated.low._fields, estimated.low, estimated.high, strict=True):
        if low is not None:
            form = ",.4f" if name == "money" else ","
            rows.append((name.replace("_", " "), format(low, form), format(high, form)))
    why = f" ({tokenizer.why})" if tokenizer.why else ""
    return "\n".join(
        [
            asked,
            *(f"  {label:<14}{low:>14}{high:>14}" for label, low, high in rows),
            f"This is an estimate. Tokens in were counted with {tokenizer.name}{why}; "
            f"the model may count up to {100 * tokenizer.within:g} % more or fewer.",
            *(f"Tokens out of {prompt}: from {basis}." for prompt, basis in estimated.bases.items()),
        ]
    )
