"""Whether what a model says stands in the text that it was asked about."""

from __future__ import annotations

from trustgraph_prompt.grounding.passage import MAX_SPANS, Match, MatchKind, Passage

__all__ = ["MAX_SPANS", "Match", "MatchKind", "Passage"]
