"""What is counted, in Prometheus' terms. Labels are bounded: flows, known prompts, models, reasons."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.call_metrics import CallMetrics
from trustgraph_prompt.worker.health import Health

if TYPE_CHECKING:
    from trustgraph_prompt.worker.outbox import Producers

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


M = TypeVar("M", bound=MetricWrapperBase)

MAX_MODELS, MAX_MODEL = 100, 100
"""Names of models that are counted apart, and characters of each: the names are whatever servers say."""


def labelled(metric: M) -> Callable[..., M]:
    """The metric with these labels, which are few, sooner than its own `labels` finds it."""
    return cache(metric.labels)


class Metrics:
    """The metrics of one worker, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prefix = "trustgraph_prompt_"

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(prefix + name, help, labels, registry=self.registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(prefix + name, help, labels, registry=self.registry)

        self._outcomes = labelled(
            counter("outcomes", "Requests that were asked, by what came of it", "flow", "prompt", "reason")
        )
        self._seconds = labelled(
            Histogram(
                prefix + "ask_seconds",
                "From asking to the outcome, all calls of a request",
                ("flow", "prompt"),
                buckets=SECONDS,
                registry=self.registry,
            )
        )
        self._objects = labelled(counter("objects", "Objects accepted", "flow", "prompt"))
        self._rejected = labelled(
            counter("objects_rejected", "Objects refused, by why", "flow", "prompt", "reason")
        )
        self._truncated = labelled(counter("answers_truncated", "Answers that stayed cut", "flow", "prompt"))
        self._calls = labelled(
            counter("calls", "Calls to a model, by why they were made", "flow", "prompt", "model", "why")
        )
        self._tokens = labelled(
            counter("tokens", "Tokens paid for", "flow", "prompt", "model", "direction", "reason")
        )
        self._cost = labelled(
            counter("cost", "Money paid, where the flow has a price", "flow", "prompt", "model")
        )
        self._lookups = labelled(
            counter(
                "cache_lookups",
                "Requests of prompts with a cache, by whether it had an answer",
                "flow",
                "prompt",
                "result",
            )
        )
        self._in_work = labelled(gauge("requests_in_work", "Requests in work now", "flow"))
        self._put_off = counter("requests_put_off", "Requests to be tried again later", "flow")
        self._buried = counter("dead_letters", "Requests that became dead letters", "flow", "error")
        self._ready = gauge("ready", "Whether requests are being served (1)")
        self._well = gauge(
            "healthy", "Whether a part was seen to work (1) when it was last looked at", "part"
        )
        self._received = labelled(
            gauge(
                "last_received_timestamp_seconds", "When a message was last received, since the epoch", "flow"
            )
        )
        self._published = gauge(
            "last_published_timestamp_seconds", "When something was last published, since the epoch"
        )
        self._publishing = gauge(
            "publish_waiting_seconds",
            "For how long what is being published waits for the broker, the longest",
        )
        self._prompts = gauge("prompts", "Prompts that are served", "workspace")
        self._refused = gauge("config_refused", "Config entries that are refused", "workspace")
        self._models: set[str] = set()
        self.calls = CallMetrics(self.registry, prefix)

    def in_work(self, flow: str) -> AbstractContextManager[object]:
        """One request more in work, for the time of the block."""
        return self._in_work(flow).track_inprogress()

    def asked(self, flow: str, prompt: str, outcome: Outcome, seconds: float) -> None:
        """A request was asked; everything is read from its outcome."""
        reason = outcome.reason.value
        self._outcomes(flow, prompt, reason).inc()
        self._seconds(flow, prompt).observe(seconds)
        if isinstance(outcome.value, list):
            self._objects(flow, prompt).inc(len(outcome.value))
        for rejected in outcome.rejected:
            self._rejected(flow, prompt, rejected.issues[0].reason.value).inc()
        if outcome.truncated:
            self._truncated(flow, prompt).inc()
        for call in outcome.calls:
            model = self._known(call.model or "")
            self._calls(flow, prompt, model, call.why).inc()
            self._tokens(flow, prompt, model, "in", reason).inc(call.usage.prompt_tokens or 0)
            self._tokens(flow, prompt, model, "out", reason).inc(call.usage.completion_tokens or 0)
            if call.cost is not None:
                self._cost(flow, prompt, model).inc(call.cost)

    def _known(self, model: str) -> str:
        """The model as a label; "other" for one too many."""
        model = model[:MAX_MODEL]
        if len(self._models) < MAX_MODELS:
            self._models.add(model)
        return model if model in self._models else "other"

    def looked_up(self, flow: str, prompt: str, *, hit: bool) -> None:
        """A request of a prompt with a cache was answered: from there, or by asking."""
        self._lookups(flow, prompt, "hit" if hit else "miss").inc()

    def watch(self, health: Health, producers: Producers) -> None:
        """Show whether the worker is ready, and how its publishing goes."""
        self._ready.set_function(lambda: health.ready)
        self._published.set_function(lambda: producers.last_published)
        self._publishing.set_function(lambda: producers.waiting)

    def part(self, name: str, *, well: bool) -> None:
        """A part of the worker was looked at."""
        self._well.labels(name).set(well)

    def forget_part(self, name: str) -> None:
        """There is no such part any more."""
        self._well.remove(name)

    def received(self, flow: str) -> None:
        """A message was received."""
        self._received(flow).set_to_current_time()

    def put_off(self, flow: str) -> None:
        """A request is to be tried again later."""
        self._put_off.labels(flow).inc()

    def buried(self, flow: str, error: str) -> None:
        """A request became a dead letter."""
        self._buried.labels(flow, error).inc()

    def configured(self, workspace: str, snapshot: PromptSet) -> None:
        """A snapshot was swapped in."""
        self._prompts.labels(workspace).set(len(snapshot.prompts))
        self._refused.labels(workspace).set(len(snapshot.refused))

    def forgotten(self, workspace: str) -> None:
        """A workspace is gone."""
        self._prompts.remove(workspace)
        self._refused.remove(workspace)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
