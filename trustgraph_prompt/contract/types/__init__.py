"""Python types as contracts: makes JSON Schemas of dataclasses and Pydantic models, and builds instances."""

from __future__ import annotations

from trustgraph_prompt.contract.types.annotations import describe
from trustgraph_prompt.contract.types.instances import Build, Refused, elements

__all__ = ["Build", "Refused", "describe", "elements"]
