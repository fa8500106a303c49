"""The worker: loads its config, serves its flows and follows config changes until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping

from trustgraph_prompt import file_descriptors
from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker import Broker
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.worker.answer_retention import AnswerRetention
from trustgraph_prompt.worker.canary.record import Canaries
from trustgraph_prompt.worker.circuits import Circuits
from trustgraph_prompt.worker.config.config_topic import TOPIC, ConfigTopic
from trustgraph_prompt.worker.config.recent_changes import RecentChanges
from trustgraph_prompt.worker.config.source import ConfigSource, FlowOrigin, Prompts
from trustgraph_prompt.worker.consumer_keeper import SECONDS_BEFORE_ANOTHER
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.flow_set import FlowSet
from trustgraph_prompt.worker.request_services import SharedServices
from trustgraph_prompt.worker.retry_broker import retry_until_stopped
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing import Tracing
from trustgraph_prompt.worker.telemetry.watch import Watch

log = logging.getLogger(__name__)

SECONDS_TO_END = 5.0
"""How long closing the config may take."""


class Worker:
    """Serves flows of a broker. Call `run` once. The arguments are not closed.

    With an `origin`, flows and prompts come from there and `flows` is empty. `provider(flow)` is called when
    a flow starts, `released(flow)` when it has ended. `stop()` sets `stopping`; requests in progress may then
    take `drain_timeout` seconds.
    """

    def __init__(
        self,
        broker: Broker,
        flows: Iterable[Flow],
        prompts: Prompts,
        provider: Callable[[Flow], Provider],
        *,
        released: Callable[[Flow], Awaitable[None]] | None = None,
        config_topic: str | None = TOPIC,
        origin: FlowOrigin | None = None,
        drain_timeout: float = 30.0,
        cache: Cache | None = None,
        circuits: Circuits | None = None,
        tracing: Tracing | None = None,
        activity: Activity | None = None,
        health: Health | None = None,
        metrics: Metrics | None = None,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self.prompts = prompts
        self.health = health or Health()
        self.metrics = metrics or Metrics()
        self._flows = None if origin else list(flows)
        self._producers = ProducerPool(broker)
        self._unserved: dict[str, str] = {}
        # Flows of files must all be served. One flow of TrustGraph that is not does not affect readiness.
        waiting: MutableMapping[str, str] = self._unserved if origin else self.health.waiting
        self._watch = Watch(self.health, self.metrics, notes=waiting)
        self.canaries = Canaries()
        self.changes = RecentChanges()
        self._services = SharedServices(
            prompts,
            self._producers,
            self.metrics,
            activity or Activity(),
            canaries=self.canaries,
            cache=cache,
            circuits=circuits or Circuits(),
            tracing=tracing or Tracing(),
            watch=self._watch,
        )
        self.flow_set = FlowSet(
            broker, self._services, provider, waiting, drain_timeout=drain_timeout, released=released
        )
        self._retention = AnswerRetention(broker, self._producers, self._flows or (), config_topic)
        self._config: ConfigSource | None = None
        if origin:
            self._config = origin.source(
                broker, prompts, self.flow_set.change, self._unserved, self._watch, self.changes
            )
        elif config_topic:
            self._config = ConfigTopic(
                broker,
                prompts,
                self._producers,
                self.metrics,
                self._watch,
                topic=config_topic,
                flows=self._flows or (),
                canaries=self.canaries,
                changes=self.changes,
            )
        self._stopping = stopping or asyncio.Event()
        self.health.notes = self._notes
        self.metrics.watch(self.health, self._producers)
        for workspace, snapshot in prompts.items():
            self.metrics.configured(workspace, snapshot)

    def stop(self) -> None:
        """Become not ready; `run` ends when the requests in progress are done."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until `stop()` is called and all requests are done."""
        log.info("starting", extra={"flows": [flow.name for flow in self._flows or ()] or None})
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch_parts())
                deleting = tasks.create_task(self._retention.run())
                following = tasks.create_task(self._follow())
                await self._stopping.wait()
                self.health.waiting["worker"] = "stopping"
                deleting.cancel()  # it ends what it has begun, while the flows drain
                await asyncio.gather(self.flow_set.drain(), self._end(following))
                watching.cancel()
        finally:
            await self._producers.close()
            log.info("stopped")

    async def _watch_parts(self) -> None:
        with (
            self._watch.over("publishing", self._producers.check),
            self._watch.over("opening connections", _can_open),
        ):
            await self._watch.run()

    async def _follow(self) -> None:
        """Load the config, start the flows, then follow the config."""
        config = self._config
        while not self._stopping.is_set():
            if config is not None:
                await retry_until_stopped("config", config.load, self.health.waiting, self._stopping)
            if self._stopping.is_set():
                return
            await self._start_flows()
            if config is None:
                return
            try:
                return await config.follow()
            except BrokerError as error:
                if not self._stopping.is_set():
                    log.error("lost the connection to the config, it is loaded again: %s", error)
                    await asyncio.sleep(SECONDS_BEFORE_ANOTHER)

    async def _start_flows(self) -> None:
        """Start the flows of files or of TrustGraph, and become ready."""
        if self._flows is not None:
            self.flow_set.change(self._flows)
            for name, what in self._lacking().items():
                log.warning("%s: %s", name, what)
        else:
            await self.flow_set.started()
        if not self._stopping.is_set():  # then `worker` is "stopping"
            self.health.waiting.pop("worker", None)

    async def _end(self, following: asyncio.Task[None]) -> None:
        """Close the config; cancel what does not end in time."""
        ends = {following}
        if self._config is not None:
            ends.add(asyncio.create_task(self._config.close(), name="end of the config"))
        _, stuck = await asyncio.wait(ends, timeout=SECONDS_TO_END)
        for task in stuck:
            task.cancel()

    def _notes(self) -> dict[str, str]:
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
        return notes | self._lacking() | self.flow_set.held

    def _lacking(self) -> dict[str, str]:
        """What the flows lack."""
        lacking = {f"flow {flow.name}": flow.what_it_lacks(self.prompts) for flow in self.flow_set.flows}
        return {flow: what for flow, what in lacking.items() if what is not None}


async def _can_open() -> None:
    if (shortage := file_descriptors.shortage()) is not None:
        raise shortage
