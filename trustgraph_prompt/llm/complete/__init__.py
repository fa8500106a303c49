"""`complete()`: one answer of any provider, checked before it is sent, judged when it has come (seed 2)."""

from __future__ import annotations

from trustgraph_prompt.llm.complete.completer import ONCE, Completer

__all__ = ["ONCE", "Completer"]
