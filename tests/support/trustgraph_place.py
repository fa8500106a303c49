"""TrustGraph around a worker in this process: its config service, its topics, who asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from tests.support.trustgraph_services import (
    Completion,
    CompletionWorker,
    ConfigService,
    completion_worker,
    flow_topics,
)
from tests.support.workers import Heard, Working
from trustgraph_prompt.broker import Broker
from trustgraph_prompt.broker.topics import resolve
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.trustgraph.origin import TrustGraphOrigin
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker.telemetry.metrics import Metrics


def template(prompt: str, **settings: object) -> str:
    return json.dumps({"prompt": prompt, **settings})


class AtWork(Working):
    """A worker at work, which tells which flows it serves."""

    @property
    def flows(self) -> dict[str, str]:
        """The request topics of the flows that it serves, by name."""
        return {flow.name: flow.input.topic for flow in self.flow_set.flows}

    async def serves(self, topics: dict[str, str]) -> None:
        """Returns when it serves flows on these request topics, by name, and no others."""
        wanted = {name: resolve(topic) for name, topic in topics.items()}
        await until(lambda: self.flows == wanted)
        await self.flow_set.started()


@dataclass
class Place:
    """TrustGraph around a worker: its config service, its topics, its text-completion worker."""

    broker: Broker
    space: str
    config: ConfigService
    stack: AsyncExitStack

    def topics(self, flow: str = "f", workspace: str = "default") -> dict[str, str]:
        return flow_topics(self.space, workspace, flow)

    async def answer(
        self,
        flow: str = "f",
        workspace: str = "default",
        *,
        delay: float = 0.0,
        script: Callable[[dict[str, Any]], Completion] | None = None,
    ) -> CompletionWorker:
        """Completions for a flow: what was asked, unless a script says otherwise."""
        queues = self.topics(flow, workspace)
        return await self.stack.enter_async_context(
            completion_worker(
                self.broker,
                queues["text-completion-request"],
                queues["text-completion-response"],
                script or (lambda request: Completion(request["prompt"], delay=delay)),
            )
        )

    async def work(
        self,
        drain_timeout: float = 30.0,
        *,
        concurrency: int = 8,
        ready: bool = True,
        processors: Sequence[Processor] = (Processor(),),
        provider: Callable[[str | None], Provider] | None = None,
        **settings: Any,
    ) -> AtWork:
        """A worker that serves the flows of the config service; each asks its topics, unless told whom."""

        def nobody(model: str | None) -> Provider:
            raise AssertionError("every flow has topics to ask")

        processors = [
            replace(processor, space=self.space, concurrency=concurrency) for processor in processors
        ]
        metrics = Metrics()
        working = AtWork(
            Service(
                self.broker,
                [],
                Prompts(None, ()),
                provider or nobody,
                metrics=metrics,
                origin=TrustGraphOrigin(processors, metrics),
                drain_timeout=drain_timeout,
                **settings,
            )
        )
        self.stack.push_async_callback(working.stop)
        if ready:
            await working.ready()
        return working

    async def hear(self, flow: str = "f", workspace: str = "default") -> Asking:
        heard = Heard()
        queues = self.topics(flow, workspace)
        consumer = await self.broker.consumer(queues["response"], f"rr-{flow}", type="exclusive")
        task = asyncio.create_task(heard.follow(consumer.receive))

        async def end() -> None:
            await consumer.close()
            await task

        self.stack.push_async_callback(end)
        return Asking(self.broker, queues["request"], heard)


@dataclass
class Asking:
    """Who asks one flow."""

    broker: Broker
    topic: str
    heard: Heard
    asked: int = 0
    published: int = 0

    async def ask(self, prompt: str, *, streaming: bool = False, **terms: object) -> list[dict[str, Any]]:
        return await self.put(PromptRequest.asking(prompt, terms, streaming=streaming).encode())

    async def put(self, data: bytes) -> list[dict[str, Any]]:
        self.asked += 1
        id = f"{self.topic} {self.asked}"
        producer = await self.broker.producer(self.topic)
        await producer.send(data, properties={"id": id})
        await producer.close()
        self.published += 1
        return await self.heard.under(id)


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
