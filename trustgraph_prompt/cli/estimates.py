"""Shows what a run will take, before it is asked for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli.output import counted, duration
from trustgraph_prompt.estimation.estimate import FAST, SLOW

if TYPE_CHECKING:
    from trustgraph_prompt.estimation.estimate import Pace
    from trustgraph_prompt.extraction.estimate import RunEstimate


def as_json(estimated: RunEstimate) -> dict[str, Any]:
    """Return an estimate for programs."""
    estimate, kept, tokenizer = estimated
    return {
        "questions": estimate.first.low.calls,
        "kept": kept,
        "first": asdict(estimate.first),
        "later": asdict(estimate.later),
        "money": estimate.money and estimate.money._asdict(),
        "seconds": estimate.seconds._asdict(),
        "tokens_counted_with": tokenizer and tokenizer.name,
        "tokens_in_within": tokenizer and tokenizer.within,
        "answers_estimated_from": dict(estimate.answers_by),
    }


def text(estimated: RunEstimate, pace: Pace) -> str:
    """Return an estimate for people: a table, and what it assumes."""
    estimate, kept, tokenizer = estimated
    first, later = estimate.first, estimate.later
    lines = [f"{counted(first.low.calls, 'question')} to ask"]
    if kept:
        lines[0] += f"; {kept:,} more are answered already and cost nothing"
    if tokenizer is None:
        return lines[0]
    rows: list[tuple[str, str, str]] = [("", "at least", "at most")]
    for title, calls in (("first calls", first), ("later calls", later)):
        for name in ("calls", "tokens_in", "tokens_out"):
            low, high = getattr(calls.low, name), getattr(calls.high, name)
            label = title if name == "calls" else f"  {name.replace('_', ' ')}"
            rows.append((label, f"{low:,}", f"{high:,}"))
    if estimate.money is not None:
        rows.append(("money", f"{estimate.money.low:,.4f}", f"{estimate.money.high:,.4f}"))
    rows.append(("time", duration(estimate.seconds.low), duration(estimate.seconds.high)))
    lines += [f"  {label:<14}{low:>14}{high:>14}" for label, low, high in rows]
    why = f" ({tokenizer.why})" if tokenizer.why else ""
    lines += [
        f"This is an estimate. Tokens in were counted with {tokenizer.name}{why}; "
        f"the model may count up to {100 * tokenizer.within:g} % more or fewer.",
        *(f"Tokens out of {prompt}: from {basis}." for prompt, basis in estimate.answers_by.items()),
        f"Time: {counted(pace.concurrency, 'call')} at a time (--concurrency), each at {SLOW} to {FAST} "
        f"tokens a second{_limits(pace)}. A local server may answer fewer at a time, and then takes longer.",
    ]
    return "\n".join(lines)


def _limits(pace: Pace) -> str:
    limits = {"requests": pace.requests_per_minute, "tokens": pace.tokens_per_minute}
    return "".join(f", at most {limit:,} {name} a minute" for name, limit in limits.items() if limit)
