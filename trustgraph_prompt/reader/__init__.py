"""What an answer says."""

from __future__ import annotations

from trustgraph_prompt.outcome import CallReport, Outcome, ReadReport, Rejected, Repaired, Stage
from trustgraph_prompt.reader.reading import StreamReader, read

__all__ = ["CallReport", "Outcome", "ReadReport", "Rejected", "Repaired", "Stage", "StreamReader", "read"]
