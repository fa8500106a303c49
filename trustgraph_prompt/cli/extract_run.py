"""Asks what `extract` has planned, until all is answered, the run is hopeless, or a signal ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from trustgraph_prompt.cli import progress
from trustgraph_prompt.cli.asking_run import run_until_signal, stop_if_hopeless
from trustgraph_prompt.extraction.run import Extraction

if TYPE_CHECKING:
    from trustgraph_prompt.cli.extract_outputs import RunOutputs
    from trustgraph_prompt.cli.extract_plan import Plan
    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.extraction.results import Result
    from trustgraph_prompt.llm import Provider


class Ending(NamedTuple):
    """Whether a signal ended the run, or a failure that every other question would meet as well."""

    interrupted: bool
    is_hopeless: bool


def run(
    plan: Plan, provider: Provider, outputs: RunOutputs, summary: ExtractSummary, *, concurrency: int
) -> Ending:
    """Ask, and give each result to the outputs and to the summary, which is shown meanwhile.

    Raises `BrokerError` if the state is unusable, and `TrustgraphPromptError` if objects cannot be written.
    """
    with progress.shown(summary) as update:

        def listen(result: Result) -> None:
            outputs.add(result)
            summary.add(result)
            update()
            stop_if_hopeless(extraction, summary.failed_in_a_row)

        extraction = Extraction(
            plan.jobs,
            plan.prompts,
            provider,
            state=outputs.state,
            terms=plan.terms,
            concurrency=concurrency,
            listen=listen,
            splitting=plan.splitting,
        )
        interrupted = asyncio.run(run_until_signal(extraction, provider))
    return Ending(interrupted, extraction.is_hopeless)
