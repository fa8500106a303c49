"""Types as contracts: dataclasses and Pydantic models as JSON Schemas, and values as their instances."""

from __future__ import annotations

from trustgraph_prompt.contract.types.annotations import describe
from trustgraph_prompt.contract.types.build import Build, Refused, elements

__all__ = ["Build", "Refused", "describe", "elements"]
