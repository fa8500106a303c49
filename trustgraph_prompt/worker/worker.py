"""One process at work: reads its prompts, subscribes its flows, serves until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from trustgraph_prompt.broker import Broker
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

log = logging.getLogger(__name__)


class Worker:
    """Serves flows from a broker with providers. Run it once; neither broker nor providers are closed here.

    `drain_timeout` is how many seconds work under way may take after `stop()`.
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
        health: Health | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.prompts = prompts
        self.health = health or Health()
        self.metrics = metrics or Metrics()
        self._broker = broker
        self._flows = list(flows)
        self._drain_timeout = drain_timeout
        self._producers = Producers(broker)
        self._desk = Desk(prompts, provider, self._producers, self.metrics)
        self._config = (
            ConfigTopic(broker, prompts, self._producers, self.metrics, topic=config_topic)
            if config_topic
            else None
        )
        self._configured = asyncio.Event()
        self._loops: set[FlowLoop] = set()
        self._stopping = asyncio.Event()
        self.health.notes = self._notes
        for workspace, snapshot in prompts.items():
            self.metrics.configured(workspace, snapshot)

    @property
    def stopping(self) -> bool:
        """Whether `stop()` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Not ready any more; `run` ends when what is under way is done."""
        self.health.waiting["worker"] = "stopping"
        self._stopping.set()
        self._configured.set()  # whoever waits for it must not do so for ever

    async def run(self) -> None:
        """Until `stop()` is called and what was under way is done."""
        log.info("starting", extra={"flows": [flow.name for flow in self._flows]})
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._config is None:
                    self._configured.set()
                else:
                    tasks.create_task(self._insist("config", partial(self._follow, self._config)))
                serving = [
                    tasks.create_task(self._insist(f"flow {flow.name}", partial(self._serve, flow)))
                    for flow in self._flows
                ]
                if not self.stopping:
                    self.health.waiting.pop("worker")
                await self._stopping.wait()
                await self._drain(serving)
                if self._config is not None:
                    await self._config.close()
        finally:
            await self._producers.close()
            log.info("stopped")

    async def _follow(self, config: ConfigTopic) -> None:
        """The config topic, read through and then followed. Flows wait until it has been read."""
        if self.stopping:
            return
        await config.load()
        self.health.waiting.pop("config", None)
        self._configured.set()
        if not self.stopping:
            await config.follow()

    async def _serve(self, flow: Flow) -> None:
        """One flow, from subscribing to the end of its consumer."""
        await self._configured.wait()
        if self.stopping:
            return
        consumer = await self._broker.consumer(
            flow.input.topic, flow.input.subscription, buffer=flow.input.buffer
        )
        if self.stopping:
            await consumer.close()
            return
        loop = FlowLoop(flow, consumer, self._desk)
        self._loops.add(loop)
        self.health.waiting.pop(f"flow {flow.name}", None)
        try:
            await loop.serve()
        finally:
            self._loops.discard(loop)

    async def _insist(self, what: str, action: Callable[[], Awaitable[None]]) -> None:
        await insist(what, action, self.health, self._pause)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _drain(self, serving: Iterable[asyncio.Task[None]]) -> None:
        """Let what is under way end by itself; after `drain_timeout` end it."""
        log.info("draining")
        for loop in list(self._loops):
            await loop.stop()
        _, late = await asyncio.wait(serving, timeout=self._drain_timeout)
        if late:
            log.warning("the drain took more than %.0f s; what is not done is given up", self._drain_timeout)
            for loop in list(self._loops):
                loop.give_up()

    def _notes(self) -> dict[str, str]:
        refused = self._config.refused if self._config is not None else {}
        return {f"config entry {key}": f"refused: {error}" for key, error in refused.items()}
