"""What is counted of structured responses (seed 3), under threads, and exported by exporters of any kind."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from types import ModuleType

import pytest
from prometheus_client import REGISTRY

from trustgraph_prompt.doors.structured_response import (
    ReasonCode,
    ResponseCache,
    ResponseMetrics,
    ResponseParser,
    StageLatency,
    get_parse_stats,
    reset_stats,
)

SOUND = '{"answer": "test", "items_shown": 5}'
THREADS, TIMES = 8, 200


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    reset_stats()
    yield
    reset_stats()


@pytest.fixture
def metrics() -> ResponseMetrics:
    return ResponseMetrics()


def parse(text: str, metrics: ResponseMetrics | None = None) -> None:
    ResponseParser.parse_with_fallbacks(text, metrics=metrics)


class TestCounting:
    def test_each_parsed_text_is_counted_by_stage_reason_and_latency(self, metrics: ResponseMetrics) -> None:
        for text in (
            SOUND,
            f"```json\n{SOUND}\n```",
            SOUND.replace(",", ""),
            SOUND[:-1],
            "not json",
            "",
            '{"answer": "test"}',
            "{'answer': 'test'}",
            '{"answer": 5, "items_shown": 1}',
            '{"answer": "a", "items_shown": 2, "items_total": 1}',
            '{"answer": "a", "items_shown": 2, "schema_version": "9.9"}',
            '{"answer": "a',
        ):
            parse(text, metrics)

        stats = metrics.get_stats()
        assert stats["counters"] == {
            "direct_parse_ok": 1,
            "extract_ok": 1,
            "repair_ok": 2,
            "salvage_ok": 1,
            "final_failed": 8,
        }
        assert {code: count for code, count in stats["reason_codes"].items() if count} == {
            "success": 4,
            "extraction_failed": 1,
            "empty": 1,
            "schema_missing_field": 1,
            "repair_failed": 1,
            "schema_type_error": 1,
            "invariant_violation": 1,
            "unsupported_version": 1,
            "truncated": 1,
        }
        latency = stats["latency"]
        assert [latency[stage]["count"] for stage in ("parse", "extract", "repair", "total")] == [1, 1, 2, 12]
        assert metrics.get_success_rate() == pytest.approx(4 / 12)

    def test_text_parsed_with_metrics_disabled_is_not_counted(self) -> None:
        ResponseParser.parse_with_fallbacks(SOUND, enable_metrics=False)

        assert get_parse_stats()["parsing"]["counters"]["direct_parse_ok"] == 0

    def test_metrics_handed_in_are_the_only_ones_that_count(self, metrics: ResponseMetrics) -> None:
        parse(SOUND, metrics)

        assert metrics.get_stats()["counters"]["direct_parse_ok"] == 1
        assert get_parse_stats()["parsing"]["counters"]["direct_parse_ok"] == 0
        assert get_parse_stats(metrics)["parsing"]["counters"]["direct_parse_ok"] == 1

    def test_success_rate_is_1_before_the_first_text(self, metrics: ResponseMetrics) -> None:
        assert metrics.get_success_rate() == 1.0
        assert metrics.get_stats()["latency"]["total"] == StageLatency().to_dict()

    def test_counters_and_latencies_can_be_added_by_hand(self, metrics: ResponseMetrics) -> None:
        metrics.increment("final_failed")
        metrics.increment("extract_ok", 3)
        metrics.record_failure(ReasonCode.REPAIR_FAILED)
        metrics.record_latency("repair", 12.3456)

        stats = metrics.get_stats()
        assert (stats["counters"]["final_failed"], stats["counters"]["extract_ok"]) == (1, 3)
        assert stats["reason_codes"]["repair_failed"] == 1
        assert stats["latency"]["repair"]["max_ms"] == 12.35
        assert metrics.get_success_rate() == 0.75

    def test_unknown_counter_or_stage_is_ignored_and_logged(
        self, metrics: ResponseMetrics, caplog: pytest.LogCaptureFixture
    ) -> None:
        before = metrics.get_stats()

        metrics.increment("direct_parse_okay")
        metrics.record_latency("parsing", 1.0)

        assert metrics.get_stats() == before
        assert "direct_parse_okay" in caplog.text
        assert "parsing" in caplog.text

    def test_many_threads_lose_no_count(self, metrics: ResponseMetrics) -> None:
        def work(_: int) -> None:
            for _ in range(TIMES):
                parse(SOUND, metrics)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(work, range(THREADS)))

        stats = metrics.get_stats()
        assert stats["counters"]["direct_parse_ok"] == stats["reason_codes"]["success"] == THREADS * TIMES
        assert stats["latency"]["total"]["count"] == THREADS * TIMES


class TestLatency:
    def test_latency_reports_least_most_average_and_percentiles(self) -> None:
        latency = StageLatency()
        for milliseconds in range(1, 101):
            latency.record(float(milliseconds))

        assert latency.to_dict() == {
            "count": 100,
            "total_ms": 5050.0,
            "avg_ms": 50.5,
            "min_ms": 1.0,
            "max_ms": 100.0,
            "p50_ms": 50.0,
            "p95_ms": 95.0,
            "p99_ms": 99.0,
        }

    def test_percentiles_are_of_the_latest_values_in_bounded_memory(self) -> None:
        latency = StageLatency()
        for milliseconds in [1000.0] * 5000 + [1.0] * 1000:
            latency.record(milliseconds)

        assert (latency.percentile(99), len(latency.latest)) == (1.0, 1000)
        assert (latency.max_ms, latency.count) == (1000.0, 6000)


class TestExporter:
    def test_exporter_hears_each_changed_counter_and_rate(self, metrics: ResponseMetrics) -> None:
        told: list[tuple[str, float]] = []
        metrics.set_exporter(lambda name, value: told.append((name, value)))

        parse(SOUND, metrics)
        parse("not json", metrics)

        assert told == [
            ("response_parse_direct_parse_ok", 1),
            ("response_parse_success_rate", 1.0),
            ("response_parse_reason_success", 1),
            ("response_parse_final_failed", 1),
            ("response_parse_success_rate", 0.5),
            ("response_parse_reason_extraction_failed", 1),
        ]

    def test_exporter_that_reads_or_counts_does_not_deadlock(self, metrics: ResponseMetrics) -> None:
        seen: list[int] = []

        def exporter(name: str, value: int) -> None:
            metrics.increment("extract_ok")
            seen.append(metrics.get_stats()["counters"]["direct_parse_ok"])

        metrics.set_exporter(exporter)
        thread = Thread(target=parse, args=(SOUND, metrics), daemon=True)
        thread.start()
        thread.join(60)

        assert not thread.is_alive(), "the exporter waits for itself"
        assert seen == [1, 1, 1]

    def test_exporter_that_waits_for_a_counting_thread_does_not_deadlock(
        self, metrics: ResponseMetrics
    ) -> None:
        of_the_other = Event()

        def exporter(name: str, value: int) -> None:
            if name == "response_parse_direct_parse_ok":
                other = Thread(target=metrics.increment, args=("extract_ok",), daemon=True)
                other.start()
                other.join(60)
                assert not other.is_alive()
            if (name, value) == ("response_parse_extract_ok", 1):
                of_the_other.set()

        metrics.set_exporter(exporter)
        parse(SOUND, metrics)

        assert of_the_other.wait(60)

    def test_counting_thread_returns_though_others_count_without_end(self, metrics: ResponseMetrics) -> None:
        done = Event()

        def exporter(name: str, value: int) -> None:
            if not done.is_set():
                other = Thread(target=metrics.increment, args=("extract_ok",))
                other.start()
                other.join(60)

        metrics.set_exporter(exporter)
        counting = Thread(target=parse, args=(SOUND, metrics), daemon=True)
        counting.start()
        counting.join(60)

        assert not counting.is_alive(), "it tells for ever"
        done.set()

    def test_exporter_hears_all_values_where_no_thread_can_be_started(
        self, metrics: ResponseMetrics, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        telling = Event()
        told: list[str] = []

        def count_meanwhile() -> None:
            assert telling.wait(60)
            metrics.increment("extract_ok")

        def exporter(name: str, value: int) -> None:
            telling.set()
            other.join(60)
            told.append(name)

        def no_room(thread: Thread) -> None:
            raise RuntimeError("can't start new thread")

        other = Thread(target=count_meanwhile)
        other.start()
        metrics.set_exporter(exporter)
        monkeypatch.setattr(Thread, "start", no_room)
        metrics.increment("final_failed")

        assert "response_parse_extract_ok" in told

    def test_exported_values_never_decrease_and_the_last_is_exported(self, metrics: ResponseMetrics) -> None:
        told: list[int] = []
        start, last = Barrier(THREADS), Event()

        def exporter(name: str, value: int) -> None:
            if name == "response_parse_direct_parse_ok":
                told.append(value)
                if value == THREADS * TIMES:
                    last.set()

        def work(_: int) -> None:
            start.wait()
            for _ in range(TIMES):
                metrics.increment("direct_parse_ok")

        metrics.set_exporter(exporter)
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(work, range(THREADS)))

        assert last.wait(60)
        assert told == sorted(told)

    def test_slow_exporter_does_not_hold_up_other_threads(self, metrics: ResponseMetrics) -> None:
        begun, go = Event(), Event()

        def exporter(name: str, value: int) -> None:
            begun.set()
            assert go.wait(60)

        metrics.set_exporter(exporter)
        slow = Thread(target=parse, args=(SOUND, metrics))
        slow.start()
        assert begun.wait(60)

        parse(SOUND, metrics)  # would wait for ever

        assert metrics.get_stats()["counters"]["direct_parse_ok"] == 2
        go.set()
        slow.join(60)

    def test_error_of_an_exporter_is_logged_once_until_it_works_again(
        self, metrics: ResponseMetrics, caplog: pytest.LogCaptureFixture
    ) -> None:
        failing = Event()

        def exporter(name: str, value: int) -> None:
            if failing.is_set():
                raise OSError("nobody listens")

        metrics.set_exporter(exporter)
        with caplog.at_level(logging.INFO):
            failing.set()
            parse(SOUND, metrics)
            failing.clear()
            parse(SOUND, metrics)
            failing.set()
            parse(SOUND, metrics)

        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
        assert "nobody listens" in caplog.text
        assert metrics.get_stats()["counters"]["direct_parse_ok"] == 3

    def test_prometheus_exporter_of_the_seed_works_as_written(self, metrics: ResponseMetrics) -> None:
        def prometheus_exporter(metric_name: str, value: int) -> None:
            from prometheus_client import Gauge

            gauge = Gauge(metric_name, f"Response parsing metric: {metric_name}")
            gauge.set(value)

        metrics.set_exporter(prometheus_exporter)
        for text in (SOUND, SOUND, SOUND, "not json"):
            parse(text, metrics)
        cache = ResponseCache(metrics=metrics)
        cache.get("nothing")

        for name, value in (
            ("response_parse_direct_parse_ok", 3),
            ("response_parse_final_failed", 1),
            ("response_parse_success_rate", 0.75),
            ("response_cache_misses", 1),
        ):
            assert REGISTRY.get_sample_value(name) == value
        forget_gauges()

    def test_statsd_exporter_of_the_seed_works_as_written(
        self, metrics: ResponseMetrics, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(60)
            monkeypatch.setitem(sys.modules, "statsd", statsd_of(server.getsockname()))

            def statsd_exporter(metric_name: str, value: int) -> None:
                import statsd  # type: ignore[import-not-found]

                client = statsd.StatsClient()
                client.gauge(metric_name, value)

            metrics.set_exporter(statsd_exporter)
            parse(SOUND, metrics)

            assert server.recv(100) == b"response_parse_direct_parse_ok:1|g"


class TestTheDefaultInstance:
    def test_default_instance_is_the_same_in_all_threads(self) -> None:
        start = Barrier(THREADS)

        def get(_: int) -> int:
            start.wait()
            return id(ResponseMetrics.get_instance())

        with ThreadPoolExecutor(THREADS) as threads:
            assert len(set(threads.map(get, range(THREADS)))) == 1

    def test_default_instance_is_new_after_a_reset_and_the_old_one_still_works(self) -> None:
        old = ResponseMetrics.get_instance()
        parse(SOUND)

        ResponseMetrics.reset()

        assert ResponseMetrics.get_instance() is not old
        assert ResponseMetrics.get_instance().get_stats()["counters"]["direct_parse_ok"] == 0
        assert old.get_stats()["counters"]["direct_parse_ok"] == 1


def test_get_parse_stats_shows_parsing_and_cache_until_reset() -> None:
    parse(SOUND)
    parse("not json")
    ResponseCache.get_instance().get("nothing")

    stats = get_parse_stats()
    assert stats["parsing"]["counters"]["direct_parse_ok"] == 1
    assert stats["slo"] == {"success_rate": 0.5, "schema_version": "1.0"}
    assert stats["cache"]["misses"] == 1

    reset_stats()
    assert get_parse_stats()["slo"]["success_rate"] == 1.0
    assert get_parse_stats()["cache"]["misses"] == 0


def forget_gauges() -> None:
    """Leave Prometheus' registry, which all tests share, as it was."""
    for metric in list(REGISTRY.collect()):
        if metric.name.startswith("response_"):
            REGISTRY.unregister(REGISTRY._names_to_collectors[metric.name])


def statsd_of(address: tuple[str, int]) -> ModuleType:
    """As much of the client for statsd as seed 3 uses."""

    class StatsClient:
        def gauge(self, name: str, value: float) -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.sendto(f"{name}:{value}|g".encode(), address)

    module = ModuleType("statsd")
    vars(module)["StatsClient"] = StatsClient
    return module
