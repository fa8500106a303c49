"""Starts, changes and drains the flows of one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from functools import partial

from trustgraph_prompt.broker import Broker, Consumer, topics
from trustgraph_prompt.errors import BrokerError, ConfigError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.worker.crash_record import CrashRecord
from trustgraph_prompt.worker.dead_letters import record
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.isolation import Isolation
from trustgraph_prompt.worker.loop import SECONDS_TO_GIVE_UP, FlowLoop
from trustgraph_prompt.worker.request_services import SharedServices
from trustgraph_prompt.worker.retry_broker import cancel_when_stopped, retry_until_stopped

log = logging.getLogger(__name__)

SECONDS_TO_TAKE_OVER = 30.0
"""How long the old version of a changed flow keeps running if the new one cannot subscribe."""

SECONDS_TO_CLOSE_RECORD = 1.0
"""For the deletion of the entry in the crash record."""

SECONDS_AFTER_A_DEFECT = 5.0
"""Before a flow is restarted after an internal error."""


class FlowSet:
    """Serves a changing set of flows, independently of each other.

    `waiting` has the reason why a flow is not served, under `flow <name>`. `provider` is called once for each
    flow that starts, `released` for each that has ended. Requests in progress when a flow ends may
    take another `drain_timeout` seconds.
    """

    def __init__(
        self,
        broker: Broker,
        services: SharedServices,
        provider: Callable[[Flow], Provider],
        waiting: MutableMapping[str, str],
        *,
        drain_timeout: float,
        released: Callable[[Flow], Awaitable[None]] | None = None,
    ) -> None:
        self._broker = broker
        self._services = services
        self._provider = provider
        self._waiting = waiting
        self._drain_timeout = drain_timeout
        self._released = released
        self._wanted: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        # Separate: a request may wait for a text completion that is served by the same process.
        self._requests, self._completions = Isolation(), Isolation()

    @property
    def flows(self) -> list[Flow]:
        """The current flows, including those that wait for the broker."""
        return [running.flow for running in self._running.values()]

    @property
    def models(self) -> dict[str, str]:
        """The model that each of the flows asks unless a prompt names another, by the name of the flow."""
        return {name: running.model for name, running in self._running.items()}

    def why_unserved(self, flow: Flow) -> str | None:
        """Why a flow does not receive requests; None if it does."""
        return self._waiting.get(_part(flow.name))

    @property
    def held(self) -> dict[str, str]:
        """The flows that receive nothing while the process handles suspects, and why."""
        records = {name: running.crash_record for name, running in self._running.items()}
        return {
            _part(name): why for name, record in records.items() if record and (why := record.why_holding)
        }

    def change(self, flows: Iterable[Flow]) -> None:
        """Serve exactly these flows. Unchanged flows keep running.

        The new version of a changed flow subscribes before the old one ends, so that a topic of both always
        has a consumer.
        """
        if self._draining.is_set():
            return
        wanted = {flow.name: flow for flow in flows}
        for name in self._wanted - wanted.keys():
            self._waiting.pop(_part(name), None)
        self._wanted = set(wanted)
        before, self._running = self._running, {}
        for name, flow in wanted.items():
            if name in before and before[name].flow == flow:
                self._running[name] = before.pop(name)
            elif (running := self._start(flow)) is not None:
                self._running[name] = running
        for name, running in before.items():
            self._end(running, self._running.get(name))

    async def started(self) -> None:
        """Wait until each flow has subscribed, or has failed to once."""
        for running in list(self._running.values()):
            await running.attempted.wait()

    async def drain(self) -> None:
        """End all flows: finish the requests in progress, and cancel them after `drain_timeout`."""
        log.info("draining")
        self._draining.set()
        for running in self._running.values():
            self._end(running)
        if self._ending:
            await asyncio.wait(self._ending)

    def _start(self, flow: Flow) -> _Running | None:
        part = _part(flow.name)
        try:
            provider = self._provider(flow)
        except ConfigError as error:
            log.error("%s cannot be served: %s", part, error)
            self._waiting[part] = str(error)
            return None
        self._waiting[part] = "starting"
        self._services.metrics.flow_started(flow.name)
        running = _Running(flow, provider.identity.model)
        if flow.input.persistent:
            isolation = self._completions if flow.input.kind == "text-completion" else self._requests
            topic = topics.in_progress_topic(flow.input.topic, flow.input.subscription)
            running.crash_record = CrashRecord(self._broker, self._services.producers, topic, isolation)
        subscribe = partial(self._subscribe, running)
        services = self._services.of_flow(provider, running.crash_record)
        running.loop = FlowLoop(flow, subscribe, services, running.stopping)
        running.task = asyncio.create_task(self._serve(running), name=part)
        return running

    async def _serve(self, running: _Running) -> None:
        while not running.stopping.is_set():
            try:
                await running.loop.serve()
            except Exception:
                log.exception("internal error, %s is restarted", _part(running.flow.name))
                await self._services.sleep(SECONDS_AFTER_A_DEFECT)

    async def _subscribe(self, running: _Running) -> Consumer | None:
        flow, attempt = running.flow, partial(self._attempt, running)
        consumer = await retry_until_stopped(_part(flow.name), attempt, self._waiting, running.stopping)
        running.attempted.set()
        if consumer is not None:
            log.info("serving", extra={"flow": flow.name, "topic": flow.input.topic})
        return consumer

    async def _attempt(self, running: _Running) -> Consumer:
        input = running.flow.input
        try:
            if running.crash_record is not None and await running.crash_record.open():
                await self._bury_unreceivable(running, running.crash_record.others)
            return await self._broker.consumer(input.topic, input.subscription, buffer=input.buffer)
        except Exception:
            running.attempted.set()
            raise

    async def _bury_unreceivable(self, running: _Running, workers: int) -> None:
        """Dead-letter messages that crash a worker on receipt, before it can record them."""
        if not workers:
            return
        flow, error = running.flow, "worker-crashed"
        input = flow.input
        properties = record.failure_properties(error, flow.name, None, self._services.clock())
        search = self._broker.bury_unreceivable(input.topic, input.subscription, workers, properties)
        try:
            buried = await cancel_when_stopped(search, running.stopping)
        except (BrokerError, ConfigError) as reason:
            log.warning("flow %s: cannot search for messages that crash consumers: %s", flow.name, reason)
            return
        for id in buried or ():
            log.error("dead letter: %s: message %s crashes its consumer on receipt", error, id)
            self._services.metrics.buried(flow.name, error)

    def _end(self, running: _Running, successor: _Running | None = None) -> None:
        """End a flow in the background, after its successor has tried to subscribe."""
        ending = asyncio.create_task(
            self._finish(running, successor), name=f"end of {_part(running.flow.name)}"
        )
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _finish(self, running: _Running, successor: _Running | None) -> None:
        if successor is not None:
            waits = [asyncio.ensure_future(event.wait()) for event in (successor.attempted, self._draining)]
            await asyncio.wait(waits, timeout=SECONDS_TO_TAKE_OVER, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        await self._drain(running)
        if self._released is not None:
            await self._released(running.flow)
        await self._forget(running)
        log.info("ended", extra={"flow": running.flow.name})

    async def _forget(self, ended: _Running) -> None:
        """Remove the state of an ended flow that no other flow needs."""
        flow = ended.flow
        if flow.name not in self._running:
            self._services.failing.pop(flow.name, None)
            self._services.metrics.flow_ended(flow.name)
            self._services.activity.forget_flow(flow.name)
        needed = {topic for running in self._running.values() for topic in running.topics}
        await self._services.producers.forget(ended.topics - needed)

    async def _drain(self, running: _Running) -> None:
        part = _part(running.flow.name)
        closing = asyncio.create_task(running.close_record(), name=f"crash record of {part}")
        stopping = asyncio.create_task(running.loop.stop(), name=f"stop of {part}")
        _, late = await asyncio.wait([running.task], timeout=self._drain_timeout)
        if late:
            log.warning("%s: requests not finished within %.0f s are cancelled", part, self._drain_timeout)
            running.loop.give_up()
            _, late = await asyncio.wait(late, timeout=SECONDS_TO_GIVE_UP)
        if late:
            log.error("%s: not all cancelled requests could be answered in time", part)
            running.loop.give_up()
            running.task.cancel()
            await asyncio.wait(late)
        stopping.cancel()
        await asyncio.wait([closing], timeout=SECONDS_TO_CLOSE_RECORD)
        closing.cancel()


@dataclass(eq=False)
class _Running:
    """A flow being served. `attempted` is set once it has subscribed, or has failed to."""

    flow: Flow
    model: str
    attempted: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    loop: FlowLoop = field(init=False)
    task: asyncio.Task[None] = field(init=False)
    crash_record: CrashRecord | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the flow publishes to."""
        return self.flow.outputs.topics | ({self.crash_record.topic} if self.crash_record else set())

    async def close_record(self) -> None:
        if self.crash_record is not None:
            await self.crash_record.close()


def _part(flow: str) -> str:
    return f"flow {flow}"
