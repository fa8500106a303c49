"""In TrustGraph's place: its config service, which has the flows and prompts, and what they mean for us."""

from __future__ import annotations

from trustgraph_prompt.worker.trustgraph.config_service import ConfigService
from trustgraph_prompt.worker.trustgraph.processor import CONCURRENCY, Processor

__all__ = ["CONCURRENCY", "ConfigService", "Processor"]
