"""Caches structured responses, and texts without one, in this process or in a shared cache."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from cachetools import TLRUCache

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.doors.structured_response.metrics import DefaultInstance, ResponseMetrics
from trustgraph_prompt.doors.structured_response.parser import ResponseParser
from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.doors.structured_response.schema import CURRENT_SCHEMA_VERSION, STRUCTURED_RESPONSE
from trustgraph_prompt.errors import Reason, StructuredOutputInvalid
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.reader.decode import NotJson, decode


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

    def pack(self) -> bytes:
        """Encode the entry as JSON. Raises `ValueError` if `parsed_json` cannot be."""
        response = self.structured_response
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["structured_response"] = None if response is None else response.to_dict()
        fields["truncated"] = response is not None and response.truncated
        try:
            return encode(fields)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the entry is not JSON: {error}") from error

    @classmethod
    def unpack(cls, data: bytes) -> CacheEntry | None:
        """Decode an entry; None for anything else, and for a response that is no longer accepted."""
        try:
            match decode(data.decode()):
                case {
                    "raw_response": str() as raw,
                    "parsed_json": dict() | None as parsed,
                    "structured_response": dict() | None as response,
                    "truncated": bool() as truncated,
                    "validation_result": bool() as valid,
                    "reason_code": str() as reason,
                    "fallback_used": str() as fallback,
                    "created_at": int() | float() as created,
                    "ttl_seconds": int() | float() as ttl,
                }:
                    built = None
                    if response is not None:
                        built = StructuredResponse.from_dict(response, truncated=truncated)
                    return cls(raw, parsed, built, valid, Reason(reason), fallback, created, ttl)
        except (NotJson, ValueError, StructuredOutputInvalid):
            pass
        return None


T = TypeVar("T")

PREFIX = "response:"


class InMemory:
    """Stores bytes by key, each with a time to live in seconds; thread-safe.

    Has at most `max_size` entries; the least recently used one is evicted first.
    """

    def __init__(self, max_size: int, clock: Callable[[], float]) -> None:
        self._lock = Lock()
        self._entries: TLRUCache[str, tuple[bytes, float]] = TLRUCache(
            max_size, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )

    def get(self, key: str) -> bytes | None:
        with self._lock:
            entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def set(self, key: str, value: bytes, seconds: float) -> None:
        with self._lock:
            self._entries.pop(key, None)
            if self._entries.maxsize >= 1:
                self._entries[key] = value, seconds

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def close(self) -> None: ...


class Shared:
    """The same interface to a shared cache of `ask`, whose event loop runs in a thread of its own."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="shared response cache", daemon=True)
        self._thread.start()
        self._lock = Lock()
        self._is_closed = False

    def get(self, key: str) -> bytes | None:
        return self._run(lambda: self._cache.look_up(PREFIX + key))

    def set(self, key: str, value: bytes, seconds: float) -> None:
        async def keep() -> None:
            await self._cache.keep(PREFIX + key, value, seconds)

        self._run(keep)

    def clear(self) -> None:
        """Does nothing: other processes share the entries."""

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        if self._run(self._end, last=True):
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]], *, last: bool = False) -> T | None:
        """Run a coroutine in the thread and return its result; None after the last one."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_closed = last
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return future.result()

    async def _end(self) -> bool:
        """Wait for calls in progress, and close the cache."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        await self._cache.close()
        return True


class ResponseCache(DefaultInstance):
    """Stores results of reading by key, each with a time to live; thread-safe.

    It stores and returns copies. At most `max_size` entries are in memory; the least recently used one is
    evicted first. With `shared`, entries are stored there instead, without `max_size`. Lookups are also
    counted in `metrics`.
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
        self._store = InMemory(max_size, clock) if shared is None else Shared(shared)
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
        packed = entry.pack()
        if ttl_seconds > 0:
            self._store.set(key, packed, ttl_seconds)

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
        """Delete all entries in memory, but not the counts; shared entries expire by themselves."""
        self._store.clear()

    def get_stats(self) -> dict[str, Any]:
        """The entries in memory (`size`, `max_size`) and the counts of lookups."""
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
        """Close the shared cache, which is empty from then on. Idempotent."""
        self._store.close()


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
