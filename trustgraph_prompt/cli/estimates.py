"""Estimates what a run will take, before anything is asked."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli import output, prompt_options
from trustgraph_prompt.cli.output import counted, duration
from trustgraph_prompt.estimation.estimate import FAST, SLOW

if TYPE_CHECKING:
    from pathlib import Path

    from trustgraph_prompt.cli.asking_run import Questions
    from trustgraph_prompt.cli.model_options import RunOptions
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.extraction.estimate import RunEstimate
    from trustgraph_prompt.llm import Provider


def estimated(
    asked: Questions[Any], provider: Provider, limits: RunOptions, price: Price | None, templates: Path | None
) -> RunEstimate:
    """Estimate a run, and close the provider. Raises as `estimate_run`."""
    from trustgraph_prompt.extraction.estimate import estimate_run

    with output.waiting("counting tokens"):
        return estimate_run(
            asked.jobs,
            asked.prompts,
            provider,
            state=asked.state,
            terms=asked.terms,
            tokenizer_file=limits.tokenizer,
            examples=prompt_options.examples(templates),
            price=price,
            pace=limits.pace,
        )


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


def text(estimated: RunEstimate, limits: RunOptions) -> str:
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
        f"Time: {counted(limits.concurrency, 'call')} at a time (--concurrency), each at {SLOW} to {FAST} "
        f"tokens a second{_limits(limits)}. A local server may answer fewer at a time, and then takes "
        "longer.",
    ]
    return "\n".join(lines)


def _limits(limits: RunOptions) -> str:
    named = {"requests": limits.requests_per_minute, "tokens": limits.tokens_per_minute}
    return "".join(f", at most {limit:,} {name} a minute" for name, limit in named.items() if limit)
