"""A cache of structured responses, and of texts known to hold none; in this process or shared."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Protocol, Self, TypeVar

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
    """A text, and what came of reading it; a negative one where that was nothing.

    `created_at` is in seconds since the epoch, for people: what has expired is known without it.
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
        """As JSON. Raises `ValueError` where `parsed_json` is none."""
        response = self.structured_response
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["structured_response"] = None if response is None else response.to_dict()
        fields["truncated"] = response is not None and response.truncated
        try:
            return encode(fields)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"a cache of responses keeps JSON: {error}") from error

    @classmethod
    def unpack(cls, data: bytes) -> CacheEntry | None:
        """None where it is no entry, or its response would not be accepted any more."""
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
                    built = _response(response, truncated=truncated)
                    return cls(raw, parsed, built, valid, Reason(reason), fallback, created, ttl)
        except (NotJson, ValueError, StructuredOutputInvalid):
            pass
        return None


def _response(fields: Mapping[str, Any] | None, *, truncated: bool) -> StructuredResponse | None:
    return None if fields is None else StructuredResponse.from_dict(fields, truncated=truncated)


T = TypeVar("T")

PREFIX = "response:"


class Store(Protocol):
    """Keeps bytes under keys, each for its seconds; safe under threads."""

    def get(self, key: str) -> bytes | None:
        """What is kept under the key, None where there is nothing."""

    def set(self, key: str, value: bytes, seconds: float) -> None:
        """Keep it so long, or shorter where there is no room."""

    def clear(self) -> None:
        """Forget everything that is kept for this process alone."""

    def __len__(self) -> int:
        """How many entries are kept for this process alone."""

    def close(self) -> None:
        """Give back what it takes to keep them. Idempotent."""


class InMemory:
    """At most so many; what was used least recently goes first."""

    def __init__(self, max_size: int, clock: Callable[[], float]) -> None:
        self._lock = Lock()
        self._kept: TLRUCache[str, tuple[bytes, float]] = TLRUCache(
            max_size, ttu=lambda _, kept, now: now + kept[1], timer=clock
        )

    def get(self, key: str) -> bytes | None:
        with self._lock:
            kept = self._kept.get(key)
        return None if kept is None else kept[0]

    def set(self, key: str, value: bytes, seconds: float) -> None:
        with self._lock:
            self._kept.pop(key, None)
            if self._kept.maxsize >= 1:
                self._kept[key] = value, seconds

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def close(self) -> None: ...


class Shared:
    """A cache of `ask`, for those who do not await: it runs in a thread of its own."""

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
        """What others share is not this process's to forget."""

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        if self._run(self._end, last=True):
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]], *, last: bool = False) -> T | None:
        """What comes of some work in the thread, None once it was the last."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_closed = last
            running = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return running.result()

    async def _end(self) -> bool:
        """Wait for those who still wait for an answer, and close the cache."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        await self._cache.close()
        return True


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
