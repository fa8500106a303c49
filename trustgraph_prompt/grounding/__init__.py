"""Checks whether the values of an answer occur in the text that the model was asked about."""

from __future__ import annotations

from trustgraph_prompt.grounding.passage import MAX_SPANS, RANK, Match, MatchKind, Passage
from trustgraph_prompt.grounding.quotes import as_written, find_quote, is_too_long

__all__ = ["MAX_SPANS", "RANK", "Match", "MatchKind", "Passage", "as_written", "find_quote", "is_too_long"]
