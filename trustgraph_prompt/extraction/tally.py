"""What questions came to, in numbers: for the summary of a run and for its report."""

from __future__ import annotations

from collections import Counter

from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.extraction.review import Review

Counts = Counter[str]
"""What some questions came to: objects, and so on, remarks by their kind, tokens and money."""


def counts_of(
    result: Result, found: Review, *, is_paid: bool, price: Price | None = None
) -> dict[str, float]:
    """Count one question with a result. Tokens are those that the server reported, 0 unless it `is_paid`."""
    usage = result.answer.usage if is_paid and result.answer else {}
    return {
        "questions": 1,
        "answers": int(result.failure is None),
        "objects": len(result.objects),
        "looked_up": sum(len(each.groundings) for each in result.objects),
        "not_looked_up": sum(each.grounding is None for each in result.objects),
        **found.kinds,
        "refused": found.refused_count,
        "tokens_in": usage.get("prompt_tokens") or 0,
        "tokens_out": usage.get("completion_tokens") or 0,
        "money": price.of(Usage(**usage)) if price else 0.0,
    }
