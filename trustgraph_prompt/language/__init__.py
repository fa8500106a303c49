"""The schema language: what an answer must be and how it is asked for, as a text that authors write."""

from __future__ import annotations

from trustgraph_prompt.language.nodes import File
from trustgraph_prompt.language.parse import parse

__all__ = ["File", "parse"]
