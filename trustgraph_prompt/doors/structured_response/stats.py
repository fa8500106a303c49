"""How reading goes, in one look."""

from __future__ import annotations

from typing import Any

from trustgraph_prompt.doors.structured_response.cache import ResponseCache
from trustgraph_prompt.doors.structured_response.metrics import ResponseMetrics
from trustgraph_prompt.doors.structured_response.schema import CURRENT_SCHEMA_VERSION


def get_parse_stats(
    metrics: ResponseMetrics | None = None, cache: ResponseCache | None = None
) -> dict[str, Any]:
    """What was read (`parsing`), found again (`cache`), and promised (`slo`); by default of all who share."""
    metrics = metrics or ResponseMetrics.get_instance()
    cache = cache or ResponseCache.get_instance()
    return {
        "parsing": metrics.get_stats(),
        "cache": cache.get_stats(),
        "slo": {"success_rate": metrics.get_success_rate(), "schema_version": CURRENT_SCHEMA_VERSION},
    }


def reset_stats() -> None:
    """Begin anew: the metrics and the cache that all share are made afresh."""
    ResponseMetrics.reset()
    ResponseCache.reset()
