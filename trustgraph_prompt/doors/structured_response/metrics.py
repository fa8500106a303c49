"""Counts how reading structured responses goes, and passes the counts to an exporter."""

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
    """A class with one default instance, made when it is first asked for."""

    _default: ClassVar[Any] = None
    _default_lock: ClassVar[RLock]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._default, cls._default_lock = None, RLock()

    @classmethod
    def get_instance(cls) -> Self:
        """The instance that all share."""
        with cls._default_lock:
            if cls._default is None:
                cls._default = cls._make_default()
            made: Self = cls._default
            return made

    @classmethod
    def reset(cls) -> None:
        """Have a new one made when the next asks; who has the old one keeps it."""
        with cls._default_lock:
            cls._default = None

    @classmethod
    def _make_default(cls) -> Self:
        return cls()


log = logging.getLogger(__name__)

Exporter = Callable[[str, Any], None]
"""Called with the name and the value of a metric."""

_SOON = 0
"""Stands for a thread that is about to tell; no thread has this number."""


class Exporting:
    """Tells the exporter what changed; `values` gives what all names are worth now.

    It is called in a thread that changed something, and outside of any lock. What others change meanwhile a
    thread of its own tells, after that, so that values never go back, and who changed one thing does not tell
    of all that follows. What the exporter itself changes it is not told.
    """

    def __init__(self, values: Callable[[], Mapping[str, float]]) -> None:
        self.exporter: Exporter | None = None
        self._values = values
        self._lock = Lock()
        self._changed: dict[str, None] = {}
        self._telling: int | None = None  # the thread that is
        self._failed: Exporter | None = None

    def tell(self, names: Iterable[str]) -> None:
        """These have changed."""
        if self.exporter is None:
            return
        with self._lock:
            if self._telling == get_ident():
                return
            self._changed |= dict.fromkeys(names)
            if self._telling is not None:
                return
            self._telling = get_ident()
        if self._tell_once():
            self._telling = _SOON
            try:
                Thread(target=self._tell_the_rest, name="metrics exporter").start()
            except RuntimeError:  # there is no room for one
                self._tell_the_rest()

    def _tell_the_rest(self) -> None:
        self._telling = get_ident()
        while self._tell_once():
            pass

    def _tell_once(self) -> bool:
        """Tell what has changed, and say whether more has meanwhile."""
        with self._lock:
            changed, self._changed = self._changed, {}
        try:
            values = self._values()
            for name in changed:
                self._export(name, values[name])
        except BaseException:
            self._telling = None
            raise
        with self._lock:
            if not self._changed:
                self._telling = None
            return self._telling is not None

    def _export(self, name: str, value: float) -> None:
        exporter = self.exporter
        if exporter is None:
            return
        try:
            try:
                exporter(name, value)
            except ValueError as error:
                if "Duplicated timeseries" not in str(error) or not _forget_gauge(name):
                    raise
                exporter(name, value)
            self._failed = None
        except Exception:
            level = logging.DEBUG if self._failed is exporter else logging.WARNING
            self._failed = exporter  # and one line is enough until it works again
            log.log(level, "the exporter of metrics failed at %s", name, exc_info=True)


def _forget_gauge(name: str) -> bool:
    """Have Prometheus' client take a gauge of this name once more, as seed 3's exporter makes one each time.

    The client knows no other way to ask for a collector by its name than its private table.
    """
    client = sys.modules.get("prometheus_client")
    if client is None:
        return False
    known = client.REGISTRY._names_to_collectors.get(name)
    if not isinstance(known, client.Gauge):
        return False
    client.REGISTRY.unregister(known)
    return True


LATENCIES_KEPT = 1000
"""The latest ones of a stage, of which percentiles are told."""

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
    """How long readings took, in milliseconds."""

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
        """What so many percent of the latest took at most."""
        ordered = sorted(self.latest)
        return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0

    def to_dict(self) -> dict[str, float]:
        told = {
            "total_ms": self.total_ms,
            "avg_ms": self.avg_ms,
            "min_ms": self.min_ms if self.count else 0.0,
            "max_ms": self.max_ms,
            "p50_ms": self.percentile(50),
            "p95_ms": self.percentile(95),
            "p99_ms": self.percentile(99),
        }
        return {"count": self.count, **{name: round(value, 2) for name, value in told.items()}}


