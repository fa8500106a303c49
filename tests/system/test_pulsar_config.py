"""A thousand prompts on the config topic of a real Pulsar, many of which change each second under load."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.pulsar_traffic import FLOW
from tests.support.restless_model import TEMPLATES
from tests.support.worker_processes import Process, Site
from tests.support.workers import Heard, entry, listening
from trustgraph_prompt.broker import Producer, connect
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import config

pytestmark = [pytest.mark.pulsar, pytest.mark.alone]

PROMPTS = 999
"""Beside the system message."""
PUSHES_A_SECOND, REQUESTS_A_SECOND = 50, 40
SECONDS, ROUNDS = 5.0, 3
"""Of each phase, with changes and without, and how often they take turns."""

PADDING = "Be as careful as can be. " * 40
SAID = re.compile(r"generation (\d+) of (\w+):")


class Prompts:
    """Every push is a generation: a new system message, a new `hot`, and a new one of all others in turn."""

    def __init__(self, producer: Producer, workspace: str) -> None:
        self._producer = producer
        self._workspace = workspace
        self.generation = 0

    async def lay(self) -> None:
        """The first generation, of all."""
        await self._push(["system", "hot", *(f"t{n}" for n in range(PROMPTS - 1))])

    async def change(self, over: asyncio.Event) -> None:
        """Push generations at a steady pace."""
        async with asyncio.TaskGroup() as pushing:
            while not over.is_set():
                self.generation += 1
                pushing.create_task(self._push(["system", "hot", f"t{self.generation % (PROMPTS - 1)}"]))
                await asyncio.sleep(1 / PUSHES_A_SECOND)

    async def _push(self, names: list[str]) -> None:
        id = f"push-{self.generation}"
        async with asyncio.TaskGroup() as sending:
            for name in names:
                more = {} if name == names[-1] else {config.MORE: "true"}
                key = f"{self._workspace}/{name if name == 'system' else f'template.{name}'}"
                text = f"generation {self.generation} of {name}: {PADDING}"
                data = json.dumps(text) if name == "system" else entry(text + "{{ text }}")
                sending.create_task(
                    self._producer.send(data.encode(), key=key, properties={config.PUSH: id, **more})
                )


class Judge:
    """A model that says what it was asked, and keeps which questions no one generation could have asked."""

    def __init__(self) -> None:
        self.mixed: list[str] = []
        self.generations: set[int] = set()
        self.calls = 0

    def reply(self, body: dict[str, Any]) -> Reply:
        system, prompt = (SAID.findall(message["content"])[0] for message in body["messages"])
        generation = int(system[0])
        self.calls += 1
        self.generations.add(generation)
        if int(prompt[0]) != _written(prompt[1], generation):
            self.mixed.append(f"{prompt} under {system}")
        return Reply(streamed("Yes."))


def _written(name: str, generation: int) -> int:
    """In which generation the prompt was written that stands in this one."""
    if name == "hot":
        return generation
    number = int(name.removeprefix("t"))
    back = (generation - number) % (PROMPTS - 1)
    return generation - back if generation - back > 0 else 0


@dataclass
class Latencies:
    """In seconds: from publication to response, and how long the worker's loop lets somebody wait."""

    requests: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"requests {_summary(self.requests)}, loop {_summary(self.looks)}"


def _summary(seconds: list[float]) -> str:
    p50, p99, longest = median(seconds), _p99(seconds), max(seconds)
    return f"p50 {1000 * p50:.0f} ms p99 {1000 * p99:.0f} ms max {1000 * longest:.0f} ms"


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98]


class Asking:
    """Requests at a steady pace, whose responses are timed."""

    def __init__(self, producer: Producer, responses: Heard, worker: Process) -> None:
        self._producer = producer
        self._responses = responses
        self._worker = worker
        self._numbers = itertools.count()
        self._ids: list[str] = []

    async def phase(self, latencies: Latencies) -> None:
        """Ask for some seconds, and wait for all answers."""
        began: dict[str, float] = {}
        seen = len(self._responses.messages)
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self._look(latencies.looks))
            hearing = tasks.create_task(self._hear(seen, began, latencies.requests))
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                number = next(self._numbers)
                id = f"r{number}"
                began[id] = time.monotonic()
                tasks.create_task(self._ask(id, "hot" if number % 2 else f"t{number % 50}"))
                await asyncio.sleep(1 / REQUESTS_A_SECOND)
            missing = await self._responses.missing(began)
            looking.cancel()
            hearing.cancel()
        assert not missing

    async def _ask(self, id: str, prompt: str) -> None:
        await self._producer.send(PromptRequest.asking(prompt, {"text": id}).encode(), properties={"id": id})

    async def _hear(self, seen: int, began: dict[str, float], taken: list[float]) -> None:
        while True:
            messages = await self._responses.until(seen + 1)
            for message in messages[seen:]:
                taken.append(time.monotonic() - began[message.properties["id"]])
            seen = len(messages)

    async def _look(self, taken: list[float]) -> None:
        while True:
            taken.append(await self._worker.answers_within("/livez"))
            await asyncio.sleep(0.02)


async def test_fifty_changes_a_second_to_a_thousand_prompts_mix_nothing_and_delay_nobody(
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    tell: Callable[..., None],
) -> None:
    judge = Judge()
    server.reply = judge.reply
    requests, responses = (f"persistent://{pulsar_space}/flow/{name}" for name in ("requests", "responses"))
    pulsar_site.serves(
        FLOW.format(space=pulsar_space, requests=requests, responses=responses, concurrency=16), TEMPLATES
    )
    pulsar_site.asks(server.url)
    quiet, changing = Latencies(), Latencies()
    async with (
        await connect(pulsar_site.url) as broker,
        listening(broker, responses) as heard,
    ):
        prompts = Prompts(await broker.producer(str(pulsar_site.config_topic)), pulsar_space)
        await prompts.lay()
        worker = await pulsar_site.run()
        asking = Asking(await broker.producer(requests), heard, worker)
        await asking.phase(Latencies())
        for _ in range(ROUNDS):
            await asking.phase(quiet)
            async with asyncio.TaskGroup() as pushing:
                pushing.create_task(prompts.change(over := asyncio.Event()))
                await asking.phase(changing)
                over.set()
    tell(
        prompts=PROMPTS + 1,
        generations=prompts.generation,
        generations_seen=len(judge.generations),
        questions=judge.calls,
        mixed=len(judge.mixed),
        without_changes=quiet,
        with_changes=changing,
    )
    assert not judge.mixed
    assert len(judge.generations) > SECONDS * ROUNDS
    assert _p99(changing.requests) < 5 * _p99(quiet.requests) + 1.0
