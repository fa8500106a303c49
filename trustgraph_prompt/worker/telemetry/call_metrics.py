"""What is counted of calls to models, by a provider around a provider."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm import Call, Delta, Limits, Provider
from trustgraph_prompt.llm.provider import ProviderWrapper

log = logging.getLogger(__name__)

Ended = Callable[[float, ProviderError | None], None]

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class CallMetrics:
    """The metrics of all calls of a process; the label `model` is the one that is asked for."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(prefix + name, help, labels, registry=registry)

        def seconds(name: str, help: str) -> Histogram:
            return Histogram(prefix + name, help, ("model",), buckets=SECONDS, registry=registry)

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(prefix + name, help, labels, registry=registry)

        self.in_flight = gauge("calls_in_flight", "Calls a model is answering now", "model")
        self.seconds = seconds("call_seconds", "From a call to the end of its answer")
        self.first_delta = seconds("call_first_delta_seconds", "From a call to the first piece of its answer")
        self.errors = counter("call_errors", "Calls that failed, by why", "model", "category")
        self._waiting = gauge("calls_waiting", "Calls that wait for their turn")
        self._pause = gauge(
            "rate_limit_pause_seconds", "For how long a server may not be called yet, the longest of all"
        )
        self.shown: list[tuple[Gauge, Callable[[], float]]] = []
        """What looks at the worker, to be set before the metrics are shown."""
        self._away = gauge("model_away", "1 while requests wait for a model that is away", "server", "model")
        self._pauses = counter("rate_limit_pauses", "Times a server wanted to be left alone")

    def watch(self, limits: Limits) -> None:
        """Show who waits for these limits, and when a server wants to be left alone."""
        limits.on_pause = self._paused
        self.shown = [(self._waiting, lambda: limits.waiting), (self._pause, lambda: limits.pause)]

    def away(self, server: str, model: str, is_away: bool | None) -> None:
        """Show whether a model is away; None where nobody needs it any more."""
        gauge = self._away.labels(server, model)
        if is_away is None:
            self._away.remove(server, model)
        else:
            gauge.set(is_away)

    def _paused(self, server: str, seconds: float) -> None:
        self._pauses.inc()
        log.warning(
            "%s refused a call for its rate; no calls to it for %.1f s", server or "a server", seconds
        )


class CountedProvider(ProviderWrapper):
    """Counts each call; goes inside of a limiter, so that waiting is not counted as answering.

    `ended` is told how many seconds each took, and what it failed of.
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
        self._in_flight = metrics.in_flight.labels(self._model)
        self._seconds = metrics.seconds.labels(self._model)
        self._first_delta = metrics.first_delta.labels(self._model)
        self._clock = clock

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer of the provider within."""
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
            self._errors.labels(self._model, error.category).inc()
            raise
        finally:
            seconds = self._clock() - began
            self._in_flight.dec()
            self._seconds.observe(seconds)
            if self._ended is not None:
                self._ended(seconds, failure)