class ResponseMetrics(DefaultInstance):
    """Counts readings; safe under threads.

    `salvage_ok` are those of `repair_ok` that were cut and closed up. The latency of a stage is that of the
    readings which ended there, from the beginning; `total` is that of all, failures included.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._reason_codes = {reason.value: 0 for reason in Reason}
        self._latencies = {stage: StageLatency() for stage in STAGES}
        self._lookups = {"hits": 0, "misses": 0}
        self._exporting = Exporting(self._exported)

    def record(self, outcome: Outcome, latency_ms: float) -> None:
        """A text was read: what came of it, and how long that took."""
        counters, stage = _READ[outcome.stage] if outcome.ok else (("final_failed",), "")
        with self._lock:
            for counter in counters:
                self._counters[counter] += 1
            self._reason_codes[outcome.reason] += 1
            if stage:
                self._latencies[stage].record(latency_ms)
            self._latencies["total"].record(latency_ms)
        self._tell(counters, outcome.reason)

    def increment(self, counter: str, value: int = 1) -> None:
        """Count; a counter that there is not is left alone, with a warning."""
        with self._lock:
            known = counter in self._counters
            if known:
                self._counters[counter] += value
        if known:
            self._tell((counter,))
        else:
            log.warning("there is no counter %r", counter)

    def record_latency(self, stage: str, latency_ms: float) -> None:
        """A stage took so long; one that there is not is left alone, with a warning."""
        with self._lock:
            known = stage in self._latencies
            if known:
                self._latencies[stage].record(latency_ms)
        if not known:
            log.warning("there is no stage %r", stage)

    def record_failure(self, reason: Reason) -> None:
        """Count a reason. Raises `ValueError` for what is none."""
        reason = Reason(reason)
        with self._lock:
            self._reason_codes[reason] += 1
        self._tell((), reason)

    def record_lookup(self, *, hit: bool) -> None:
        """Something was looked for in a cache of responses."""
        name = "hits" if hit else "misses"
        with self._lock:
            self._lookups[name] += 1
        self._exporting.tell((f"response_cache_{name}",))

    def get_stats(self) -> dict[str, Any]:
        """All there is: `counters`, `reason_codes`, and `latency` by stage."""
        with self._lock:
            return {
                "counters": dict(self._counters),
                "reason_codes": dict(self._reason_codes),
                "latency": {stage: latency.to_dict() for stage, latency in self._latencies.items()},
            }

    def get_success_rate(self) -> float:
        """The part of all texts in which there was a response; 1.0 before the first."""
        with self._lock:
            return self._success_rate()

    def set_exporter(self, exporter: Exporter | None) -> None:
        """Who is told each value that changes, under its name in `docs/structured-response.md`.

        It is called outside of all locks, one call at a time, with the newest value; what it raises is
        logged.
        """
        self._exporting.exporter = exporter

    def _success_rate(self) -> float:
        counters = self._counters
        read = counters["direct_parse_ok"] + counters["extract_ok"] + counters["repair_ok"]
        texts = read + counters["final_failed"]
        return read / texts if texts else 1.0

    def _tell(self, counters: Iterable[str], reason: Reason | None = None) -> None:
        names = [f"response_parse_{counter}" for counter in counters]
        names += ["response_parse_success_rate"] if names else []
        names += [f"response_parse_reason_{reason.value}"] if reason else []
        self._exporting.tell(names)

    def _exported(self) -> dict[str, float]:
        """Everything that an exporter may be told, as it is now."""
        with self._lock:
            values: dict[str, float] = {f"response_parse_{name}": n for name, n in self._counters.items()}
            values |= {f"response_parse_reason_{name}": n for name, n in self._reason_codes.items()}
            values |= {f"response_cache_{name}": n for name, n in self._lookups.items()}
            return values | {"response_parse_success_rate": self._success_rate()}
