"""A cache of responses that were read before, and of texts that are known to hold none."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Self

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.doors.structured_response.cache_entry import CacheEntry
from trustgraph_prompt.doors.structured_response.cache_stores import InMemory, Shared, Store
from trustgraph_prompt.doors.structured_response.default_instance import DefaultInstance
from trustgraph_prompt.doors.structured_response.metrics import ResponseMetrics
from trustgraph_prompt.doors.structured_response.parser import ResponseParser
from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.doors.structured_response.schema import STRUCTURED_RESPONSE
from trustgraph_prompt.errors import Reason


class ResponseCache(DefaultInstance):
    """Keeps what was read under keys, each for a time of its own; safe under threads.

    What goes in and what comes out are copies: nobody changes what others find. At most `max_size` entries
    are in memory; what was used least recently goes first. With `shared` they are there instead, for all who
    share it, and room is its own matter. Lookups are counted in `metrics`, too.
    """

    DEFAULT_TTL_ONLINE = 300
    DEFAULT_TTL_CI = 3600
    DEFAULT_TTL_NEGATIVE = 60
    MAX_CACHE_SIZE = 1000

    def __init__(
        self,
        max_size: int = MAX_CACHE_SIZE,
        *,
        shared: Cache | None = None,
        metrics: ResponseMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_size = max_size
        self._store: Store = InMemory(max_size, clock) if shared is None else Shared(shared)
        self._metrics = metrics
        self._lock = Lock()
        self._hits = self._negative_hits = self._misses = 0

    @classmethod
    def _make_default(cls) -> Self:
        return cls(metrics=ResponseMetrics.get_instance())

    @staticmethod
    def compute_key(
        model_id: str, prompt_version: str, query: str, doc_ids: Iterable[object] | None, raw_text: str
    ) -> str:
        """A hash of all that a response came of, and of what a response must be.

        The order of `doc_ids` does not matter; they may be of any type that has a text.
        """
        ids = [doc_ids] if isinstance(doc_ids, str) else list(doc_ids or ())
        parts = [
            *(STRUCTURED_RESPONSE.fingerprint, model_id, prompt_version, query, raw_text),
            *sorted(json.dumps(id, sort_keys=True, default=str) for id in ids),
        ]
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()

    def get(self, key: str) -> CacheEntry | None:
        """What is kept there, None for nothing; a negative entry has no `structured_response`."""
        data = self._store.get(key)
        entry = None if data is None else CacheEntry.unpack(data)
        with self._lock:
            self._hits += entry is not None
            self._negative_hits += entry is not None and not entry.validation_result
            self._misses += entry is None
        if self._metrics is not None:
            self._metrics.record_lookup(hit=entry is not None)
        return entry

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
        """Keep what came of a text, in place of what is there.

        Without `ttl_seconds` it is kept for `DEFAULT_TTL_ONLINE`, or `DEFAULT_TTL_NEGATIVE` where it was
        nothing; with no time left it changes nothing. Raises `ValueError` for what is no time or no JSON.
        """
        if ttl_seconds is None:
            ttl_seconds = self.DEFAULT_TTL_ONLINE if validation_result else self.DEFAULT_TTL_NEGATIVE
        if not math.isfinite(ttl_seconds):
            raise ValueError(f"an entry is kept for some seconds, not for {ttl_seconds}")
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
        packed = entry.pack()
        if ttl_seconds > 0:
            self._store.set(key, packed, ttl_seconds)

    def warm(self, responses: Mapping[str, str], ttl_seconds: float | None = None) -> int:
        """Read texts that are likely to come, and keep each under its key; how many held a response.

        Nobody asked for them, and they are not counted.
        """
        found = 0
        for key, text in responses.items():
            outcome = ResponseParser.read(text)
            response, fallback = ResponseParser.told(outcome)
            found += response is not None
            parsed = None if response is None else response.to_dict()
            self.set(key, text, parsed, response, response is not None, outcome.reason, fallback, ttl_seconds)
        return found

    def clear(self) -> None:
        """Forget all entries in memory, and keep the counts; what is shared is left to expire."""
        self._store.clear()

    def get_stats(self) -> dict[str, Any]:
        """How much is in memory (`size`, `max_size`), and what came of lookups."""
        size = len(self._store)
        with self._lock:
            lookups = self._hits + self._misses
            return {
                "size": size,
                "max_size": self.max_size,
                "hits": self._hits,
                "negative_hits": self._negative_hits,
                "misses": self._misses,
                "hit_rate": round(self._hits / lookups, 4) if lookups else 0.0,
            }

    def close(self) -> None:
        """Give back the connections of what is shared, after which there is nothing in it. Idempotent."""
        self._store.close()
