"""Runs prompts on the chunks of documents with a worker in this process.

Requests are kept in memory, because the documents can produce them again. Objects and answers are kept in an
embedded broker in a file, so that a repeated run only makes the calls that have no answer yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Generic

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, Reader, connect, topics
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import (
    BrokerUnavailable,
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderInvalidRequest,
    SubscriptionBusy,
    TrustgraphPromptError,
)
from trustgraph_prompt.extraction.questions import Q
from trustgraph_prompt.extraction.results import Result, ResultCollector
from trustgraph_prompt.extraction.state import (
    ANSWERS,
    LOCK,
    OBJECTS,
    OWNER,
    RECORD,
    entries,
    read_state,
    send,
)
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.llm import Call, Delta, Provider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.spending import SpendingLimitReached
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.flows import FlowLoop
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry.metrics import Metrics

REQUESTS: Final = "persistent://local/extract/requests"

SECONDS_BETWEEN_CHECKS: Final = 1.0
"""Of the state."""

HOPELESS: Final = 20
"""After this many failures in a row the rest is not asked: the server is down."""

SUBSCRIPTION: Final = "extract"
WORKSPACE: Final = "default"


def divided(jobs: Sequence[Q], state: Path) -> tuple[list[Q], list[Result[Q]]]:
    """Return the jobs that a run would ask the model about, and the results that the state has of others.

    Raises `BrokerError` if the state is unusable.
    """
    kept: list[Result[Q]] = []
    collector = ResultCollector(jobs, kept.append)
    collector.take_all(read_state(state, OBJECTS), read_state(state, ANSWERS), earlier=True)
    return collector.to_ask(), kept


def has_no_answer(result: Result[Any]) -> bool:
    """Whether there is nothing usable: a refusal is no answer, either."""
    return result.failure is not None


@dataclass(eq=False)
class Extraction(Generic[Q]):
    """A run over some questions, in the terms of an ontology if there is one.

    `state` is the file that keeps objects, answers and `owner`.

    It ends early after `HOPELESS` failures in a row: results for which `is_failure` is true. At a failed call
    that shows that every other call would fail as well it ends, too, and `is_hopeless` is set.
    """

    jobs: Sequence[Q]
    prompts: PromptSet
    provider: Provider
    _: KW_ONLY
    state: Path
    terms: Mapping[str, object]
    concurrency: int
    listen: Callable[[Result[Q]], None]
    owner: Mapping[str, object]
    ontology: OntologyIndex | None = None
    is_failure: Callable[[Result[Q]], bool] = has_no_answer
    failed_in_a_row: int = field(default=0, init=False)
    is_hopeless: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._collector = ResultCollector(self.jobs, self._hear)
        self._stopping = asyncio.Event()
        self._loop: FlowLoop | None = None
        self._flow = Flow(
            "extract",
            Input(REQUESTS, SUBSCRIPTION),
            Outputs(ANSWERS, objects={"": OBJECTS}),
            workspace=WORKSPACE,
            terms=self.terms,
            ontology=self.ontology,
            concurrency=self.concurrency,
            deliveries=1,
            budget=Budget(),  # the provider limits the time of each call
            unusable="answer",  # the summary lists them
        )

    def _hear(self, result: Result[Q]) -> None:
        self.failed_in_a_row = self.failed_in_a_row + 1 if self.is_failure(result) else 0
        if self.failed_in_a_row == HOPELESS:
            self.stop()
        self.listen(result)

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
        async with await connect(f"embedded:{self.state}") as kept:
            await _lock(kept, self.state)
            await send(kept, RECORD, {OWNER: self.owner})
            await self._catch_up(kept, earlier=True)
            if self._collector.open:
                async with await connect("embedded:") as volatile:
                    await self._work(kept, volatile)
                await self._catch_up(kept, earlier=False)

    async def _catch_up(self, kept: Broker, *, earlier: bool) -> None:
        """Take all objects and answers in the state."""
        objects, answers = await entries(kept, OBJECTS), await entries(kept, ANSWERS)
        self._collector.take_all(objects, answers, earlier=earlier)

    async def _lose_hope(self) -> None:
        """Stop before another call is made."""
        self.is_hopeless = True
        self.stop()
        if self._loop is not None:
            await self._loop.stop()

    async def _work(self, kept: Broker, volatile: Broker) -> None:
        """Send the open jobs to the flow and collect what it publishes, until none is open."""
        producers = ProducerPool(kept)
        services = Services({WORKSPACE: self.prompts}, producers, Metrics())
        subscribe = partial(volatile.consumer, REQUESTS, SUBSCRIPTION)
        watched = _Watched(self.provider, self._lose_hope)
        loop = self._loop = FlowLoop(self._flow, watched, services, subscribe)
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


async def _lock(kept: Broker, state: Path) -> None:
    """Lock the state until its broker is closed."""
    try:
        await kept.consumer(LOCK, SUBSCRIPTION, type="exclusive")
    except SubscriptionBusy:
        raise SubscriptionBusy(f"{state}: another run is using it") from None


def _first(group: BaseExceptionGroup[TrustgraphPromptError]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
