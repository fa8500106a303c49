"""The batch job behind `extract`: prompts run on text files, with the answers in a local file."""

from __future__ import annotations

from trustgraph_prompt.extraction.document_outcomes import (
    ChunkOutcome,
    aextract_document,
    extract_document,
)

__all__ = ["ChunkOutcome", "aextract_document", "extract_document"]
