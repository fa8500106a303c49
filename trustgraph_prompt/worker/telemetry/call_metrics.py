"""Metrics of calls to models."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from prometheus_client import Counter, Gauge, Histogram

from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm import Call, Delta, Limits, Provider, TopicProvider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.worker.telemetry.series import Series, SeriesRegistry

log = logging.getLogger(__name__)

Ended = Callable[[float, ProviderError | None], None]

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class CallMetrics:
    """The metrics of all calls of a process; the label `model` is the requested model."""

    def __init__(self, registry: SeriesRegistry, prefix: str) -> None:
        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(prefix + name, help, labels, registry=registry)

        def seconds(name: str, help: str) -> Series[Histogram]:
            return registry.histogram(prefix + name, help, "model", buckets=SECONDS)

        self.in_flight = registry.gauge(
            prefix + "calls_in_flight", "Calls that a model is answering now", "model"
        )
        self.seconds = seconds("call_seconds", "From a call to the end of its answer")
        self.first_delta = seconds("call_first_delta_seconds", "From a call to the first piece of its answer")
        self.errors = registry.counter(
            prefix + "call_errors", "Calls that failed, by category of error", "model", "category"
        )
        self._waiting = gauge("calls_waiting", "Calls that wait for a rate limit")
        self._pause = gauge(
            "rate_limit_pause_seconds", "Remaining pause that a server asked for, the longest of all"
        )
        self.shown: list[tuple[Gauge, Callable[[], float]]] = []
        """Gauges that are set from the worker's state when the metrics are rendered."""
        self._away = gauge("model_away", "1 while requests wait for an unavailable model", "server", "model")
        self._resend_after = gauge(
            "resend_after_seconds", "How long a request waits before it is sent again", "server", "model"
        )
        self._over_topics: Callable[[], Iterable[TopicProvider]] = tuple
        self.pauses = Counter(
            prefix + "rate_limit_pauses", "Pauses that servers asked for", registry=registry
        )

    def watch(self, limits: Limits, over_topics: Callable[[], Iterable[TopicProvider]] = tuple) -> None:
        """Show the waiting calls and remaining pause of these limits, and the patience of these providers."""
        self._over_topics = over_topics
        self.shown = [(self._waiting, lambda: limits.waiting), (self._pause, lambda: limits.pause)]

    def show_patience(self) -> None:
        """Show how long the requests of each provider over topics wait now."""
        self._resend_after.clear()
        for provider in self._over_topics():
            identity = provider.identity
            self._resend_after.labels(identity.place, identity.model).set(provider.lost.patience)

    def away(self, server: str, model: str, is_away: bool | None) -> None:
        """Show whether a model is unavailable; None removes it."""
        gauge = self._away.labels(server, model)
        if is_away is None:
            self._away.remove(server, model)
        else:
            gauge.set(is_away)

    def paused(self, server: str, seconds: float) -> None:
        """Count and log a pause that a server asked for."""
        self.pauses.inc()
        log.warning(
            "%s rejected a call because of a rate limit, next call in %.1f s", server or "a server", seconds
        )


class CountedProvider(ProviderWrapper):
    """Counts and times calls. Goes inside of a limiter, so that waiting for a limit is not timed.

    `ended` is called with the seconds and the error of each call.
    """

    def __init__(
        self,
        provider: Provider,
        metrics: CallMetrics,
        *,
        ended: Ended | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(provider)
        self._ended = ended
        self._model = provider.identity.model or provider.identity.system
        self._errors = metrics.errors
        self._in_flight = metrics.in_flight[(self._model,)]
        self._seconds = metrics.seconds[(self._model,)]
        self._first_delta = metrics.first_delta[(self._model,)]
        self._clock = clock

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer of the wrapped provider."""
        began, first = self._clock(), True
        failure: ProviderError | None = None
        self._in_flight.inc()
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    if first:
                        self._first_delta.observe(self._clock() - began)
                        first = False
                    yield delta
        except ProviderError as error:
            failure = error
            self._errors[self._model, error.category].inc()
            raise
        finally:
            seconds = self._clock() - began
            self._in_flight.dec()
            self._seconds.observe(seconds)
            if self._ended is not None:
                self._ended(seconds, failure)
