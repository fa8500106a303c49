"""Caches structured responses, and texts without one, in this process."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any, Self

from cachetools import TLRUCache

from trustgraph_prompt.doors.structured_response.metrics import DefaultInstance, ResponseMetrics
from trustgraph_prompt.doors.structured_response.parser import ResponseParser
from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.doors.structured_response.schema import CURRENT_SCHEMA_VERSION, STRUCTURED_RESPONSE
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.json_text.encoding import encode


@dataclass(frozen=True)
class CacheEntry:
    """A text and the result of reading it; a negative entry has no response.

    `created_at` is in seconds since the epoch, for people: expiry does not depend on it.
    """

    raw_response: str
    parsed_json: dict[str, Any] | None
    structured_response: StructuredResponse | None
    validation_result: bool
    reason_code: Reason
    fallback_used: str
    created_at: float
    ttl_seconds: float


class ResponseCache(DefaultInstance):
    """Stores results of reading by key, each with a time to live; thread-safe.

    It stores and returns copies. Has at most `max_size` entries; the least recently used one is evicted
    first. Lookups are also counted in `metrics`.
    """

    DEFAULT_TTL_ONLINE = 300
    DEFAULT_TTL_CI = 3600
    DEFAULT_TTL_NEGATIVE = 60
    MAX_CACHE_SIZE = 1000

    def __init__(
        self,
        max_size: int = MAX_CACHE_SIZE,
        *,
        metrics: ResponseMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_size = max_size
        self._metrics = metrics
        self._lock = Lock()
        self._entries: TLRUCache[str, CacheEntry] = TLRUCache(
            max_size, ttu=lambda _, entry, now: now + entry.ttl_seconds, timer=clock
        )
        self._hits = self._negative_hits = self._misses = 0

    @classmethod
    def _make_default(cls) -> Self:
        return cls(metrics=ResponseMetrics.get_instance())

    @staticmethod
    def compute_key(
        model_id: str, prompt_version: str, query: str, doc_ids: Iterable[object] | None, raw_text: str
    ) -> str:
        """Hash everything that a response depends on, including the contract.

        The order of `doc_ids` does not matter; they may be of any type that `str` converts.
        """
        ids = [doc_ids] if isinstance(doc_ids, str) else list(doc_ids or ())
        parts = [
            *(STRUCTURED_RESPONSE.fingerprint, model_id, prompt_version, query, raw_text),
            *sorted(json.dumps(id, sort_keys=True, default=str) for id in ids),
        ]
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()

    def get(self, key: str) -> CacheEntry | None:
        """Look up an entry, None without one; a negative entry has no `structured_response`."""
        with self._lock:
            entry = self._entries.get(key)
            self._hits += entry is not None
            self._negative_hits += entry is not None and not entry.validation_result
            self._misses += entry is None
        if self._metrics is not None:
            self._metrics.record_lookup(hit=entry is not None)
        return deepcopy(entry)

    def set(
        self,
        key: str,
        raw_response: str,
        parsed_json: dict[str, Any] | None,
        structured_response: StructuredResponse | None,
        validation_result: bool,
        reason_code: Reason,
        fallback_used: str,
        ttl_seconds: float | None = None,
    ) -> None:
        """Store the result of reading a text, replacing the previous entry.

        `ttl_seconds` is `DEFAULT_TTL_ONLINE` by default, `DEFAULT_TTL_NEGATIVE` if not `validation_result`;
        with 0 or less, nothing changes. Raises `ValueError` if it is not finite or the entry is not JSON.
        """
        if ttl_seconds is None:
            ttl_seconds = self.DEFAULT_TTL_ONLINE if validation_result else self.DEFAULT_TTL_NEGATIVE
        if not math.isfinite(ttl_seconds):
            raise ValueError(f"ttl_seconds is {ttl_seconds}, expected a finite number")
        entry = CacheEntry(
            raw_response,
            parsed_json,
            structured_response,
            validation_result,
            reason_code,
            fallback_used,
            time.time(),
            ttl_seconds,
        )
        try:
            encode(entry)
            entry = deepcopy(entry)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the entry is not JSON: {error}") from error
        if ttl_seconds > 0:
            with self._lock:
                self._entries.pop(key, None)  # so that the cache evicts none to make room for it
                if self.max_size >= 1:
                    self._entries[key] = entry

    def warm(self, responses: Mapping[str, str], ttl_seconds: float | None = None) -> int:
        """Read texts in advance and store each by its key; returns how many contained a response.

        The metrics do not count them.
        """
        valid = 0
        for key, text in responses.items():
            outcome = ResponseParser.read(text)
            response, fallback = ResponseParser.result(outcome)
            valid += response is not None
            parsed = None if response is None else response.to_dict()
            self.set(key, text, parsed, response, response is not None, outcome.reason, fallback, ttl_seconds)
        return valid

    def clear(self) -> None:
        """Delete all entries, but not the counts."""
        with self._lock:
            self._entries.clear()

    def get_stats(self) -> dict[str, Any]:
        """The number of entries (`size`), how many there may be, and the counts of lookups."""
        with self._lock:
            lookups = self._hits + self._misses
            return {
                "size": len(self._entries),
                "max_size": self.max_size,
                "hits": self._hits,
                "negative_hits": self._negative_hits,
                "misses": self._misses,
                "hit_rate": round(self._hits / lookups, 4) if lookups else 0.0,
            }


def get_parse_stats(
    metrics: ResponseMetrics | None = None, cache: ResponseCache | None = None
) -> dict[str, Any]:
    """Statistics of `parsing` and `cache`, and the `slo`; by default of the shared instances."""
    metrics = metrics or ResponseMetrics.get_instance()
    cache = cache or ResponseCache.get_instance()
    return {
        "parsing": metrics.get_stats(),
        "cache": cache.get_stats(),
        "slo": {"success_rate": metrics.get_success_rate(), "schema_version": CURRENT_SCHEMA_VERSION},
    }


def reset_stats() -> None:
    """Discard the shared instances of metrics and cache."""
    ResponseMetrics.reset()
    ResponseCache.reset()
