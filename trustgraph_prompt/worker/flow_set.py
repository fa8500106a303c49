"""The flows at work in one process, while they come, change and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial

from trustgraph_prompt.broker import Broker, Consumer, topics
from trustgraph_prompt.errors import BrokerError, ConfigError
from trustgraph_prompt.worker.backoff import unless_stopped, until_stopped
from trustgraph_prompt.worker.crash_record import CrashRecord, WorkAlone
from trustgraph_prompt.worker.dead_letters import record
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.loop import FlowLoop
from trustgraph_prompt.worker.services import Services

log = logging.getLogger(__name__)

SECONDS_TO_TAKE_OVER = 30.0
"""How long a changed flow goes on as it was while it cannot yet be served as it is now."""

SECONDS_TO_GIVE_UP = 5.0
"""What is left at the end of a drain may take so long to be answered with an error."""

SECONDS_FOR_A_FAREWELL = 1.0
"""So long the broker may take to be told that nothing is in work any more."""

SECONDS_AFTER_A_DEFECT = 5.0
"""Before a flow that broke off is served anew."""


class FlowSet:
    """Serves a changing set of flows; one that cannot be served disturbs no other.

    `said` is told, by `flow <name>`, why a flow is not served. The provider of `services` is asked for once
    for each flow that begins, and `released` told of each that has ended. What is under way when a flow ends
    may take `drain_timeout` seconds more.
    """

    def __init__(
        self,
        broker: Broker,
        services: Services,
        said: MutableMapping[str, str],
        *,
        drain_timeout: float,
        released: Callable[[Flow], Awaitable[None]] | None = None,
    ) -> None:
        self._broker = broker
        self._services = services
        self._said = said
        self._drain_timeout = drain_timeout
        self._released = released
        self._wanted: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        # A request that is asked over a topic waits for a completion that may be served here.
        self._requests, self._completions = WorkAlone(), WorkAlone()

    @property
    def flows(self) -> list[Flow]:
        """What is served now, or would be if the broker let it."""
        return [running.flow for running in self._running.values()]

    def change(self, flows: Iterable[Flow]) -> None:
        """Serve these flows from now on and no others; those that are as they were go on undisturbed.

        A flow that changed is served as it is now before it ends as it was: whatever is published on a
        topic of both finds somebody.
        """
        if self._draining.is_set():
            return
        wanted = {flow.name: flow for flow in flows}
        for name in self._wanted - wanted.keys():
            self._said.pop(_what(name), None)
        self._wanted = set(wanted)
        before, self._running = self._running, {}
        for name, flow in wanted.items():
            if name in before and before[name].flow == flow:
                self._running[name] = before.pop(name)
            elif (running := self._begin(flow)) is not None:
                self._running[name] = running
        for name, running in before.items():
            self._end(running, self._running.get(name))

    async def begun(self) -> None:
        """Returns when each flow is served, or was refused for once."""
        for running in list(self._running.values()):
            await running.tried.wait()

    async def drain(self) -> None:
        """End all flows: let what is under way end by itself; after `drain_timeout` end it."""
        log.info("draining")
        self._draining.set()
        for running in self._running.values():
            self._end(running)
        if self._ending:
            await asyncio.wait(self._ending)

    def _begin(self, flow: Flow) -> _Running | None:
        what = _what(flow.name)
        try:
            provider = self._services.provider(flow)
        except ConfigError as error:
            log.error("%s cannot be served: %s", what, error)
            self._said[what] = str(error)
            return None
        self._said[what] = "starting"
        running = _Running(flow)
        subscribe = partial(self._subscribe, running)
        running.in_work = self._in_work(flow)
        services = replace(self._services, provider=lambda _: provider, in_work=running.in_work)
        running.loop = FlowLoop(flow, subscribe, services, running.stopping)
        running.task = asyncio.create_task(self._serve(running), name=what)
        return running

    def _in_work(self, flow: Flow) -> CrashRecord | None:
        if not flow.input.persistent:
            return None
        solitude = self._completions if flow.input.kind == "text-completion" else self._requests
        topic = topics.in_progress_topic(flow.input.topic, flow.input.subscription)
        return CrashRecord(self._broker, self._services.producers, topic, solitude)

    async def _serve(self, running: _Running) -> None:
        while not running.stopping.is_set():
            try:
                await running.loop.serve()
            except Exception:
                log.exception("this is a defect of the worker; %s is served anew", _what(running.flow.name))
                await self._services.sleep(SECONDS_AFTER_A_DEFECT)

    async def _subscribe(self, running: _Running) -> Consumer | None:
        flow, what = running.flow, _what(running.flow.name)
        consumer = await until_stopped(what, partial(self._attempt, running), self._said, running.stopping)
        running.tried.set()
        if consumer is not None:
            log.info("serving", extra={"flow": flow.name, "topic": flow.input.topic})
        return consumer

    async def _attempt(self, running: _Running) -> Consumer:
        input = running.flow.input
        try:
            if running.in_work is not None and await running.in_work.open():
                await self._bury_unreceivable(running, running.in_work.others)
            return await self._broker.consumer(input.topic, input.subscription, buffer=input.buffer)
        except Exception:
            running.tried.set()
            raise

    async def _bury_unreceivable(self, running: _Running, workers: int) -> None:
        """A worker that dies of what it receives could not write that down: where one died, look for it."""
        if not workers:
            return
        flow, what, error = running.flow, _what(running.flow.name), "worker-crashed"
        input = flow.input
        remarks = record.remarks(error, flow.name, None, self._services.clock())
        search = self._broker.bury_unreceivable(input.topic, input.subscription, workers, remarks)
        try:
            buried = await unless_stopped(search, running.stopping)
        except (BrokerError, ConfigError) as reason:
            log.warning("%s: could not look for requests that kill who receives them: %s", what, reason)
            return
        for id in buried or ():
            log.error("dead letter: %s: message %s kills whoever receives it", error, id)
            self._services.metrics.buried(flow.name, error)

    def _end(self, running: _Running, successor: _Running | None = None) -> None:
        """In the background; not before its `successor` has had its try."""
        ending = asyncio.create_task(
            self._finish(running, successor), name=f"end of {_what(running.flow.name)}"
        )
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _finish(self, running: _Running, successor: _Running | None) -> None:
        if successor is not None:
            waits = [asyncio.ensure_future(event.wait()) for event in (successor.tried, self._draining)]
            await asyncio.wait(waits, timeout=SECONDS_TO_TAKE_OVER, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        await self._wind_down(running)
        if self._released is not None:
            await self._released(running.flow)
        await self._clear_away(running)
        log.info("ended", extra={"flow": running.flow.name})

    async def _clear_away(self, ended: _Running) -> None:
        """What of an ended flow no other needs: they come and go for as long as the process lives."""
        flow = ended.flow
        if flow.name not in self._running:
            self._services.failing.pop(flow.name, None)
            self._services.metrics.forget_flow(flow.name)
        needed = {topic for running in self._running.values() for topic in running.topics}
        await self._services.producers.forget(ended.topics - needed)

    async def _wind_down(self, running: _Running) -> None:
        what = _what(running.flow.name)
        closing = asyncio.create_task(_close(running.in_work), name=f"what {what} had in work")
        stopping = asyncio.create_task(running.loop.stop(), name=f"stop of {what}")
        _, late = await asyncio.wait([running.task], timeout=self._drain_timeout)
        if late:
            log.warning("%s: what took more than %.0f s is given up", what, self._drain_timeout)
            running.loop.give_up()
            _, late = await asyncio.wait(late, timeout=SECONDS_TO_GIVE_UP)
        if late:
            log.error("%s: there was no time to answer all that was given up", what)
            running.task.cancel()
            await asyncio.wait(late)
        stopping.cancel()
        await asyncio.wait([closing], timeout=SECONDS_FOR_A_FAREWELL)
        closing.cancel()


@dataclass(eq=False)
class _Running:
    """A flow at work. `tried` is set once its subscription was made, or refused."""

    flow: Flow
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    loop: FlowLoop = field(init=False)
    task: asyncio.Task[None] = field(init=False)
    in_work: CrashRecord | None = None

    @property
    def topics(self) -> frozenset[str]:
        """Those on which anything is published."""
        return self.flow.outputs.topics | ({self.in_work.topic} if self.in_work else set())


async def _close(in_work: CrashRecord | None) -> None:
    if in_work is not None:
        await in_work.close()


def _what(flow: str) -> str:
    return f"flow {flow}"
