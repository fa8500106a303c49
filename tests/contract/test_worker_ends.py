"""What a worker finishes, sends and leaves to others when it ends, or a flow's loop, or a consumer."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakSet

import pytest

from tests.support.flaky_broker import FlakyBroker
from tests.support.workers import CHALK, ENTRIES, Counted, Heard, House, Script, Working
from trustgraph_prompt.broker import Broker, Consumer, Message, topics
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerUnavailable
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker.around.crash_record import CrashRecord, WorkRecord
from trustgraph_prompt.worker.around.isolation import Isolation
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.flows import FlowLoop
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.timeouts import Timeouts

QUICK: dict[str, Any] = {"drain_timeout": 0.1, "timeouts": Timeouts(give_up=0.1)}


@pytest.fixture
def broker_kind() -> str:
    """The broker's own behaviour is the matter of other tests; here it is told to fail."""
    return "memory"


def worker(house: House, broker: object, **settings: Any) -> Service:
    provider = ScriptedProvider(lambda call: "hi")
    return Service(cast(Broker, broker), [house.flow()], Prompts(ENTRIES), lambda _: provider, **settings)


class Silent:
    """A broker that never answers."""

    def __getattr__(self, name: str) -> object:
        async def wait(*args: object, **options: object) -> None:
            await asyncio.Event().wait()

        return wait


class Away:
    """A broker that cannot be reached."""

    def __getattr__(self, name: str) -> object:
        async def fail(*args: object, **options: object) -> None:
            raise BrokerUnavailable("nobody there")

        return fail


async def test_a_worker_whose_broker_is_away_says_so_and_can_be_stopped(house: House) -> None:
    waiting = worker(house, Away())
    working = Working(waiting)
    async with asyncio.timeout(30):
        while "nobody there" not in waiting.health.waiting.get("config", ""):
            await asyncio.sleep(0.01)
        assert not waiting.health.ready
        await working.stop()


async def test_a_worker_that_waits_for_its_broker_for_ever_can_be_stopped(
    house: House,
) -> None:
    timeouts = Timeouts(give_up=0.1, close_config=0.1)
    for settings in ({}, {"config_topic": None}):
        waiting = worker(house, Silent(), drain_timeout=0.1, timeouts=timeouts, **settings)
        working = Working(waiting)
        await asyncio.sleep(0.05)
        async with asyncio.timeout(30):
            await working.stop()


