"""What `extract` and `eval` share: runs that ask a model, and that a signal or the limit of cost may end."""

from __future__ import annotations

import hashlib
import signal
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options, output

if TYPE_CHECKING:
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.estimation import Pace
    from trustgraph_prompt.extraction.results import Q
    from trustgraph_prompt.extraction.run import Extraction
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.llm.spending import SpendingLimit

_HOPELESS = 20
"""After this many failures in a row the run stops: the server is down."""

LIMIT_REACHED = 3
"""The exit code of a run that `--max-cost` has ended."""


async def run_until_signal(extraction: Extraction[Q], provider: Provider) -> bool:
    """Run to the end or until a signal, and close the provider; return whether there was a signal."""
    import asyncio

    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        if interrupted:
            extraction.give_up()
        else:
            output.note("stopping after the calls in progress; interrupt again to stop at once")
            extraction.stop()
        interrupted = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await extraction.run()
    finally:
        await provider.close()
    return interrupted


def stop_if_hopeless(extraction: Extraction[Q], failed_in_a_row: int) -> None:
    """Stop a run in which nothing but failures has come for long."""
    if failed_in_a_row == _HOPELESS:
        output.note(f"stopping after {_HOPELESS} failures in a row")
        extraction.stop()


def model_identity(script: str | None, model: str | None) -> str:
    """What answers of an earlier run depend on: the model, or the content of the recording."""
    if script is None:
        return model or ""
    return f"scripted:{hashlib.sha256(options.recording(script).read_bytes()).hexdigest()}"


def limited(provider: Provider, pace: Pace) -> Provider:
    """The provider within the limits of the pace, if there are any."""
    if not (pace.requests_per_minute or pace.tokens_per_minute):
        return provider
    from trustgraph_prompt.llm import Limiter, Limits

    return Limiter(provider, Limits(None, pace.requests_per_minute, pace.tokens_per_minute))


def spending_limit(provider: Provider, price: Price | None, money: float) -> SpendingLimit | None:
    """The provider as long as it costs no more than this, if it has a price."""
    from trustgraph_prompt.llm.spending import SpendingLimit

    return None if price is None else SpendingLimit(provider, price, money)
