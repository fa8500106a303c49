"""Shows what a run will take, before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli.output import counted

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.estimate import RunEstimate


def as_json(estimated: RunEstimate) -> dict[str, Any]:
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


def text(estimated: RunEstimate) -> str:
    """Return an estimate for people: a table, and what it assumes."""
    asked = f"{counted(estimated.questions, 'question')} to ask"
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