class Unstoppable:
    """A broker that works, but never answers who wants to leave a subscription."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def consumer(self, topic: str, subscription: str, **options: Any) -> Consumer:
        consumer = await self._broker.consumer(topic, subscription, **options)

        async def stop() -> None:
            await asyncio.Event().wait()

        consumer.stop = stop  # type: ignore[method-assign]
        return consumer


async def test_the_time_to_drain_begins_with_the_signal_whatever_the_broker_answers(
    house: House,
) -> None:
    broker = house.broker
    house.broker = cast(Broker, Unstoppable(broker))
    flow = house.flow()
    working = await house.work(flow, lambda call: ScriptedAnswer("late", delay=3600), **QUICK)
    id = await house.send(flow, "say", text="x")

    async with asyncio.timeout(30):
        await working.stop()

    house.broker = broker
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: "in time")
    assert [piece["text"] for piece in await responses.under(id)] == ["in time"]


async def test_a_worker_that_is_stopped_before_it_starts_ends(house: House) -> None:
    stopped = worker(house, house.broker)
    stopped.stop()
    async with asyncio.timeout(30):
        await stopped.run()
    assert not stopped.health.ready


async def test_a_response_that_awaits_its_confirmation_when_the_drain_ends_is_not_followed_by_an_error(
    house: House, flaky: FlakyBroker, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow(persistent=False)
    responses = await house.hear(house.topic("responses"))
    confirmed = flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    working = await house.work(flow, Counted(), drain_timeout=0.1)
    id = await house.send(flow, "define", text="x")
    await responses.until(1)

    stopping = asyncio.create_task(working.stop())
    async with asyncio.timeout(30):
        while "are cancelled" not in caplog.text:
            await asyncio.sleep(0.01)
    confirmed.set()
    await stopping

    [response] = await responses.under(id)
    assert response["error"] is None
    assert len(await responses.all()) == 1


async def test_a_piece_that_is_sent_when_a_worker_ends_is_not_sent_by_the_next_one(
    house: House, flaky: FlakyBroker
) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    confirmed = flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    working = await house.work(flow, lambda call: ScriptedAnswer("abcd", chunk=2), drain_timeout=0)
    id = await house.send(flow, "say", streaming=True, text="x")
    await responses.until(1)
    flaky.unconfirmed.clear()
    await working.stop()
    confirmed.set()
    await house.work(flow, lambda call: "another")

    first, last = await responses.under(id)

    assert (first["text"], last["error"]["type"]) == ("ab", "shutting-down")
    await responses.under(await house.send(flow, "say", text="y"))
    assert len(await responses.all()) == 3


async def test_a_response_that_is_never_confirmed_does_not_keep_a_worker_from_ending(
    house: House, flaky: FlakyBroker
) -> None:
    flow = house.flow(persistent=False)
    responses = await house.hear(house.topic("responses"))
    flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    working = await house.work(flow, Counted(), **QUICK)
    await house.send(flow, "define", text="x")
    await responses.until(1)

    async with asyncio.timeout(30):
        await working.stop()

    assert len(await responses.all()) == 1


class Breaking:
    """A consumer that breaks after so many messages."""

    def __init__(self, consumer: Consumer, messages: int) -> None:
        self._consumer = consumer
        self._left = messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    async def receive(self) -> Message | None:
        if self._left == 0:
            raise BrokerUnavailable("gone")
        self._left -= 1
        return await self._consumer.receive()


class Defective(Breaking):
    """A consumer that raises an internal error after so many messages."""

    async def receive(self) -> Message | None:
        message = await self._consumer.receive()
        if message is not None and self._left == 0:
            raise ZeroDivisionError("a defect")
        self._left -= 1
        return message


def loop_of(
    house: House,
    flow: Flow,
    subscribe: Callable[[], Awaitable[Consumer | None]],
    model: Script,
    timeouts: Timeouts = Timeouts(),
) -> FlowLoop:
    services = Services(Prompts(ENTRIES), ProducerPool(house.broker), Metrics(), timeouts=timeouts)
    return FlowLoop(flow, ScriptedProvider(model), services, subscribe)


@dataclass
class Serving:
    """A flow whose loop is being served, and what requesters hear of it."""

    house: House
    flow: Flow
    loop: FlowLoop
    task: asyncio.Task[None]
    responses: Heard

    async def end(self, how: str) -> None:
        match how:
            case "fails":
                await self.house.send(self.flow, "define", text="y")
            case "is cancelled":
                self.task.cancel()
            case "gives up":
                self.loop.give_up()

    async def ended(self) -> BaseException | None:
        """Wait for the end, and return how it has ended. No request goes on after it."""
        await self.loop.stop()
        async with asyncio.timeout(30):
            [how] = await asyncio.gather(self.task, return_exceptions=True)
        assert not any("Delivery.run" in repr(task) for task in asyncio.all_tasks())
        return how


async def serve(
    house: House,
    prompt: str,
    *,
    persistent: bool = False,
    model: Script = lambda call: CHALK,
    timeouts: Timeouts = Timeouts(),
) -> Serving:
    """Serve a request, and fail on the next one."""
    flow = house.flow(concurrency=2, persistent=persistent)
    responses = await house.hear(house.topic("responses"))

    async def subscribe() -> Consumer:
        consumer = await house.broker.consumer(flow.input.topic, flow.input.subscription)
        return cast(Consumer, Defective(consumer, 1))

    loop = loop_of(house, flow, subscribe, model, timeouts)
    serving = asyncio.create_task(loop.serve())
    await house.send(flow, prompt, id="first", text="x")
    return Serving(house, flow, loop, serving, responses)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("prompt", ["define", "unknown"])
@pytest.mark.parametrize("ends", ["fails", "is cancelled", "gives up", "fails, gives up", "gives up, fails"])
async def test_a_response_that_is_sent_while_a_loop_ends_is_the_only_one(
    house: House, flaky: FlakyBroker, ends: str, prompt: str, persistent: bool
) -> None:
    confirmed = flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    serving = await serve(house, prompt, persistent=persistent)
    await serving.responses.until(1)
    for end in ends.split(", "):
        await serving.end(end)
        await asyncio.sleep(0.05)
    assert not serving.task.done()

    confirmed.set()
    how = await serving.ended()

    assert isinstance(how, ExceptionGroup) == ("fails" in ends)
    assert isinstance(how, asyncio.CancelledError) == (ends == "is cancelled")
    await house.work(serving.flow, Counted())
    await serving.responses.under(await house.send(serving.flow, "define", text="z"))
    answers = [json.loads(m.data) for m in serving.responses.messages if m.properties["id"] == "first"]
    assert [answer["error"] and answer["error"]["type"] for answer in answers] == [
        None if prompt == "define" else "unknown-prompt"
    ]


async def test_an_error_that_is_sent_while_a_loop_ends_is_not_interrupted(
    house: House, flaky: FlakyBroker
) -> None:
    confirmed = flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    serving = await serve(house, "define", model=lambda call: ScriptedAnswer("late", delay=3600))
    await serving.end("fails")
    await serving.responses.until(1)
    await serving.end("gives up")
    await asyncio.sleep(0.05)
    assert not serving.task.done()

    confirmed.set()
    await serving.ended()

    [response] = await serving.responses.under("first")
    assert response["error"]["type"] == "shutting-down"


async def test_a_response_that_cannot_be_sent_when_a_loop_ends_is_left_to_the_next_worker(
    house: House, flaky: FlakyBroker, caplog: pytest.LogCaptureFixture
) -> None:
    confirmed = flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    serving = await serve(house, "define", persistent=True)
    await serving.responses.until(1)
    await serving.end("gives up")
    flaky.failures[house.topic("responses")] = 1
    confirmed.set()
    await serving.ended()

    assert "retry in" not in caplog.text
    await house.work(serving.flow, Counted())
    await serving.responses.until(2)


CUT_OFF = ["is cancelled, is cancelled", "gives up, gives up", "gives up, gives up, is cancelled"]


@pytest.mark.parametrize("ends", ["fails", "is cancelled", *CUT_OFF])
async def test_a_response_that_is_never_confirmed_does_not_keep_a_loop_from_ending(
    house: House, flaky: FlakyBroker, ends: str
) -> None:
    timeouts = Timeouts() if ends in CUT_OFF else Timeouts(give_up=0.1)
    flaky.unconfirmed[house.topic("responses")] = asyncio.Event()
    serving = await serve(house, "define", timeouts=timeouts)
    await serving.responses.until(1)
    for end in ends.split(", "):
        await serving.end(end)
        await asyncio.sleep(0)

    await serving.ended()

    assert len(await serving.responses.all()) == 1


class SlowToBury(Breaking):
    """A consumer that writes dead letters, and says so once `confirms` is set."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(consumer, -1)
        self.confirms = asyncio.Event()

    async def bury(self, *arguments: Any) -> None:
        await self._consumer.bury(*arguments)
        await self.confirms.wait()


