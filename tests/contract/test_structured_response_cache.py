"""What the cache of structured responses promises (seed 3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from trustgraph_prompt.doors.structured_response import (
    ReasonCode,
    ResponseCache,
    ResponseMetrics,
    ResponseParser,
    StructuredResponse,
)

SOUND = '{"answer": "test", "items_shown": 5, "sources": [{"title": "ADR.21"}]}'


@pytest.fixture
def cache() -> ResponseCache:
    return ResponseCache()


def keep(cache: ResponseCache, key: str, text: str = SOUND, **options: Any) -> StructuredResponse | None:
    """Parse a text and keep it, as seed 3 does."""
    response, fallback = ResponseParser.parse_with_fallbacks(text, enable_metrics=False)
    cache.set(
        key,
        raw_response=text,
        parsed_json=response.to_dict() if response else None,
        structured_response=response,
        validation_result=response is not None,
        reason_code=ReasonCode.SUCCESS if response else ReasonCode.INVALID_JSON,
        fallback_used=fallback,
        **options,
    )
    return response


def test_kept_response_is_found_with_all_its_fields(cache: ResponseCache) -> None:
    response = keep(cache, "a", ttl_seconds=300)

    entry = cache.get("a")

    assert entry is not None
    assert (entry.structured_response, entry.raw_response) == (response, SOUND)
    assert entry.parsed_json == response.to_dict() if response else False
    assert (entry.validation_result, entry.reason_code) == (True, ReasonCode.SUCCESS)
    assert (entry.fallback_used, entry.ttl_seconds) == ("direct_parse", 300)
    assert cache.get("b") is None
    stats = cache.get_stats()
    assert (stats["hits"], stats["misses"], stats["hit_rate"]) == (1, 1, 0.5)


def test_kept_failure_is_found_too(cache: ResponseCache) -> None:
    keep(cache, "a", "not json")

    entry = cache.get("a")

    assert entry is not None
    assert (entry.structured_response, entry.validation_result) == (None, False)
    assert entry.fallback_used == "parse_failed: no JSON in the answer"
    assert entry.ttl_seconds == ResponseCache.DEFAULT_TTL_NEGATIVE < ResponseCache.DEFAULT_TTL_ONLINE
    assert cache.get_stats()["negative_hits"] == 1


def test_changes_to_a_found_response_do_not_reach_the_cache(cache: ResponseCache) -> None:
    response = keep(cache, "a")
    assert response is not None
    response.items_shown = 99
    response.sources[0]["title"] = "changed"
    for _ in range(2):
        entry = cache.get("a")

        assert entry is not None
        found, parsed = entry.structured_response, entry.parsed_json
        assert found is not None
        assert parsed is not None
        assert (found.items_shown, found.sources) == (5, [{"title": "ADR.21"}])
        assert parsed["sources"] == [{"title": "ADR.21"}]
        found.items_total = 7
        found.sources.clear()
        parsed["sources"].clear()


@pytest.mark.parametrize("version", ["1.0", "1.1", "2.0"])
def test_a_response_of_any_version_is_kept_and_that_it_was_cut(cache: ResponseCache, version: str) -> None:
    response, _ = ResponseParser.parse_with_fallbacks(SOUND[:-1], enable_metrics=False)
    assert response is not None
    moved = response.migrate(version)
    cache.set("a", SOUND[:-1], None, moved, True, ReasonCode.SUCCESS, "repaired_json")

    entry = cache.get("a")

    assert entry is not None
    assert entry.structured_response == moved
    assert moved.truncated


def test_last_entry_under_a_key_counts(cache: ResponseCache) -> None:
    keep(cache, "a", "not json")
    keep(cache, "a", SOUND)

    entry = cache.get("a")
    assert entry is not None
    assert entry.validation_result


def test_with_no_time_left_nothing_is_kept(cache: ResponseCache) -> None:
    keep(cache, "a", ttl_seconds=0)
    keep(cache, "b", ttl_seconds=-5)
    keep(cache, "c", ttl_seconds=60)
    keep(cache, "c", "not json", ttl_seconds=0)

    assert cache.get("a") is cache.get("b") is None
    entry = cache.get("c")
    assert entry is not None
    assert entry.validation_result


def test_warm_keeps_the_parsed_responses_of_given_texts(cache: ResponseCache) -> None:
    assert cache.warm({"a": SOUND, "b": f"So: {SOUND}", "c": "not json"}, ttl_seconds=600) == 2

    entries = [cache.get(key) for key in "abc"]
    assert [entry and entry.fallback_used for entry in entries] == [
        "direct_parse",
        "extracted_json",
        "parse_failed: no JSON in the answer",
    ]
    assert [entry and entry.reason_code for entry in entries][2] is ReasonCode.EXTRACTION_FAILED


def test_entry_that_is_not_json_or_has_no_finite_ttl_is_refused(cache: ResponseCache) -> None:
    with pytest.raises(ValueError, match="the entry is not JSON"):
        cache.set("a", "x", {"when": object()}, None, False, ReasonCode.SUCCESS, "direct_parse")
    for seconds in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="a finite number"):
            keep(cache, "a", ttl_seconds=seconds)


def test_many_threads_use_one_cache_at_once(cache: ResponseCache) -> None:
    def work(thread: int) -> int:
        found = 0
        for n in range(50):
            keep(cache, f"{thread}-{n}")
            found += cache.get(f"{thread}-{n}") is not None
        return found

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(work, range(8))) == 400
    assert cache.get_stats()["hits"] == 400


def test_lookups_are_counted_in_the_given_metrics() -> None:
    metrics, told = ResponseMetrics(), {}
    metrics.set_exporter(lambda name, value: told.update({name: value}))
    cache = ResponseCache(metrics=metrics)

    keep(cache, "a")
    for key in "aab":
        cache.get(key)

    assert told == {"response_cache_hits": 2, "response_cache_misses": 1}


class TestInMemory:
    def test_least_recently_used_entry_is_evicted_and_replacing_evicts_none(self) -> None:
        cache = ResponseCache(max_size=2)
        keep(cache, "a")
        keep(cache, "b")
        keep(cache, "b")
        assert cache.get("a")
        keep(cache, "c")

        assert [cache.get(key) is not None for key in "abc"] == [True, False, True]
        assert cache.get_stats()["size"] == 2

    def test_entries_expire_by_the_given_clock(self) -> None:
        now = 0.0
        cache = ResponseCache(clock=lambda: now)
        keep(cache, "a", ttl_seconds=10)
        keep(cache, "b", ttl_seconds=20)
        keep(cache, "c")

        now = 9.9
        assert cache.get("a")
        now = 10.1
        assert cache.get("a") is None
        assert cache.get_stats()["size"] == 2
        now = ResponseCache.DEFAULT_TTL_ONLINE + 0.1
        assert cache.get_stats()["size"] == 0

    @pytest.mark.parametrize("size", [0, 1])
    def test_cache_keeps_no_more_than_its_maximum_size(self, size: int) -> None:
        cache = ResponseCache(max_size=size)
        keep(cache, "a")
        keep(cache, "b")

        assert cache.get("a") is None
        assert (cache.get("b") is not None) == (size == 1)
        assert cache.get_stats()["size"] == size

    def test_clearing_forgets_entries_and_keeps_counts(self) -> None:
        cache = ResponseCache()
        keep(cache, "a")
        cache.get("a")
        cache.clear()

        assert cache.get("a") is None
        stats = cache.get_stats()
        assert (stats["size"], stats["hits"], stats["misses"]) == (0, 1, 1)

    def test_ttl_and_size_constants_are_those_of_the_seed(self) -> None:
        assert (ResponseCache.DEFAULT_TTL_ONLINE, ResponseCache.DEFAULT_TTL_CI) == (300, 3600)
        assert ResponseCache.MAX_CACHE_SIZE == ResponseCache().get_stats()["max_size"] == 1000


class TestKeys:
    def test_the_order_of_documents_does_not_matter_and_everything_else_does(self) -> None:
        parts: dict[str, Any] = {
            "model_id": "ollama/qwen2.5",
            "prompt_version": "v1.0",
            "query": "What ADRs exist?",
            "doc_ids": ["adr-21", "adr-22"],
            "raw_text": SOUND,
        }
        key = ResponseCache.compute_key(**parts)

        assert ResponseCache.compute_key(**{**parts, "doc_ids": ["adr-22", "adr-21"]}) == key
        assert len(key) == 64
        others = {ResponseCache.compute_key(**{**parts, name: "other"}) for name in parts}
        assert len(others | {key}) == 6

    def test_documents_may_be_named_by_anything(self) -> None:
        def key(*ids: object) -> str:
            return ResponseCache.compute_key("m", "v", "q", ids, "\ud800")

        assert key(1, "1", None, (1, 2), "b") == key("b", (1, 2), None, "1", 1)
        assert len({key(1), key("1"), key(None), key(), key("ab"), key("ba")}) == 6
        assert ResponseCache.compute_key("m", "v", "q", "ab", "") != ResponseCache.compute_key(
            "m", "v", "q", "ba", ""
        )
        assert ResponseCache.compute_key("m", "v", "q", None, "") == ResponseCache.compute_key(
            "m", "v", "q", [], ""
        )
