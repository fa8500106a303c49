"""What an answer must be."""

from __future__ import annotations

from trustgraph_prompt.contract.contract import Contract, Format, JsonSchema

__all__ = ["Contract", "Format", "JsonSchema"]