@pytest.mark.parametrize("during", ["dead letter", "absolution"])
async def test_a_suspect_that_is_settled_while_a_loop_ends_is_buried_once_and_suspect_no_longer(
    house: House, flaky: FlakyBroker, during: str
) -> None:
    flow = house.flow()
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    working = topics.in_progress_topic(flow.input.topic, flow.input.subscription)
    consumer = SlowToBury(await house.broker.consumer(flow.input.topic, flow.input.subscription))
    request = await house.broker.producer(flow.input.topic)
    id = await request.send(PromptRequest.asking("unknown", {}).encode(), properties={"id": "first"})
    await house.put(working, WorkRecord({id: None}).encode(), key="dead worker")
    producers = ProducerPool(house.broker)
    record = CrashRecord(house.broker, producers, working, Isolation())
    await record.open()
    services = Services(Prompts(ENTRIES), producers, Metrics())

    async def subscribe() -> Consumer:
        return cast(Consumer, consumer)

    loop = FlowLoop(flow, ScriptedProvider(Counted()), services, subscribe, record)
    serving = asyncio.create_task(loop.serve())
    await dead.until(1)
    absolved = flaky.unconfirmed[working] = asyncio.Event()
    if during == "absolution":
        consumer.confirms.set()
        await asyncio.sleep(0.05)
    loop.give_up()
    await asyncio.sleep(0.05)
    consumer.confirms.set()
    absolved.set()
    async with asyncio.timeout(30):
        await loop.stop()
        await serving
    await record.close()

    assert len(await dead.all()) == 1
    table = await house.broker.table(working)
    await table.close()
    assert not [entry for entry in table.entries.values() if entry.data]


