"""A thousand prompts on the config topic, of which many change each second; requests, timed meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from tests.support.model_server import Reply, streamed
from tests.support.worker_processes import Process
from tests.support.workers import Heard, entry
from trustgraph_prompt.broker import Producer
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker.config import source

PROMPTS = 999
"""Beside the system message."""
PUSHES_A_SECOND, REQUESTS_A_SECOND = 50, 40
SECONDS = 5.0
"""Of each phase, with changes or without."""

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
                more = {} if name == names[-1] else {source.MORE: "true"}
                key = f"{self._workspace}/{name if name == 'system' else f'template.{name}'}"
                text = f"generation {self.generation} of {name}: {PADDING}"
                data = json.dumps(text) if name == "system" else entry(text + "{{ text }}")
                sending.create_task(
                    self._producer.send(data.encode(), key=key, properties={source.PUSH: id, **more})
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
    figures = {"p50": median(seconds), "p99": p99(seconds), "max": max(seconds)}
    return " ".join(f"{name} {1000 * figure:.0f} ms" for name, figure in figures.items())


def p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98]


class Asking:
    """Requests at a steady pace, whose responses are timed."""

    def __init__(self, producer: Producer, responses: Heard, worker: Process) -> None:
        self._producer = producer
        self._responses = responses
        self._worker = worker
        self._numbers = itertools.count()

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
