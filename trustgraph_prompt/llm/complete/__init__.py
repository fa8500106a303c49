"""`complete()`: one answer of any provider, with validation of request and answer (OpenArmature)."""

from __future__ import annotations

from trustgraph_prompt.llm.complete.completer import ONCE, Completer

__all__ = ["ONCE", "Completer"]
