"""A whole worker with all that belongs to it, within a program or as a process of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.broker.caller_pool import CallerPool
from trustgraph_prompt.broker.urls import address
from trustgraph_prompt.llm import Limiter, Limits, Provider
from trustgraph_prompt.llm.circuit import Circuit
from trustgraph_prompt.worker.backoff import until_stopped
from trustgraph_prompt.worker.circuits import Circuits
from trustgraph_prompt.worker.config.config_topic import TOPIC
from trustgraph_prompt.worker.config.source import Prompts
from trustgraph_prompt.worker.config.trustgraph_flows import Processor
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.providers import Providers
from trustgraph_prompt.worker.telemetry import logs, tracing_setup
from trustgraph_prompt.worker.telemetry.call_metrics import CountedProvider
from trustgraph_prompt.worker.telemetry.health import Health, reason_since
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing import Tracing
from trustgraph_prompt.worker.telemetry.trustgraph_metrics import TrustGraphMetrics
from trustgraph_prompt.worker.worker import Worker

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)

OBJECTS_BEFORE_COLLECTION = 10_000
"""More that were made than freed: Python's own 700 are reached often when many requests are in flight."""


@dataclass(eq=False, repr=False)
class Service:
    """A worker with limits, metrics, traces and a cache, as the commands `run` and `complete` run it.

    `broker` is a URL or a connected broker. A URL is tried with `connect` until the broker answers, and what
    was connected is closed at the end, as providers and cache are; a connected broker stays open.
    `provider(model)` answers for flows that name no provider; it gets the model that the flow names, or None.
    `flows` is empty where TrustGraph has them, to which this is a `processor`. What is under way when `stop`
    is called may take `drain_timeout` seconds more. `health` tells whether all is served, `metrics` what was.
    With `ready_without_model` it is ready also while a model is away that whole flows wait for.

    Run it once. Raises `ConfigError` where a flow cannot have its provider.
    """

    broker: Broker | str
    flows: Sequence[Flow]
    prompts: Prompts
    provider: Callable[[str | None], Provider]
    limits: Limits = field(default_factory=Limits)
    cache: Cache | None = None
    config_topic: str | None = TOPIC
    processor: Processor | None = None
    drain_timeout: float = 30.0
    ready_without_model: bool = False
    circuits: Circuits = field(default_factory=Circuits)
    tracing: Tracing = field(default_factory=Tracing)
    connect: Callable[[str], Awaitable[Broker]] = connect
    health: Health = field(default_factory=Health, init=False)
    metrics: Metrics = field(default_factory=Metrics, init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self.metrics.calls.watch(self.limits)
        self._theirs: TrustGraphMetrics | None = None
        if self.processor is not None:
            self._theirs = TrustGraphMetrics(self.processor.id, self.metrics.registry, self.processor.facts)
        self.circuits.changed = self._show
        self._callers = CallerPool()
        place = address(self.broker) if isinstance(self.broker, str) else ""
        self._providers = Providers(self.provider, self._callers, place, self._dress)
        for flow in self.flows:
            self._providers.check(flow)

    def stop(self) -> None:
        """Take in no more requests; `run` ends when what is under way is done."""
        self.stopping.set()

    async def run(self) -> None:
        """Serve until `stop` is called and what was under way is done. Raises `ConfigError` for a URL."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.tracing.close)
            closing.push_async_callback(self._providers.close)
            if self.cache is not None:
                closing.push_async_callback(self.cache.close)
            broker = await self._connected(closing)
            if broker is None:
                return
            broker = self.tracing.broker(broker)
            broker = self._callers.broker = self._theirs.broker(broker) if self._theirs else broker
            closing.push_async_callback(self._callers.close)
            closing.callback(self.circuits.close)
            self.worker = Worker(
                broker,
                self.flows,
                self.prompts,
                self._providers.of,
                released=self._released,
                config_topic=self.config_topic,
                processor=self.processor,
                fetched=self._theirs.configured if self._theirs else lambda version: None,
                drain_timeout=self.drain_timeout,
                cache=self.cache,
                circuits=self.circuits,
                tracing=self.tracing,
                health=self.health,
                metrics=self.metrics,
                stopping=self.stopping,
            )
            await self.worker.run()

    async def _connected(self, closing: AsyncExitStack) -> Broker | None:
        """The broker; None where there was none before the end."""
        if not isinstance(self.broker, str):
            return self.broker
        connect = partial(self.connect, self.broker)
        broker = await until_stopped("broker", connect, self.health.waiting, self.stopping)
        return broker and await closing.enter_async_context(broker)

    def _dress(self, flow: Flow, provider: Provider) -> Provider:
        ended = self._theirs.calls(flow, provider) if self._theirs else None
        metered = CountedProvider(self.tracing.provider(provider), self.metrics.calls, ended=ended)
        return Limiter(self.circuits.breaker(flow, provider, metered), self.limits)

    def _show(self, circuit: Circuit) -> None:
        """Say in health and metrics whether a model is away."""
        part = f"model {circuit.model} of {circuit.server}"
        server, model = circuit.server, circuit.model
        self.metrics.calls.away(server, model, self.circuits.is_away(server, model))
        self.health.waiting.pop(part, None)
        away = self.circuits.holding(server, model)
        if away is not None and not self.ready_without_model:
            self.health.waiting[part] = reason_since(away.why, away.since)

    async def _released(self, flow: Flow) -> None:
        self.circuits.released(flow)
        await self._providers.released(flow)
        if self._theirs is not None:
            self._theirs.forget(flow)


def run(service: Service, *, http: str | None = None) -> None:
    """Run the service as this process, until SIGTERM. Raises `ConfigError`.

    It logs to standard error, and traces as the environment says. `http` is HOST:PORT of its endpoints.
    """
    logs.configure()
    service.tracing = tracing_setup.from_environment()
    asyncio.run(_run(service, http))


async def _run(service: Service, address: str | None) -> None:
    async with AsyncExitStack() as closing:
        closing.enter_context(signals(service.stopping))
        if address is not None:
            from trustgraph_prompt.worker.telemetry import http  # aiohttp takes its time to import

            bound = await closing.enter_async_context(http.serve(address, service.health, service.metrics))
            log.info("serving /livez, /readyz and /metrics", extra={"http": bound})
        service.connect = partial(_connect, service.connect)
        await service.run()


async def _connect(connect: Callable[[str], Awaitable[Broker]], url: str) -> Broker:
    broker = await connect(url)
    collect_seldom()  # now that the broker's client is imported, too
    return broker


def collect_seldom() -> None:
    """Leave alone what is there now, which stays to the end, and look for garbage less often.

    A full collection stops all requests while it goes through what is imported; frozen, that is left out.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)


@contextmanager
def signals(stopping: asyncio.Event) -> Iterator[None]:
    """A first SIGTERM or SIGINT sets the event; a second one quits at once, with exit code 1.

    From the first line on: the first process of a container gets no signal that it does not handle.
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
