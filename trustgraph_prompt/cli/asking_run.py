"""What `extract` and `eval` share: runs that ask a model, and that a signal or the limit of cost may end."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trustgraph_prompt.cli import options, output, progress

if TYPE_CHECKING:
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.extraction.questions import Q, Splitting
    from trustgraph_prompt.extraction.results import Result
    from trustgraph_prompt.extraction.run import Extraction
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.llm.calls_in_progress import CallsInProgress
    from trustgraph_prompt.llm.spending import SpendingLimit
    from trustgraph_prompt.prompts import PromptSet

LIMIT_REACHED = 3
"""The exit code of a run that `--max-cost` has ended."""


class Pace(NamedTuple):
    """The limits of a run: calls at a time, requests and tokens per minute; None is no limit."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Ending(NamedTuple):
    """Whether a signal ended the run, or a failure that every other question would meet as well."""

    interrupted: bool
    is_hopeless: bool


def run(
    questions: Sequence[Q],
    prompts: PromptSet,
    provider: Provider,
    calls: CallsInProgress,
    summary: progress.Summary,
    listen: Callable[[Result[Q]], None],
    *,
    state: Path,
    terms: Mapping[str, object],
    concurrency: int,
    owner: Mapping[str, object],
    splitting: Splitting | None = None,
) -> Ending:
    """Ask until all is answered, the run is hopeless or a signal ends it, then close the provider.

    `listen` gets each result, and adds it to the summary, which is shown meanwhile with the `calls` within
    `provider`. Raises `BrokerError` if the state is unusable, and a `TrustgraphPromptError` of `listen`.
    """
    import asyncio

    from trustgraph_prompt.extraction.run import HOPELESS, Extraction

    def hear(result: Result[Q]) -> None:
        listen(result)
        update()
        if summary.failed_in_a_row == HOPELESS:
            output.note(f"stopping after {HOPELESS} failures in a row")

    extraction = Extraction(
        questions,
        prompts,
        provider,
        state=state,
        terms=terms,
        concurrency=concurrency,
        listen=hear,
        owner=owner,
        splitting=splitting,
    )
    shown = progress.Progress(summary, calls)
    with shown.shown() as update:
        asyncio.run(_run_until_signal(extraction, provider, calls, shown, update))
    return Ending(shown.is_ending, extraction.is_hopeless)


async def _run_until_signal(
    extraction: Extraction[Q],
    provider: Provider,
    calls: CallsInProgress,
    shown: progress.Progress,
    update: Callable[[], None],
) -> None:
    """Run, and close the provider. The first signal stops the run, the second one ends its calls."""
    import asyncio

    def stop() -> None:
        if shown.is_ending:
            extraction.give_up()
            return
        shown.is_ending = True
        waits = f"waiting for {shown.calls}" if shown.calls else "stopping"
        output.note(f"{waits}; interrupt again to end at once")
        calls.end()
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
        await provider.close()


def model_identity(script: str | None, model: str | None) -> str:
    """What answers of an earlier run depend on: the model, or the content of the recording."""
    if script is None:
        return model or ""
    return f"scripted:{hashlib.sha256(options.recording(script).read_bytes()).hexdigest()}"


def timed(provider: Provider, begin_seconds: float, answer_seconds: float) -> CallsInProgress:
    """The provider with limits of time for each call, which does not flood a server with one slot."""
    from trustgraph_prompt.llm.calls_in_progress import CallsInProgress

    return CallsInProgress(
        provider,
        begin_seconds=begin_seconds,
        answer_seconds=answer_seconds,
        on_one_slot=lambda: output.note(
            "the server answers one question after the other: from here on, it gets two at a time"
        ),
    )


def limited(calls: CallsInProgress, pace: Pace) -> Provider:
    """The provider of the calls within the limits of the pace, if there are any."""
    if not (pace.requests_per_minute or pace.tokens_per_minute):
        return calls
    from trustgraph_prompt.llm import Limiter, Limits

    return Limiter(calls, Limits(None, pace.requests_per_minute, pace.tokens_per_minute), calls)


def spending_limit(provider: Provider, price: Price | None, money: float) -> SpendingLimit | None:
    """The provider as long as it costs no more than this, if it has a price."""
    from trustgraph_prompt.llm.spending import SpendingLimit

    return None if price is None else SpendingLimit(provider, price, money)
