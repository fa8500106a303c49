"""The series of a process's metrics: not too many, and kept until Prometheus has read their last values."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence, Set
from time import monotonic
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

M = TypeVar("M", bound=MetricWrapperBase)

Labels = tuple[str, ...]

Row = tuple[Labels, float]
"""The labels and the value of a counter or gauge."""

MAX_SERIES: Final = 500
"""Label sets of a metric, and flows of all metrics. Labels with fixed values do not add to the label sets."""

OTHER: Final = "other"

SECONDS_TO_KEEP: Final = 7200.0
"""How long series outlive their flow, prompt or version, so that Prometheus reads their last values."""

_CHOSEN: Final = frozenset({"prompt", "version", "model", "key", "consumer", "producer"})
"""Labels whose values users, servers and documents choose, as they do those of `flow`. Others are fixed."""


def rows(metric: MetricWrapperBase) -> list[Row]:
    """The labels and the value of each child of a counter or gauge."""
    samples = (sample for family in metric.collect() for sample in family.samples)
    return [
        (tuple(sample.labels.values()), sample.value)
        for sample in samples
        if not sample.name.endswith("_created")
    ]


class Series(dict[Labels, M]):
    """The children of a metric by their labels. Faster than `metric.labels`.

    Above `MAX_SERIES` label sets, new ones count as `other` of their flow. Fixed labels make no new label
    set: the share of a prompt's failures would be wrong if only its failures counted as `other`. `flow_label`
    returns the label of a flow.
    """

    def __init__(self, metric: M, names: Labels, flow_label: Callable[[str], str]) -> None:
        super().__init__()
        self._metric = metric
        self._names = names
        self._flow_label = flow_label
        self._chosen = tuple(name in _CHOSEN for name in names)
        self._fixed = tuple(name not in _CHOSEN and name != "flow" for name in names)
        self._label_sets: set[Labels] = set()

    def __missing__(self, labels: Labels) -> M:
        labels = self._counted_as(labels)
        child = self.get(labels)
        return self._add(labels) if child is None else child

    def rows(self) -> list[Row]:
        """The labels and the value of each child."""
        return rows(self._metric)

    def show_other(self, names: Set[str]) -> None:
        """Show `other` with 0 for the labels of these names, where children differ in nothing else.

        Prometheus sees the increase of a series only from its second value on.
        """
        where = [name in names for name in self._names]
        others = collections.Counter(_replaced(labels, where, OTHER) for labels in self)
        for labels in [labels for labels, count in others.items() if count > 1]:
            _ = self[labels]

    def remove(self, names: Labels, values: Set[Labels]) -> None:
        """Remove the children whose labels of these names have one of these values."""
        if not set(names) <= set(self._names):
            return
        places = [self._names.index(name) for name in names]
        gone = [labels for labels in self if tuple(labels[place] for place in places) in values]
        for labels in gone:
            del self[labels]
            self._metric.remove(*labels)
        self._label_sets = {self._label_set(labels) for labels in self}

    def _counted_as(self, labels: Labels) -> Labels:
        if self._names[0] == "flow":
            labels = (self._flow_label(labels[0]), *labels[1:])
        if len(self._label_sets) < MAX_SERIES or self._label_set(labels) in self._label_sets:
            return labels
        return _replaced(labels, self._chosen, OTHER)

    def _add(self, labels: Labels) -> M:
        self[labels] = child = self._metric.labels(*labels)
        before = len(self._label_sets)
        self._label_sets.add(self._label_set(labels))
        if before < len(self._label_sets) == MAX_SERIES:
            self.show_other(_CHOSEN)
        return child

    def _label_set(self, labels: Labels) -> Labels:
        return _replaced(labels, self._fixed, "")


class SeriesRegistry(CollectorRegistry):
    """A registry of metrics whose flows, prompts and versions come and go."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.clock = clock
        self._all: list[Series[Any]] = []
        self._left: dict[tuple[Labels, Labels], float] = {}
        self._flows: set[str] = set()

    def counter(self, name: str, help: str, *labels: str) -> Series[Counter]:
        return self._series(Counter(name, help, labels, registry=self), labels)

    def gauge(self, name: str, help: str, *labels: str) -> Series[Gauge]:
        return self._series(Gauge(name, help, labels, registry=self), labels)

    def histogram(self, name: str, help: str, *labels: str, buckets: Sequence[float]) -> Series[Histogram]:
        return self._series(Histogram(name, help, labels, buckets=buckets, registry=self), labels)

    def leave(self, **labels: str) -> None:
        """Remove all series with these labels after `SECONDS_TO_KEEP`, unless these come back.

        What is called `other` stays, as its series also count the rest.
        """
        if OTHER not in labels.values():
            self._left.setdefault(_key(labels), self.clock())

    def stay(self, **labels: str) -> None:
        """Keep the series with these labels, which are back or were never away."""
        if self._left:
            self._left.pop(_key(labels), None)

    def remove_left(self) -> None:
        """Remove the series of all that left long enough ago."""
        latest = self.clock() - SECONDS_TO_KEEP
        due: dict[Labels, set[Labels]] = collections.defaultdict(set)
        for names, values in [key for key, since in self._left.items() if since <= latest]:
            due[names].add(values)
            del self._left[names, values]
        for names, gone in due.items():
            for series in self._all:
                series.remove(names, gone)
        self._flows -= {flow for (flow,) in due.get(("flow",), ())}

    def _series(self, metric: M, names: Labels) -> Series[M]:
        self._all.append(series := Series(metric, names, self._flow_label))
        return series

    def _flow_label(self, flow: str) -> str:
        """The same for all metrics, as some alerts compare these by flow."""
        if flow in self._flows:
            return flow
        if len(self._flows) >= MAX_SERIES:
            return OTHER
        self._flows.add(flow)
        if len(self._flows) == MAX_SERIES:
            for series in self._all:
                series.show_other({"flow"})
        return flow


def _replaced(labels: Labels, where: Iterable[bool], value: str) -> Labels:
    return tuple(value if here else label for label, here in zip(labels, where, strict=True))


def _key(labels: dict[str, str]) -> tuple[Labels, Labels]:
    return tuple(labels), tuple(labels.values())
