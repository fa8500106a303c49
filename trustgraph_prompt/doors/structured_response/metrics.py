"""Counts the results of reading structured responses, and passes the counts to an exporter."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from threading import Lock, RLock, Thread, get_ident
from typing import Any, ClassVar, Self

from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Outcome, Stage


class DefaultInstance:
    """A class with one default instance, made on first use."""

    _default: ClassVar[Any] = None
    _default_lock: ClassVar[RLock]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._default, cls._default_lock = None, RLock()

    @classmethod
    def get_instance(cls) -> Self:
        """The shared instance."""
        with cls._default_lock:
            if cls._default is None:
                cls._default = cls._make_default()
            default: Self = cls._default
            return default

    @classmethod
    def reset(cls) -> None:
        """Discard the shared instance: the next use makes a new one."""
        with cls._default_lock:
            cls._default = None

    @classmethod
    def _make_default(cls) -> Self:
        return cls()


log = logging.getLogger(__name__)

Exporter = Callable[[str, Any], None]
"""Called with the name and the value of a metric."""

_STARTING = 0
"""Stands for an exporting thread that has not begun yet; no thread has this identifier."""


class ChangeExporter:
    """Passes changed values to the exporter; `values` returns the present values of all names.

    The exporter is called outside of any lock, in the thread that changed a value. Changes by other threads
    are collected meanwhile and exported by a separate thread afterwards, so that values never go back, and
    no thread is kept busy with the changes of others. Changes by the exporter itself are not exported.
    """

    def __init__(self, values: Callable[[], Mapping[str, float]]) -> None:
        self.exporter: Exporter | None = None
        self._values = values
        self._lock = Lock()
        self._changed: dict[str, None] = {}
        self._exporting_thread: int | None = None
        self._failed: Exporter | None = None  # the exporter, if its last call failed

    def export(self, names: Iterable[str]) -> None:
        """Export the present values of names that have changed."""
        if self.exporter is None:
            return
        with self._lock:
            if self._exporting_thread == get_ident():
                return
            self._changed |= dict.fromkeys(names)
            if self._exporting_thread is not None:
                return
            self._exporting_thread = get_ident()
        if self._export_changes():
            self._exporting_thread = _STARTING
            try:
                Thread(target=self._export_rest, name="metrics exporter").start()
            except RuntimeError:  # the process cannot start more threads
                self._export_rest()

    def _export_rest(self) -> None:
        self._exporting_thread = get_ident()
        while self._export_changes():
            pass

    def _export_changes(self) -> bool:
        """Export collected changes; returns whether there are new ones."""
        with self._lock:
            changed, self._changed = self._changed, {}
        try:
            values = self._values()
            for name in changed:
                self._call_exporter(name, values[name])
        except BaseException:
            self._exporting_thread = None
            raise
        with self._lock:
            if not self._changed:
                self._exporting_thread = None
            return self._exporting_thread is not None

    def _call_exporter(self, name: str, value: float) -> None:
        exporter = self.exporter
        if exporter is None:
            return
        try:
            try:
                exporter(name, value)
            except ValueError as error:
                if "Duplicated timeseries" not in str(error) or not _unregister_gauge(name):
                    raise
                exporter(name, value)
            self._failed = None
        except Exception:
            level = logging.DEBUG if self._failed is exporter else logging.WARNING
            self._failed = exporter  # one warning is enough until it works again
            log.log(level, "the metrics exporter failed for %s", name, exc_info=True)


def _unregister_gauge(name: str) -> bool:
    """Unregister a gauge of this name, as AION's exporter makes a new one for each value.

    The Prometheus client has no public way to look up a collector by its name.
    """
    client = sys.modules.get("prometheus_client")
    if client is None:
        return False
    gauge = client.REGISTRY._names_to_collectors.get(name)
    if not isinstance(gauge, client.Gauge):
        return False
    client.REGISTRY.unregister(gauge)
    return True


LATENCIES_KEPT = 1000
"""The number of latest readings of a stage from which percentiles are computed."""

COUNTERS = ("direct_parse_ok", "extract_ok", "repair_ok", "salvage_ok", "final_failed")
STAGES = ("parse", "extract", "repair", "total")

_READ: Mapping[Stage, tuple[tuple[str, ...], str]] = {
    Stage.NATIVE: (("direct_parse_ok",), "parse"),
    Stage.DIRECT: (("direct_parse_ok",), "parse"),
    Stage.EXTRACTED: (("extract_ok",), "extract"),
    Stage.REPAIRED: (("repair_ok",), "repair"),
    Stage.SALVAGED: (("repair_ok", "salvage_ok"), "repair"),
}


@dataclass
class StageLatency:
    """The duration of readings, in milliseconds."""

    count: int = 0
    total_ms: float = 0.0
    min_ms: float = inf
    max_ms: float = 0.0
    latest: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))

    def record(self, latency_ms: float) -> None:
        self.count += 1
        self.total_ms += latency_ms
        self.min_ms = min(self.min_ms, latency_ms)
        self.max_ms = max(self.max_ms, latency_ms)
        self.latest.append(latency_ms)

    @property
    def avg_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The latency in milliseconds that `percent` of the latest readings did not exceed."""
        ordered = sorted(self.latest)
        return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0

    def to_dict(self) -> dict[str, float]:
        latencies = {
            "total_ms": self.total_ms,
            "avg_ms": self.avg_ms,
            "min_ms": self.min_ms if self.count else 0.0,
            "max_ms": self.max_ms,
            "p50_ms": self.percentile(50),
            "p95_ms": self.percentile(95),
            "p99_ms": self.percentile(99),
        }
        return {"count": self.count, **{name: round(value, 2) for name, value in latencies.items()}}


