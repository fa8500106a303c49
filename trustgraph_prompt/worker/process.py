"""Composes a worker with everything it needs, and runs it in a program or as a process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.broker.urls import address
from trustgraph_prompt.llm import Limiter, Limits, Provider
from trustgraph_prompt.llm.circuit import Circuit
from trustgraph_prompt.llm.parameters import FlowParameters
from trustgraph_prompt.worker.circuits import Circuits
from trustgraph_prompt.worker.config.config_topic import TOPIC
from trustgraph_prompt.worker.config.source import Prompts
from trustgraph_prompt.worker.config.trustgraph_flows import Processor
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.providers import Providers
from trustgraph_prompt.worker.retry_broker import retry_until_stopped
from trustgraph_prompt.worker.telemetry import logs, tracing_setup
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.call_metrics import CountedProvider
from trustgraph_prompt.worker.telemetry.health import Health, reason_since
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing import Tracing
from trustgraph_prompt.worker.telemetry.trustgraph_metrics import TrustGraphMetrics
from trustgraph_prompt.worker.worker import Worker

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)

OBJECTS_BEFORE_COLLECTION = 10_000
"""The threshold of the garbage collector. Python's default of 700 is reached often with many requests."""


@dataclass(eq=False, repr=False)
class Service:
    """A worker with limits, metrics, traces and a cache, as the commands `run` and `complete` run it.

    `broker` is a URL or a connected broker. `connect` is called with a URL until the broker answers; that
    broker is closed at the end, as are providers and cache. A connected broker stays open. `provider(model)`
    is the provider of flows that choose none; `model` is that of the flow, or None. `flows` is empty
    with `processors`, whose flows come from TrustGraph's config service. Requests in progress when `stop` is
    called may take another `drain_timeout` seconds. With `ready_without_model`, an unavailable model that
    blocks whole flows does not affect readiness. Prompts may set `allow_parameters` in all flows.

    Call `run` once. Raises `ConfigError` if the provider of a flow cannot be created.
    """

    broker: Broker | str
    flows: Sequence[Flow]
    prompts: Prompts
    provider: Callable[[str | None], Provider]
    limits: Limits = field(default_factory=Limits)
    cache: Cache | None = None
    config_topic: str | None = TOPIC
    processors: Sequence[Processor] = ()
    drain_timeout: float = 30.0
    ready_without_model: bool = False
    allow_parameters: Sequence[str] = ()
    circuits: Circuits = field(default_factory=Circuits)
    activity: Activity = field(default_factory=Activity)
    tracing: Tracing = field(default_factory=Tracing)
    connect: Callable[[str], Awaitable[Broker]] = connect
    health: Health = field(default_factory=Health, init=False)
    metrics: Metrics = field(default_factory=Metrics, init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self.metrics.calls.watch(self.limits)
        self._trustgraph_metrics: TrustGraphMetrics | None = None
        if self.processors:
            facts = {processor.id: processor.facts for processor in self.processors}
            self._trustgraph_metrics = TrustGraphMetrics(facts, self.metrics.registry)
        self.circuits.changed = self._show_model
        self._callers = CallerPool()
        place = address(self.broker) if isinstance(self.broker, str) else ""
        self._providers = Providers(self.provider, self._callers, place, self._wrap, self.circuits.is_away)
        self.metrics.calls.over_topics = self._providers.over_topics
        for flow in self.flows:
            self._providers.check(flow)

    def stop(self) -> None:
        """Receive no more requests; `run` ends when those in progress are done."""
        self.stopping.set()

    async def run(self) -> None:
        """Serve until `stop` is called and all requests are done. Raises `ConfigError` for an invalid URL."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.tracing.close)
            closing.push_async_callback(self._providers.close)
            if self.cache is not None:
                closing.push_async_callback(self.cache.close)
            broker = await self._connected(closing)
            if broker is None:
                return
            broker = self.tracing.broker(broker)
            if self._trustgraph_metrics:
                broker = self._trustgraph_metrics.broker(broker)
            self._callers.broker = broker
            closing.push_async_callback(self._callers.close)
            closing.callback(self.circuits.close)
            self.worker = Worker(
                broker,
                self.flows,
                self.prompts,
                self._providers.of,
                released=self._released,
                config_topic=self.config_topic,
                processors=self.processors,
                fetched=self._trustgraph_metrics.configured
                if self._trustgraph_metrics
                else lambda version: None,
                drain_timeout=self.drain_timeout,
                cache=self.cache,
                circuits=self.circuits,
                tracing=self.tracing,
                activity=self.activity,
                health=self.health,
                metrics=self.metrics,
                stopping=self.stopping,
            )
            await self.worker.run()

    async def _connected(self, closing: AsyncExitStack) -> Broker | None:
        """Connect to the broker; None if stopped before that succeeds."""
        if not isinstance(self.broker, str):
            return self.broker
        connect = partial(self.connect, self.broker)
        broker = await retry_until_stopped("broker", connect, self.health.waiting, self.stopping)
        return broker and await closing.enter_async_context(broker)

    def _wrap(self, flow: Flow, provider: Provider) -> Provider:
        """Wrap a provider, from the outside: parameters, limits, circuit breaker, metrics, traces."""
        ended = self._trustgraph_metrics.calls(flow, provider) if self._trustgraph_metrics else None
        metered = CountedProvider(self.tracing.provider(provider), self.metrics.calls, ended=ended)
        breaker = self.circuits.breaker(flow, provider, metered)
        limited = Limiter(breaker, self.limits, on_pause=self.metrics.calls.paused)
        completes = flow.input.kind == "text-completion"
        allowed = None if completes else flow.allow_parameters.union(self.allow_parameters)
        return FlowParameters(limited, flow.extras, allowed)

    def _show_model(self, circuit: Circuit) -> None:
        """Show in health and metrics whether a model is available."""
        part = f"model {circuit.model} of {circuit.server}"
        server, model = circuit.server, circuit.model
        self.metrics.calls.away(server, model, self.circuits.is_away(server, model))
        blocking = self.circuits.blocking(server, model)
        if blocking is not None and not self.ready_without_model:
            self.health.waiting[part] = reason_since(blocking.why, blocking.since)
        else:
            self.health.waiting.pop(part, None)

    async def _released(self, flow: Flow) -> None:
        self.circuits.released(flow)
        await self._providers.released(flow)
        if self._trustgraph_metrics is not None:
            self._trustgraph_metrics.forget(flow)


def run(service: Service, id: str, *, http: str | None = None, hosts: Collection[str] = ()) -> None:
    """Run the service in this process until SIGTERM. Raises `ConfigError`.

    Logs to standard error, and traces as the environment says. `http` is HOST:PORT of the HTTP endpoints, and
    `hosts` other names that the status page may be asked for under; it calls the worker `id`.
    """
    logs.configure()
    service.tracing = tracing_setup.from_environment()
    asyncio.run(_run(service, id, http, hosts))


async def _run(service: Service, id: str, address: str | None, hosts: Collection[str]) -> None:
    async with AsyncExitStack() as closing:
        closing.enter_context(signals(service.stopping))
        if address is not None:
            from trustgraph_prompt.worker.telemetry import http  # importing aiohttp is slow
            from trustgraph_prompt.worker.telemetry.status import Status
            from trustgraph_prompt.worker.telemetry.status_page import StatusPage

            page = StatusPage(Status(service, id))
            serving = http.serve(address, service.health, service.metrics, page, hosts=hosts)
            bound = await closing.enter_async_context(serving)
            log.info("serving the status page, /livez, /readyz and /metrics", extra={"http": bound})
            if service.activity.shows_content and not http.is_local(bound):
                log.warning(
                    "whoever reaches this address can read texts and answers (--show-content)",
                    extra={"http": bound},
                )
        service.connect = partial(_connect, service.connect)
        await service.run()


async def _connect(connect: Callable[[str], Awaitable[Broker]], url: str) -> Broker:
    broker = await connect(url)
    tune_garbage_collection()  # after the import of the broker's client
    return broker


def tune_garbage_collection() -> None:
    """Exclude all current objects from garbage collection, and collect less often.

    A full collection blocks all requests, mostly to traverse imported modules, which are never freed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)


@contextmanager
def signals(stopping: asyncio.Event) -> Iterator[None]:
    """During the block, a first SIGTERM or SIGINT sets the event; a second one exits at once, with code 1.

    Used from the very start, because process 1 of a container ignores signals without a handler.
    """

    def on_signal() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
