"""The structured response (AION): an answer that states how many of the available items it shows."""

from __future__ import annotations

from trustgraph_prompt.doors.structured_response.metrics import ResponseMetrics, StageLatency
from trustgraph_prompt.doors.structured_response.parser import ResponseParser
from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.doors.structured_response.response_cache import (
    CacheEntry,
    ResponseCache,
    get_parse_stats,
    reset_stats,
)
from trustgraph_prompt.doors.structured_response.schema import (
    CURRENT_SCHEMA_VERSION,
    RESPONSE_SCHEMA,
    RESPONSE_SCHEMA_INSTRUCTIONS,
    STRUCTURED_RESPONSE,
    SUPPORTED_SCHEMA_VERSIONS,
    CountQualifier,
)
from trustgraph_prompt.doors.structured_response.validator import ReasonCode, ResponseValidator

__all__ = [
    "CURRENT_SCHEMA_VERSION",
    "RESPONSE_SCHEMA",
    "RESPONSE_SCHEMA_INSTRUCTIONS",
    "STRUCTURED_RESPONSE",
    "SUPPORTED_SCHEMA_VERSIONS",
    "CacheEntry",
    "CountQualifier",
    "ReasonCode",
    "ResponseCache",
    "ResponseMetrics",
    "ResponseParser",
    "ResponseValidator",
    "StageLatency",
    "StructuredResponse",
    "get_parse_stats",
    "reset_stats",
]