class ResponseMetrics(DefaultInstance):
    """Counts readings; thread-safe.

    `salvage_ok` counts those of `repair_ok` that were truncated and completed. The latency of a stage is that
    of the readings that ended there, measured from their start; `total` includes all, also failures.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._reason_codes = {reason.value: 0 for reason in Reason}
        self._latencies = {stage: StageLatency() for stage in STAGES}
        self._lookups = {"hits": 0, "misses": 0}
        self._change_exporter = ChangeExporter(self._values)

    def record(self, outcome: Outcome, latency_ms: float) -> None:
        """Count the reading of one text, and its latency."""
        counters, stage = _READ[outcome.stage] if outcome.ok else (("final_failed",), "")
        with self._lock:
            for counter in counters:
                self._counters[counter] += 1
            self._reason_codes[outcome.reason] += 1
            if stage:
                self._latencies[stage].record(latency_ms)
            self._latencies["total"].record(latency_ms)
        self._export(counters, outcome.reason)

    def increment(self, counter: str, value: int = 1) -> None:
        """Increase a counter; logs a warning for an unknown one."""
        if counter not in self._counters:
            log.warning("unknown counter %r", counter)
            return
        with self._lock:
            self._counters[counter] += value
        self._export((counter,))

    def record_latency(self, stage: str, latency_ms: float) -> None:
        """Record the latency of a stage; logs a warning for an unknown one."""
        if stage not in self._latencies:
            log.warning("unknown stage %r", stage)
            return
        with self._lock:
            self._latencies[stage].record(latency_ms)

    def record_failure(self, reason: Reason) -> None:
        """Count a reason. Raises `ValueError` for an unknown one."""
        reason = Reason(reason)
        with self._lock:
            self._reason_codes[reason] += 1
        self._export((), reason)

    def record_lookup(self, *, hit: bool) -> None:
        """Count a lookup in a cache of responses."""
        name = "hits" if hit else "misses"
        with self._lock:
            self._lookups[name] += 1
        self._change_exporter.export((f"response_cache_{name}",))

    def get_stats(self) -> dict[str, Any]:
        """All values: `counters`, `reason_codes`, and `latency` by stage."""
        with self._lock:
            return {
                "counters": dict(self._counters),
                "reason_codes": dict(self._reason_codes),
                "latency": {stage: latency.to_dict() for stage, latency in self._latencies.items()},
            }

    def get_success_rate(self) -> float:
        """The fraction of texts that contained a response; 1.0 before the first."""
        with self._lock:
            return self._success_rate()

    def set_exporter(self, exporter: Exporter | None) -> None:
        """Set the function that receives each changed value, by its name in structured-response.md.

        It is called outside of all locks, one call at a time, with the present value. Its exceptions are
        logged.
        """
        self._change_exporter.exporter = exporter

    def _success_rate(self) -> float:
        counters = self._counters
        read = counters["direct_parse_ok"] + counters["extract_ok"] + counters["repair_ok"]
        texts = read + counters["final_failed"]
        return read / texts if texts else 1.0

    def _export(self, counters: Iterable[str], reason: Reason | None = None) -> None:
        names = [f"response_parse_{counter}" for counter in counters]
        names += ["response_parse_success_rate"] if names else []
        names += [f"response_parse_reason_{reason.value}"] if reason else []
        self._change_exporter.export(names)

    def _values(self) -> dict[str, float]:
        """The present values of all exported names."""
        with self._lock:
            values: dict[str, float] = {f"response_parse_{name}": n for name, n in self._counters.items()}
            values |= {f"response_parse_reason_{name}": n for name, n in self._reason_codes.items()}
            values |= {f"response_cache_{name}": n for name, n in self._lookups.items()}
            return values | {"response_parse_success_rate": self._success_rate()}
