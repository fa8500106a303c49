"""Contracts: what an answer must be, and the verdict on its values."""

from __future__ import annotations

from trustgraph_prompt.contract.contract import Contract, Format
from trustgraph_prompt.contract.grounding import Grounded, Grounding
from trustgraph_prompt.contract.instructions import Wording
from trustgraph_prompt.contract.invariants import Invariant
from trustgraph_prompt.contract.limits import Limits

__all__ = ["Contract", "Format", "Grounded", "Grounding", "Invariant", "Limits", "Wording"]
