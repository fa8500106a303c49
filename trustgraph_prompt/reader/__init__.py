"""What an answer says."""

from __future__ import annotations

from trustgraph_prompt.reader.outcome import CallReport, Outcome, Rejected, Repaired, Stage
from trustgraph_prompt.reader.reading import StreamReader, read

__all__ = ["CallReport", "Outcome", "Rejected", "Repaired", "Stage", "StreamReader", "read"]
