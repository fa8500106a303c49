"""One process: composes all that serves its flows, loads the config and follows it until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from trustgraph_prompt import file_descriptors
from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.broker.urls import address
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.llm import Limits, Provider
from trustgraph_prompt.llm.circuit import Circuit
from trustgraph_prompt.worker.answer_retention import AnswerRetention
from trustgraph_prompt.worker.around.circuits import Circuits
from trustgraph_prompt.worker.canary.record import Canaries
from trustgraph_prompt.worker.config.config_topic import TOPIC, ConfigTopic
from trustgraph_prompt.worker.config.recent_changes import RecentChanges
from trustgraph_prompt.worker.config.source import ConfigSource, FlowOrigin, Prompts
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.flows import FlowSet
from trustgraph_prompt.worker.providers import Providers
from trustgraph_prompt.worker.retry_broker import retry_until_stopped
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.health import Health, reason_since
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing
from trustgraph_prompt.worker.telemetry.watch import Watch
from trustgraph_prompt.worker.timeouts import Timeouts

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Service:
    """A worker with limits, metrics, traces and a cache, as the commands `run` and `complete` run it.

    `broker` is a URL or a connected broker. `connect` is called with a URL until the broker answers; that
    broker is closed at the end, as are providers and cache. A connected broker stays open. `provider(model)`
    is the provider of flows that choose none; `model` is that of the flow, or None. `flows` is empty
    with an `origin`, from which they come instead. Requests in progress when `stop` is called may take
    another `drain_timeout` seconds. With `ready_without_model`, an unavailable model that blocks whole flows
    does not affect readiness. Prompts may set `allow_parameters` in all flows.
    `timeouts` are its waits, `circuit_times` the clock, sleep and chance of circuits.

    Messages are received in `flows.py` and processed in `process.py`.

    Call `run` once. Raises `ConfigError` if the provider of a flow cannot be created.
    """

    broker: Broker | str
    flows: Sequence[Flow]
    prompts: Prompts
    provider: Callable[[str | None], Provider]
    limits: Limits = field(default_factory=Limits)
    cache: Cache | None = None
    config_topic: str | None = TOPIC
    origin: FlowOrigin | None = None
    drain_timeout: float = 30.0
    ready_without_model: bool = False
    allow_parameters: Sequence[str] = ()
    activity: Activity = field(default_factory=Activity)
    tracing: Tracing = field(default_factory=Tracing)
    timeouts: Timeouts = Timeouts()
    circuit_times: Mapping[str, Any] = field(default_factory=dict)
    connect: Callable[[str], Awaitable[Broker]] = connect
    health: Health = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    canaries: Canaries = field(default_factory=Canaries, init=False)
    changes: RecentChanges = field(default_factory=RecentChanges, init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    flow_set: FlowSet | None = field(default=None, init=False)
    """None until the broker answers."""

    def __post_init__(self) -> None:
        self.health = Health(self._notes)
        self._circuits = Circuits(self._show_model, **self.circuit_times)
        self._callers = CallerPool()
        self._providers = Providers(
            self.provider,
            self._callers,
            address(self.broker) if isinstance(self.broker, str) else "",
            self._circuits,
            self.limits,
            self.metrics.calls,
            self.tracing,
            self.allow_parameters,
            self.origin,
        )
        self.metrics.calls.watch(self.limits, self._providers.over_topics)
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
            if self.origin is not None:
                broker = self.origin.broker(broker)
            self._callers.broker = broker
            closing.push_async_callback(self._callers.close)
            closing.callback(self._circuits.close)
            await self._serve(broker)

    async def _connected(self, closing: AsyncExitStack) -> Broker | None:
        """Connect to the broker; None if stopped before that succeeds."""
        url = self.broker
        if not isinstance(url, str):
            return url
        broker = await retry_until_stopped(
            "broker", lambda: self.connect(url), self.health.waiting, self.stopping
        )
        return broker and await closing.enter_async_context(broker)

    async def _serve(self, broker: Broker) -> None:
        """Load the config, serve the flows, and follow changes of both."""
        log.info("starting", extra={"flows": [flow.name for flow in self.flows] or None})
        self._producers = producers = ProducerPool(broker)
        self._unserved: dict[str, str] = {}
        # Flows of files must all be served. One flow of TrustGraph that is not does not affect readiness.
        waiting: MutableMapping[str, str] = self._unserved if self.origin else self.health.waiting
        watch = Watch(self.health, self.metrics, notes=waiting)
        self._services = services = Services(
            self.prompts,
            producers,
            self.metrics,
            self.activity,
            canaries=self.canaries,
            cache=self.cache,
            circuits=self._circuits,
            tracing=self.tracing,
            watch=watch,
            timeouts=self.timeouts,
        )
        flow_set = FlowSet(broker, services, self._providers, waiting, self.drain_timeout)
        self._config = self._config_source(broker, flow_set, watch)
        self.flow_set = flow_set
        self.metrics.watch(self.health, producers)
        for workspace, snapshot in self.prompts.items():
            self.metrics.configured(workspace, snapshot)
        retention = AnswerRetention(broker, producers, self.flows, self.config_topic)
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch_parts(watch))
                deleting = tasks.create_task(retention.run())
                following = tasks.create_task(self._follow(flow_set))
                await self.stopping.wait()
                self.health.waiting["worker"] = "stopping"
                deleting.cancel()  # it ends what it has begun, while the flows drain
                await asyncio.gather(flow_set.drain(), self._end(following))
                watching.cancel()
        finally:
            await producers.close()
            log.info("stopped")

    def _config_source(self, broker: Broker, flow_set: FlowSet, watch: Watch) -> ConfigSource | None:
        if self.origin is not None:
            return self.origin.source(
                broker, self.prompts, flow_set.change, self._unserved, watch, self.changes
            )
        if not self.config_topic:
            return None
        return ConfigTopic(
            broker,
            self.prompts,
            self._producers,
            self.metrics,
            watch,
            topic=self.config_topic,
            flows=self.flows,
            canaries=self.canaries,
            changes=self.changes,
        )

    async def _watch_parts(self, watch: Watch) -> None:
        with (
            watch.over("publishing", self._producers.check),
            watch.over("opening connections", _can_open),
        ):
            await watch.run()

    async def _follow(self, flow_set: FlowSet) -> None:
        """Load the config, start the flows, then follow the config."""
        config = self._config
        while not self.stopping.is_set():
            if config is not None:
                await retry_until_stopped("config", config.load, self.health.waiting, self.stopping)
            if self.stopping.is_set():
                return
            await self._start_flows(flow_set)
            if config is None:
                return
            try:
                return await config.follow()
            except BrokerError as error:
                if not self.stopping.is_set():
                    log.error("lost the connection to the config, it is loaded again: %s", error)
                    await asyncio.sleep(self.timeouts.before_reopening)

    async def _start_flows(self, flow_set: FlowSet) -> None:
        """Start the flows of files or of TrustGraph, and become ready."""
        if self.origin:
            await flow_set.started()
        else:
            flow_set.change(self.flows)
            for name, what in self._lacking(flow_set).items():
                log.warning("%s: %s", name, what)
        if not self.stopping.is_set():  # then `worker` is "stopping"
            self.health.waiting.pop("worker", None)

    async def _end(self, following: asyncio.Task[None]) -> None:
        """Close the config; cancel what does not end in time."""
        ends = {following}
        if self._config is not None:
            ends.add(asyncio.create_task(self._config.close(), name="end of the config"))
        _, stuck = await asyncio.wait(ends, timeout=self.timeouts.close_config)
        for task in stuck:
            task.cancel()

    def _show_model(self, circuit: Circuit) -> None:
        """Show in health and metrics whether a model is available."""
        part = f"model {circuit.model} of {circuit.server}"
        server, model = circuit.server, circuit.model
        self.metrics.calls.away(server, model, self._circuits.is_away(server, model))
        blocking = self._circuits.blocking(server, model)
        if blocking is not None and not self.ready_without_model:
            self.health.waiting[part] = reason_since(blocking.why, blocking.since)
        else:
            self.health.waiting.pop(part, None)

    def _notes(self) -> dict[str, str]:
        """Problems that do not affect readiness; none are known before the broker answers."""
        if self.flow_set is None:
            return {}
        notes = self._unserved | {
            f"publishing on {topic}": why for topic, why in self._producers.refused.items()
        }
        for workspace, snapshot in self.prompts.items():
            notes |= {f"config entry {workspace}/{key}": note for key, note in snapshot.notes.items()}
        if self._config is not None:
            notes |= {
                f"config entry {key}": f"rejected: {error}" for key, error in self._config.refused.items()
            }
        notes |= {f"provider of flow {name}": why for name, why in self._services.failing.items()}
        return notes | self._lacking(self.flow_set) | self.flow_set.held

    def _lacking(self, flow_set: FlowSet) -> dict[str, str]:
        """What the flows lack."""
        lacking = {f"flow {flow.name}": flow.what_it_lacks(self.prompts) for flow in flow_set.flows}
        return {flow: what for flow, what in lacking.items() if what is not None}


async def _can_open() -> None:
    if (shortage := file_descriptors.shortage()) is not None:
        raise shortage
