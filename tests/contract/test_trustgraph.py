"""The worker in the place of TrustGraph's prompt service: its flows and prompts come, change and go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.trustgraph_services import (
    Completion,
    ConfigService,
    completion_worker,
    config_service,
    flow_topics,
)
from tests.support.workers import Heard, Working
from trustgraph_prompt.broker import Broker
from trustgraph_prompt.cli.providers import Providers
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Prompts, Worker
from trustgraph_prompt.worker.callers import Callers
from trustgraph_prompt.worker.trustgraph import Processor

CHALK = {"entity": "chalk", "definition": "a soft white limestone"}


def template(prompt: str, **settings: object) -> str:
    return json.dumps({"prompt": prompt, **settings})


@dataclass
class Place:
    """TrustGraph around a worker: its config service, its topics, its text-completion worker."""

    broker: Broker
    space: str
    config: ConfigService
    stack: AsyncExitStack

    def topics(self, flow: str = "f", workspace: str = "default") -> dict[str, str]:
        return flow_topics(self.space, workspace, flow)

    async def answer(self, flow: str = "f", workspace: str = "default", text: str | None = None) -> None:
        """Completions of a flow: what was asked, or a text."""
        queues = self.topics(flow, workspace)
        await self.stack.enter_async_context(
            completion_worker(
                self.broker,
                queues["text-completion-request"],
                queues["text-completion-response"],
                lambda request: Completion(text if text is not None else request["prompt"]),
            )
        )

    async def work(self, drain_timeout: float = 30.0) -> Working:
        callers = Callers(self.broker)
        self.stack.push_async_callback(callers.close)

        def nobody(model: str | None) -> Any:
            raise AssertionError("every flow has topics to ask")

        providers = Providers(nobody, callers, "embedded:", lambda flow, provider: provider)
        worker = Worker(
            self.broker,
            [],
            Prompts(None, ()),
            providers.of,
            released=providers.released,
            processor=Processor(space=self.space),
            drain_timeout=drain_timeout,
        )
        working = Working(worker, asyncio.create_task(worker.run()))
        self.stack.push_async_callback(working.stop)
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

    async def ask(self, prompt: str, *, streaming: bool = False, **terms: object) -> list[dict[str, Any]]:
        self.asked += 1
        id = f"{self.topic} {self.asked}"
        data = PromptRequest.asking(prompt, terms, streaming=streaming).encode()
        await self.put(data, id)
        return await self.heard.under(id)

    async def put(self, data: bytes, id: str) -> None:
        producer = await self.broker.producer(self.topic)
        await producer.send(data, properties={"id": id})
        await producer.close()


@pytest.fixture
async def place(broker: Broker, space: str) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(config_service(broker, space))
        yield Place(broker, space, config, stack)


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_flows_and_prompts_of_the_config_service_are_served(place: Place) -> None:
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    await place.answer()
    await place.work()
    asking = await place.hear()

    [response] = await asking.ask("say", text="chalk")

    assert response["text"] == "Say chalk"
    assert (response["object"], response["error"], response["end_of_stream"]) == (None, None, True)
    assert (response["in_token"], response["out_token"], response["model"]) == (10, 5, "stand-in")


async def test_a_flow_that_starts_while_the_worker_runs_is_served_and_one_that_stops_is_not(
    place: Place,
) -> None:
    working = await place.work()
    await place.answer()
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    serving = working.worker._serving
    await until(lambda: len(serving.flows) == 1)
    await serving.begun()
    asking = await place.hear()
    [response] = await asking.ask("say", text="x")
    assert response["text"] == "Say x"

    await place.config.stop_flow("f")
    await until(lambda: not serving.flows)
