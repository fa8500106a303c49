"""The schema language: schemas and prompts in a text that authors write."""

from __future__ import annotations

from trustgraph_prompt.language.format import format
from trustgraph_prompt.language.nodes import File
from trustgraph_prompt.language.parse import parse
from trustgraph_prompt.language.to_json_schema import locate, to_json_schema

__all__ = ["File", "format", "locate", "parse", "to_json_schema"]
