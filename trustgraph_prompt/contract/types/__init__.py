"""Types as contracts: dataclasses and Pydantic models as JSON Schemas, and values as their instances."""

from __future__ import annotations

from trustgraph_prompt.contract.types.build import Build, Refused, elements
from trustgraph_prompt.contract.types.describe import describe

__all__ = ["Build", "Refused", "describe", "elements"]
