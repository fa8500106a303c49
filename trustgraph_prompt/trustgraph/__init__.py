"""A worker in TrustGraph's place: its config service, flow definitions, extractors and metrics.

Its records are in `wire` and its template dialect in `prompts`, which lower rooms need (decision 0043).
"""

from __future__ import annotations
