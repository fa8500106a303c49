"""The interfaces of the seeds, each with its own strictness over the one reader."""

from __future__ import annotations

from trustgraph_prompt.doors.manager import PromptManager

__all__ = ["PromptManager"]
