"""The main job at a laptop: prompts about chunks of documents, a worker in this process, objects in a file.

Requests live in memory, because they can be made anew from the documents. Objects and answers live in an
embedded broker in a file, so that a run which is repeated asks only what has no answer yet.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, Reader, connect, topics
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import ConfigError, SubscriptionBusy, TrustgraphPromptError, without_frames
from trustgraph_prompt.extraction import documents
from trustgraph_prompt.extraction.results import Job, Result, ResultCollector
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.loop import FlowLoop
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry.metrics import Metrics

REQUESTS: Final = "persistent://local/extract/requests"
ANSWERS: Final = "persistent://local/extract/answers"
OBJECTS: Final = "persistent://local/extract/objects"
LOCK: Final = "persistent://local/extract/lock"
SUBSCRIPTION: Final = "extract"
WORKSPACE: Final = "default"


def jobs(
    files: Iterable[Path],
    prompts: Sequence[PromptDefinition],
    *,
    model: str,
    terms: Mapping[str, object],
    chunk_size: int = documents.CHUNK_SIZE,
) -> tuple[list[Job], list[ConfigError]]:
    """Each prompt about each chunk, in the order of the files, and what is wrong with files of no use.

    A file that is named twice, by whatever path, counts once.
    `model` names who answers: what somebody else answered does not count.
    """
    for prompt in prompts:
        if prompt.contract.format == "text":
            raise ConfigError("it answers with text, and there are no objects in that", where=prompt.id)
    once: dict[str, Path] = {}
    for file in files:
        once.setdefault(os.path.realpath(file), file)
    jobs: list[Job] = []
    unusable: list[ConfigError] = []
    for file in once.values():
        try:
            document = documents.read(file)
        except ConfigError as error:
            unusable.append(without_frames(error))
            continue
        for number, text in enumerate(documents.chunks(document, chunk_size), 1):
            for prompt in prompts:
                id = _request_id(prompt, model, terms, text)
                jobs.append(Job(len(jobs), id, prompt.id, str(file), number, text))
    return jobs, unusable


class Extraction:
    """One run over some jobs. `state` is the file that knows what was answered."""

    def __init__(
        self,
        jobs: Sequence[Job],
        prompts: PromptSet,
        provider: Provider,
        *,
        state: Path,
        terms: Mapping[str, object],
        concurrency: int,
        listen: Callable[[Result], None],
    ) -> None:
        self._prompts = prompts
        self._provider = provider
        self._state = state
        self._gatherer = ResultCollector(jobs, listen)
        self._stopping = asyncio.Event()
        self._loop: FlowLoop | None = None
        self._flow = Flow(
            "extract",
            Input(REQUESTS, SUBSCRIPTION),
            Outputs(ANSWERS, objects={"": OBJECTS}),
            workspace=WORKSPACE,
            terms=terms,
            concurrency=concurrency,
            deliveries=1,
            unusable="answer",  # the summary says which
        )

    def stop(self) -> None:
        """Ask nothing more; what is under way is finished, and kept. Called again: that is left, too."""
        if self._stopping.is_set() and self._loop is not None:
            self._loop.give_up()
        self._stopping.set()

    async def run(self) -> None:
        """Until every job has its result, of which `listen` hears once, or `stop()`.

        Raises `BrokerError` where the state cannot be used, or another run is using it; what `listen` raises
        of ours ends the run.
        """
        async with await connect(f"embedded:{self._state}") as kept:
            await _lock(kept, self._state)
            await self._catch_up(kept, earlier=True)
            if self._gatherer.open:
                async with await connect("embedded:") as passing:
                    await self._work(kept, passing)
                await self._catch_up(kept, earlier=False)

    async def _catch_up(self, kept: Broker, *, earlier: bool) -> None:
        """Take in all that stands in the state."""
        for message in await _entries(kept, OBJECTS):
            self._gatherer.take_object(message)
        for message in await _entries(kept, ANSWERS):
            self._gatherer.take_answer(message, earlier=earlier)

    async def _work(self, kept: Broker, passing: Broker) -> None:
        """Put the open jobs to the flow and gather what it sends out, until none is open."""
        producers = ProducerPool(kept)
        services = Services({WORKSPACE: self._prompts}, lambda _: self._provider, producers, Metrics())
        loop = self._loop = FlowLoop(self._flow, partial(passing.consumer, REQUESTS, SUBSCRIPTION), services)
        objects = await kept.reader(OBJECTS, start="latest")
        answers = await kept.reader(ANSWERS, start="latest")
        dead = await passing.reader(topics.dead_letter_topic(REQUESTS, SUBSCRIPTION))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(objects, self._gatherer.take_object))
                tasks.create_task(self._follow(answers, self._gatherer.take_answer))
                tasks.create_task(self._follow(dead, self._gatherer.take_dead_letter))
                flow_set = tasks.create_task(loop.serve())
                await self._ask(passing)
                await self._stopping.wait()
                await loop.stop()
                await flow_set
                for reader in (objects, answers, dead):
                    await reader.close()
        except* TrustgraphPromptError as group:
            raise _first(group) from None
        finally:
            await producers.close()

    async def _ask(self, passing: Broker) -> None:
        producer = await passing.producer(REQUESTS)
        for job in self._gatherer.to_ask():
            if self._stopping.is_set():
                break
            request = wire.PromptRequest.asking(job.prompt, {"text": job.text})
            await producer.send(request.encode(), properties={"id": job.id})

    async def _follow(self, reader: Reader, take: Callable[[Message], None]) -> None:
        while message := await reader.receive():
            take(message)
            if not self._gatherer.open:
                self._stopping.set()


async def _entries(kept: Broker, topic: str) -> list[Message]:
    """What a topic holds; opening it as a table is also what makes it keep the last message of each key."""
    table = await kept.table(topic)
    await table.close()
    return list(table.entries.values())


async def _lock(kept: Broker, state: Path) -> None:
    """Hold the state for this run, until its broker is closed."""
    try:
        await kept.consumer(LOCK, SUBSCRIPTION, type="exclusive")
    except SubscriptionBusy:
        raise SubscriptionBusy(f"{state}: another extract is at work on it") from None


def _request_id(prompt: PromptDefinition, model: str, terms: Mapping[str, object], text: str) -> str:
    parts = (prompt.id, prompt.version, model, wire.canonical(terms).decode(), text)
    return hashlib.sha256(wire.canonical(parts)).hexdigest()[:32]


def _first(group: BaseExceptionGroup[TrustgraphPromptError]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
