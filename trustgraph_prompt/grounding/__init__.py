"""Checks whether the values of an answer occur in the text that the model was asked about."""

from __future__ import annotations

from trustgraph_prompt.grounding.passage import MAX_SPANS, RANK, Match, MatchKind, Passage

__all__ = ["MAX_SPANS", "RANK", "Match", "MatchKind", "Passage"]
