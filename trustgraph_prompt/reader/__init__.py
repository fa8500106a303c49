"""Reads the answers of models: finds their JSON, repairs it where allowed, and validates it."""

from __future__ import annotations

from trustgraph_prompt.outcome import CallReport, Outcome, ReadReport, Rejected, Remark, Repaired, Stage
from trustgraph_prompt.reader.stream_reader import StreamReader, read

__all__ = [
    "CallReport",
    "Outcome",
    "ReadReport",
    "Rejected",
    "Remark",
    "Repaired",
    "Stage",
    "StreamReader",
    "read",
]
