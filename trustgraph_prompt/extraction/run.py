"""Runs prompts on the chunks of documents with a worker in this process.

Requests are kept in memory, because the documents can produce them again. Objects and answers are kept in an
embedded broker in a file, so that a repeated run only makes the calls that have no answer yet.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Generic

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, Reader, connect, topics
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.documents import Chunk, Converter
from trustgraph_prompt.errors import (
    BrokerUnavailable,
    ConfigError,
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderInvalidRequest,
    SubscriptionBusy,
    TrustgraphPromptError,
    without_frames,
)
from trustgraph_prompt.extraction.results import Job, Q, Result, ResultCollector
from trustgraph_prompt.extraction.splitting import Splitting
from trustgraph_prompt.llm import Call, Delta, Provider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.spending import SpendingLimitReached
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.flows import FlowLoop
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry.metrics import Metrics

REQUESTS: Final = "persistent://local/extract/requests"
ANSWERS: Final = "persistent://local/extract/answers"
OBJECTS: Final = "persistent://local/extract/objects"
SPLITTING: Final = "persistent://local/extract/splitting"
RECORD: Final = "persistent://local/extract/record"
OWNER: Final = "run"
"""The key in the record of the command that the state belongs to, and of how the run asks."""

SECONDS_BETWEEN_CHECKS: Final = 1.0
"""Of the state."""

LOCK: Final = "persistent://local/extract/lock"
SUBSCRIPTION: Final = "extract"
WORKSPACE: Final = "default"


def jobs(
    files: Iterable[Path],
    prompts: Sequence[PromptDefinition],
    *,
    model: str,
    terms: Mapping[str, object],
    splitting: Splitting,
) -> tuple[list[Job], list[ConfigError]]:
    """Return a job for each prompt and chunk, in the order of the files, and the errors of unusable files.

    `model` is part of the requests' ids: answers of another model do not count.
    """
    for prompt in prompts:
        if prompt.contract.format == "text":
            raise ConfigError("it answers with text, which contains no objects", where=prompt.id)
    jobs: list[Job] = []
    unusable: list[ConfigError] = []
    with Converter() as converter:
        for file in files:
            try:
                document, chunks = splitting.read(file, converter)
            except ConfigError as error:
                unusable.append(without_frames(error))
                continue
            for chunk in chunks:
                for prompt in prompts:
                    id = _request_id(prompt, model, terms, chunk)
                    jobs.append(Job(len(jobs), id, prompt.id, document, chunk))
    return jobs, unusable


def recorded_splitting(state: Path) -> Splitting:
    """How the documents of an earlier run were split. Raises `ConfigError` if the state does not tell."""
    recorded = asyncio.run(_splitting_in(state)) if state.exists() else None
    if recorded is None:
        raise ConfigError(
            "does not tell how documents were split", where=str(state), expected="a new `extract`"
        )
    return Splitting.from_json(recorded)


def divided(jobs: Sequence[Q], state: Path) -> tuple[list[Q], list[Result[Q]]]:
    """Return the jobs that a run would ask the model about, and the results that the state has of others.

    Raises `BrokerError` if the state is unusable.
    """
    kept: list[Result[Q]] = []
    collector = ResultCollector(jobs, kept.append)
    if state.exists():
        asyncio.run(_take_kept(collector, state))
    return collector.to_ask(), kept


class Extraction(Generic[Q]):
    """A run over some questions. `state` is the file that keeps objects and answers, `owner` and `splitting`.

    It ends early at a failed call that shows that every other call would fail as well; `is_hopeless` is set
    then.
    """

    def __init__(
        self,
        jobs: Sequence[Q],
        prompts: PromptSet,
        provider: Provider,
        *,
        state: Path,
        terms: Mapping[str, object],
        concurrency: int,
        listen: Callable[[Result[Q]], None],
        owner: Mapping[str, object] | None = None,
        splitting: Splitting | None = None,
    ) -> None:
        self.is_hopeless = False
        self._prompts = prompts
        self._provider = _Watched(provider, self._lose_hope)
        self._state = state
        self._owner = owner
        self._splitting = splitting
        self._collector = ResultCollector(jobs, listen)
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
            budget=Budget(),  # the provider limits the time of each call
            unusable="answer",  # the summary lists them
        )

    def stop(self) -> None:
        """Finish the calls in progress and keep their answers."""
        self._stopping.set()

    def give_up(self) -> None:
        """Stop, and abandon the calls in progress."""
        self.stop()
        if self._loop is not None:
            self._loop.give_up()

    async def run(self) -> None:
        """Run until every job has its result, or until `stop()`; `listen` gets each result once.

        Raises `BrokerError` if the state is unusable, also later, or in use by another run. A
        `TrustgraphPromptError` of `listen` ends the run.
        """
        async with await connect(f"embedded:{self._state}") as kept:
            await _lock(kept, self._state)
            await self._record(kept)
            await _catch_up(self._collector, kept, earlier=True)
            if self._collector.open:
                async with await connect("embedded:") as volatile:
                    await self._work(kept, volatile)
                await _catch_up(self._collector, kept, earlier=False)

    async def _record(self, kept: Broker) -> None:
        if self._owner is not None:
            await _send(kept, RECORD, OWNER, self._owner)
        if self._splitting:
            await _send(kept, SPLITTING, "splitting", self._splitting.as_json())

    async def _lose_hope(self) -> None:
        """Stop before another call is made."""
        self.is_hopeless = True
        self.stop()
        if self._loop is not None:
            await self._loop.stop()

    async def _work(self, kept: Broker, volatile: Broker) -> None:
        """Send the open jobs to the flow and collect what it publishes, until none is open."""
        producers = ProducerPool(kept)
        services = Services({WORKSPACE: self._prompts}, producers, Metrics())
        subscribe = partial(volatile.consumer, REQUESTS, SUBSCRIPTION)
        loop = self._loop = FlowLoop(self._flow, self._provider, services, subscribe)
        objects = await kept.reader(OBJECTS, start="latest")
        answers = await kept.reader(ANSWERS, start="latest")
        dead = await volatile.reader(topics.dead_letter_topic(REQUESTS, SUBSCRIPTION))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(objects, self._collector.take_object))
                tasks.create_task(self._follow(answers, self._collector.take_answer))
                tasks.create_task(self._follow(dead, self._collector.take_dead_letter))
                checking = tasks.create_task(_check(kept, producers))
                serving = tasks.create_task(loop.serve())
                await self._ask(volatile)
                await self._stopping.wait()
                await loop.stop()
                await serving
                checking.cancel()
                for reader in (objects, answers, dead):
                    await reader.close()
        except* TrustgraphPromptError as group:
            raise _first(group) from None
        finally:
            await producers.close()

    async def _ask(self, volatile: Broker) -> None:
        producer = await volatile.producer(REQUESTS)
        for job in self._collector.to_ask():
            if self._stopping.is_set():
                break
            request = wire.PromptRequest.asking(job.prompt, job.terms)
            await producer.send(request.encode(), properties={"id": job.id})

    async def _follow(self, reader: Reader, take: Callable[[Message], None]) -> None:
        while message := await reader.receive():
            take(message)
            if not self._collector.open:
                self._stopping.set()


class _Watched(ProviderWrapper):
    """Awaits `lose_hope` before it raises an error that every other call would meet as well."""

    def __init__(self, provider: Provider, lose_hope: Callable[[], Awaitable[None]]) -> None:
        super().__init__(provider)
        self._lose_hope = lose_hope

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    yield delta
        except ProviderError as error:
            if _concerns_every_call(error, call):
                await self._lose_hope()
            raise


def _concerns_every_call(error: ProviderError, call: Call) -> bool:
    """Whether the money is spent, or the server rejects the key, the model of all prompts, or the address."""
    if isinstance(error, SpendingLimitReached):
        return True
    if isinstance(error, ProviderAuthentication):
        return error.status != HTTPStatus.FORBIDDEN  # with which some servers reject a single question
    is_wrong_address = isinstance(error, ProviderInvalidRequest) and error.status == HTTPStatus.NOT_FOUND
    is_own_model = call.config.model is not None
    return not is_own_model and (is_wrong_address or isinstance(error, ProviderInvalidModel))


async def _check(kept: Broker, producers: ProducerPool) -> None:
    """Raise a `BrokerError` once the state cannot be read or written: a flow waits until it can."""
    reader = await kept.reader(LOCK)  # a topic without messages
    while True:
        await reader.behind()
        for error in producers.refused.values():
            raise BrokerUnavailable(error)
        await asyncio.sleep(SECONDS_BETWEEN_CHECKS)


async def _catch_up(collector: ResultCollector[Any], kept: Broker, *, earlier: bool) -> None:
    """Take all objects and answers in the state."""
    for message in await entries(kept, OBJECTS):
        collector.take_object(message)
    for message in await entries(kept, ANSWERS):
        collector.take_answer(message, earlier=earlier)


async def _take_kept(collector: ResultCollector[Any], state: Path) -> None:
    async with await connect(f"embedded:{state}") as kept:
        await _catch_up(collector, kept, earlier=True)


async def _splitting_in(state: Path) -> dict[str, Any] | None:
    async with await connect(f"embedded:{state}") as kept:
        return next(
            (wire.decode(message.data, "splitting") for message in await entries(kept, SPLITTING)), None
        )


async def entries(kept: Broker, topic: str) -> list[Message]:
    """Return the last message of each key. Opening the topic as a table also makes it compacted."""
    table = await kept.table(topic)
    await table.close()
    return list(table.entries.values())


async def _send(kept: Broker, topic: str, key: str, value: object) -> None:
    producer = await kept.producer(topic)
    await producer.send(wire.encode(value), key=key)
    await producer.close()


async def _lock(kept: Broker, state: Path) -> None:
    """Lock the state until its broker is closed."""
    try:
        await kept.consumer(LOCK, SUBSCRIPTION, type="exclusive")
    except SubscriptionBusy:
        raise SubscriptionBusy(f"{state}: another run is using it") from None


def _request_id(prompt: PromptDefinition, model: str, terms: Mapping[str, object], chunk: Chunk) -> str:
    context = [chunk.context] if chunk.context else []
    parts = (prompt.id, prompt.version, model, wire.canonical(terms).decode(), chunk.text, *context)
    return hashlib.sha256(wire.canonical(parts)).hexdigest()[:32]


def _first(group: BaseExceptionGroup[TrustgraphPromptError]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
