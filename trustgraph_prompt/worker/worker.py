"""One process at work: reads its prompts, subscribes its flows, serves until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker import Broker, Consumer
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.worker import config
from trustgraph_prompt.worker.config import ConfigTopic, Prompts
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.loop import FlowLoop
from trustgraph_prompt.worker.metrics import Metrics
from trustgraph_prompt.worker.outbox import Producers
from trustgraph_prompt.worker.patience import insist
from trustgraph_prompt.worker.tracing import Tracing
from trustgraph_prompt.worker.watch import Watch

log = logging.getLogger(__name__)


SECONDS_TO_GIVE_UP = 5.0
"""What is left at the end of a drain may take so long to be answered with an error."""


class Worker:
    """Serves flows from a broker with providers. Run it once; nothing that it is given is closed here.

    `drain_timeout` is how many seconds work under way may take after `stop()`, which sets `stopping`.
    """

    def __init__(
        self,
        broker: Broker,
        flows: Iterable[Flow],
        prompts: Prompts,
        provider: Callable[[Flow], Provider],
        *,
        config_topic: str | None = config.TOPIC,
        drain_timeout: float = 30.0,
        cache: Cache | None = None,
        tracing: Tracing | None = None,
        health: Health | None = None,
        metrics: Metrics | None = None,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self.prompts = prompts
        self.health = health or Health()
        self.metrics = metrics or Metrics()
        self._broker = broker
        self._flows = list(flows)
        self._drain_timeout = drain_timeout
        self._producers = Producers(broker)
        self._watch = Watch(self.health, self.metrics)
        self._desk = Desk(
            prompts,
            provider,
            self._producers,
            self.metrics,
            cache=cache,
            tracing=tracing or Tracing(),
            watch=self._watch,
        )
        self._config = (
            ConfigTopic(broker, prompts, self._producers, self.metrics, self._watch, topic=config_topic)
            if config_topic
            else None
        )
        self._stopping = stopping or asyncio.Event()
        self._configured = asyncio.Event()
        self.health.notes = self._notes
        self.metrics.watch(self.health, self._producers)
        for workspace, snapshot in prompts.items():
            self.metrics.configured(workspace, snapshot)

    def stop(self) -> None:
        """Not ready any more; `run` ends when what is under way is done."""
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop()` is called and what was under way is done."""
        log.info("starting", extra={"flows": [flow.name for flow in self._flows]})
        loops = [FlowLoop(flow, partial(self._subscribe, flow), self._desk) for flow in self._flows]
        self.health.waiting |= {f"flow {flow.name}": "waiting for its prompts" for flow in self._flows}
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch_all())
                following = tasks.create_task(self._follow())
                serving = [tasks.create_task(loop.serve()) for loop in loops]
                self.health.waiting.pop("worker")
                await self._stopping.wait()
                self.health.waiting["worker"] = "stopping"
                await self._drain(loops, serving)
                await self._end(following)
                watching.cancel()
        finally:
            await self._producers.close()
            log.info("stopped")

    async def _watch_all(self) -> None:
        with self._watch.over("publishing", self._producers.check):
            await self._watch.run()

    async def _follow(self) -> None:
        """The config topic, read through and then followed. Flows wait until it has been read."""
        config = self._config
        while config is not None and not self._stopping.is_set():
            await insist("config", config.load, self.health, self._stopping)
            self._configured.set()
            if self._stopping.is_set():
                break
            try:
                return await config.follow()
            except BrokerError as error:
                log.error("lost the config topic: %s", error)
        self._configured.set()

    async def _subscribe(self, flow: Flow) -> Consumer | None:
        await self._configured.wait()
        input = flow.input
        subscribe = partial(self._broker.consumer, input.topic, input.subscription, buffer=input.buffer)
        consumer = await insist(f"flow {flow.name}", subscribe, self.health, self._stopping)
        if consumer is not None:
            log.info("serving", extra={"flow": flow.name, "topic": input.topic})
        return consumer

    async def _drain(self, loops: list[FlowLoop], serving: list[asyncio.Task[None]]) -> None:
        """Let what is under way end by itself; after `drain_timeout` end it."""
        log.info("draining")
        self._configured.set()  # whoever waits for it must not do so for ever
        for error in await asyncio.gather(*(loop.stop() for loop in loops), return_exceptions=True):
            if error is not None:
                log.error("a consumer could not be stopped: %s", error)
        _, late = await asyncio.wait(serving, timeout=self._drain_timeout)
        if not late:
            return
        log.warning("the drain took more than %.0f s; what is not done is given up", self._drain_timeout)
        for loop in loops:
            loop.give_up()
        _, stuck = await asyncio.wait(late, timeout=SECONDS_TO_GIVE_UP)
        for task in stuck:
            log.error("there was no time to answer all that was given up")
            task.cancel()

    async def _end(self, following: asyncio.Task[None]) -> None:
        """Stop following the config topic; while it is still being read, there is nothing to end gently."""
        if self._config is not None:
            await self._config.close()
        _, stuck = await asyncio.wait([following], timeout=SECONDS_TO_GIVE_UP)
        for task in stuck:
            task.cancel()

    def _notes(self) -> dict[str, str]:
        refused = self._config.refused if self._config is not None else {}
        notes = {f"config entry {key}": f"refused: {error}" for key, error in refused.items()}
        notes |= {f"provider of flow {name}": why for name, why in self._desk.failing.items()}
        for flow in self._flows:
            if flow.prompt is not None and self.prompts[flow.workspace].find(flow.prompt) is None:
                notes[f"flow {flow.name}"] = f"there is no prompt `{flow.prompt}`"
        return notes