async def test_a_loop_ends_when_all_is_answered_that_came_from_a_lost_consumer(house: House) -> None:
    flow = house.flow(persistent=False)
    responses = await house.hear(house.topic("responses"))
    consumers: list[Any] = [await house.broker.consumer(flow.input.topic, flow.input.subscription), None]

    async def subscribe() -> Consumer | None:
        consumer = consumers.pop(0)
        return consumer and cast(Consumer, Breaking(consumer, 1))

    loop = loop_of(house, flow, subscribe, lambda call: ScriptedAnswer(CHALK, delay=1))
    id = await house.send(flow, "define", text="x")
    async with asyncio.timeout(30):
        await loop.serve()

    [response] = await responses.all()
    assert response.properties["id"] == id


async def test_a_consumer_that_breaks_is_replaced_and_what_was_in_work_is_paid_once(house: House) -> None:
    flow = house.flow(concurrency=2)
    responses = await house.hear(house.topic("responses"))
    model = Counted()
    breaking = 3

    async def subscribe() -> Consumer | None:
        nonlocal breaking
        breaking -= 1
        consumer = await house.broker.consumer(flow.input.topic, flow.input.subscription)
        return cast(Consumer, Breaking(consumer, 1)) if breaking >= 0 else consumer

    loop = loop_of(house, flow, subscribe, model)
    flow_set = asyncio.create_task(loop.serve())
    ids = {await house.send(flow, "define", text=str(n)) for n in range(5)}

    async with asyncio.timeout(60):
        while {message.properties["id"] for message in responses.messages} != ids:
            await asyncio.sleep(0.01)
    await loop.stop()
    await flow_set
    assert model.calls == len(ids)


async def test_consumers_that_broke_are_let_go_of(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is logged is kept by the test run, and with its errors who raised them.
    monkeypatch.setattr(logging.getLogger("trustgraph_prompt.worker.flow_subscription"), "disabled", True)
    flow = house.flow()
    at_once = Timeouts(before_reopening=0)
    services = Services(Prompts(ENTRIES), ProducerPool(house.broker), Metrics(), timeouts=at_once)
    opened, alive = 0, WeakSet[Breaking]()

    async def subscribe() -> Consumer | None:
        nonlocal opened
        opened += 1
        consumer = await house.broker.consumer(flow.input.topic, flow.input.subscription)
        alive.add(breaking := Breaking(consumer, 0))
        return cast(Consumer, breaking)

    flow_set = asyncio.create_task(FlowLoop(flow, ScriptedProvider(Counted()), services, subscribe).serve())
    async with asyncio.timeout(60):
        while opened < 50:
            await asyncio.sleep(0)
    gc.collect()

    assert len(alive) < 5
    flow_set.cancel()
    await asyncio.wait([flow_set])
