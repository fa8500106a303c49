"""A provider that asks an OpenAI-compatible server over HTTP."""

from __future__ import annotations

from trustgraph_prompt.llm.openai.provider import OpenAIProvider

__all__ = ["OpenAIProvider"]
