"""What the workers of a subscription have in work, and whom they died of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import pytest

from tests.support.workers import House
from trustgraph_prompt.broker import Broker, topics
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.llm import Call, Delta, Provider, ScriptedProvider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker.around.crash_record import IN_GROUP, CrashRecord, WorkRecord
from trustgraph_prompt.worker.around.isolation import Isolation
from trustgraph_prompt.worker.timeouts import Timeouts

Begin = Callable[[], Awaitable[CrashRecord]]


BRIEF = Timeouts(write_ends=0.05, disown=1.0)


@pytest.fixture
def topic(space: str) -> str:
    return f"persistent://{space}/flow/in-s-WORK"


@pytest.fixture
async def worker(broker: Broker, topic: str) -> AsyncIterator[Begin]:
    """Begins workers, each with a process of its own as far as it can tell."""
    async with AsyncExitStack() as stack:

        async def begin() -> CrashRecord:
            producers = ProducerPool(broker)
            stack.push_async_callback(producers.close)
            worker = CrashRecord(broker, producers, topic, Isolation(), BRIEF)
            stack.push_async_callback(worker.close)
            await worker.open()
            return worker

        yield begin


async def died(broker: Broker, topic: str, crashes: Mapping[str, int | None], name: str = "dead") -> None:
    """A worker that had this in work."""
    producer = await broker.producer(topic)
    await producer.send(WorkRecord(crashes).encode(), key=name)
    await producer.close()


async def stands(broker: Broker, topic: str) -> list[Mapping[str, int | None]]:
    """What all workers together have in work, as another process sees it."""
    table = await broker.table(topic)
    await table.close()
    records = [WorkRecord.decode(entry.data) for entry in table.entries.values()]
    return [record.crashes for record in records if record.crashes]


async def until_it_stands(broker: Broker, topic: str, expected: list[Mapping[str, int | None]]) -> None:
    async with asyncio.timeout(60):
        while await stands(broker, topic) != expected:
            await asyncio.sleep(0.05)


async def test_message_is_recorded_before_its_work_begins_and_removed_at_its_end(
    broker: Broker, topic: str, worker: Begin
) -> None:
    one = await worker()
    async with one.working_on("1") as crashes:
        assert crashes == 0
        assert await stands(broker, topic) == [{"1": None}]
    await until_it_stands(broker, topic, [])


async def test_a_worker_that_ends_leaves_nothing_to_be_blamed(
    broker: Broker, topic: str, worker: Begin
) -> None:
    one = await worker()
    async with one.working_on("1"):
        await one.close()
        assert await stands(broker, topic) == []
        async with one.working_on("2") as crashes:
            assert crashes == 0
        assert await stands(broker, topic) == []


async def test_suspects_of_a_crash_run_beside_no_other_message(
    broker: Broker, topic: str, worker: Begin
) -> None:
    await died(broker, topic, {"1": None, "2": None})
    one = await worker()
    at_work: set[str] = set()
    beside: dict[str, set[str]] = {}

    async def work(id: str) -> None:
        async with one.working_on(id) as crashes:
            assert crashes == 0
            at_work.add(id)
            await asyncio.sleep(2.0 if id in "345" else 0.1)
            beside[id] = at_work - {id}
            at_work.remove(id)

    await asyncio.gather(*map(work, ["3", "1", "4", "2", "5"]))
    assert beside["1"] | beside["2"] <= {"1", "2"}
    assert beside["3"] == {"4", "5"}
    await until_it_stands(broker, topic, [])


async def test_half_of_a_group_that_crashed_a_worker_runs_at_a_time_unblamed(
    broker: Broker, topic: str, worker: Begin
) -> None:
    ids = ["1", "2", "3", "4"]
    await died(broker, topic, dict.fromkeys(ids))
    await died(broker, topic, dict.fromkeys(ids, IN_GROUP), name="second")
    one = await worker()
    running: set[str] = set()
    groups: list[set[str]] = []
    two = asyncio.Barrier(2)

    async def work(id: str) -> None:
        async with one.working_on(id) as crashes:
            assert crashes == 0
            running.add(id)
            await two.wait()
            if running not in groups:
                groups.append(set(running))
            if len(groups) == 1:
                assert dict.fromkeys(running, IN_GROUP) in await stands(broker, topic)
            await two.wait()
            running.remove(id)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(work, ids))
    assert [len(group) for group in groups] == [2, 2]
    await until_it_stands(broker, topic, [])


async def test_the_last_of_a_group_is_processed_alone_before_it_is_blamed(
    broker: Broker, topic: str, worker: Begin
) -> None:
    await died(broker, topic, {"1": IN_GROUP, "2": IN_GROUP})
    one = await worker()
    for id in ("1", "2"):
        async with one.working_on(id) as crashes:
            assert crashes == 0
            assert {id: 0} in await stands(broker, topic)
    await until_it_stands(broker, topic, [])


async def test_suspect_that_is_processed_again_is_not_blamed_for_the_next_group(
    broker: Broker, topic: str, worker: Begin
) -> None:
    dead: dict[str, int | None] = {"1": 1}
    await died(broker, topic, dead)
    one = await worker()
    async with one.working_on("1", ended=lambda: False):
        assert await stands(broker, topic) == [dead, {"1": 2}]
    assert await stands(broker, topic) == [dead]


async def test_suspect_that_ends_after_its_flow_is_no_suspect_any_more(
    broker: Broker, topic: str, worker: Begin
) -> None:
    await died(broker, topic, {"1": 1})
    one = await worker()
    async with one.working_on("1"):
        await one.close()
    assert await stands(broker, topic) == []


class SlowWithSuspects(ProviderWrapper):
    """Answers requests about suspects once it is told to."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider)
        self.asked = asyncio.Semaphore(0)
        self.answers = asyncio.Event()

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        if "suspect" in call.messages[-1].text:
            self.asked.release()
            await self.answers.wait()
        async for delta in self.provider.stream(call):
            yield delta


async def test_a_flow_with_suspects_receives_one_message_more_until_they_are_done(house: House) -> None:
    flow = house.flow(concurrency=8)
    responses = await house.hear(house.topic("responses"))
    working = topics.in_progress_topic(flow.input.topic, flow.input.subscription)
    request = await house.broker.producer(flow.input.topic)

    async def send(name: str) -> str:
        data = PromptRequest.asking("say", {"text": name}).encode()
        return await request.send(data, properties={"id": name})

    suspects = [await send(f"suspect{n}") for n in range(3)]
    await house.put(working, WorkRecord(dict.fromkeys(suspects)).encode(), key="dead worker")
    model = SlowWithSuspects(ScriptedProvider(lambda call: "Well."))
    one = await house.work(flow, model, timeouts=BRIEF)
    async with asyncio.timeout(60):
        for _ in suspects:
            await model.asked.acquire()
    for n in range(6):
        await send(f"new{n}")
    async with asyncio.timeout(60):
        while "processed first: 3 left" not in one.worker.health.notes().get("flow f", ""):
            await asyncio.sleep(0.01)
    other = await house.broker.consumer(flow.input.topic, flow.input.subscription)
    left = [await other.receive() for _ in range(4)]
    assert not responses.messages
    assert all(message and message.properties["id"].startswith("new") for message in left)
    await other.close()
    model.answers.set()
    assert not await responses.missing([f"new{n}" for n in range(6)])
    assert not one.worker.health.notes()


async def test_only_a_crash_while_a_message_was_alone_counts(
    broker: Broker, topic: str, worker: Begin
) -> None:
    await died(broker, topic, {"1": None, "2": None})
    await died(broker, topic, {"1": 0}, name="second")
    one = await worker()
    async with one.working_on("1") as crashes:
        assert crashes == 1
        assert {"1": 1} in await stands(broker, topic)
    async with one.working_on("2") as crashes:
        assert crashes == 0


async def test_message_in_work_at_a_living_worker_is_no_suspect(
    worker: Begin, broker: Broker, topic: str
) -> None:
    """The broker gives messages to another when a connection is lost."""
    one = await worker()
    async with one.working_on("1"), one.working_on("2"):
        other = await worker()
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            side_by_side = asyncio.Barrier(2)

            async def work(id: str) -> None:
                async with other.working_on(id) as crashes:
                    assert crashes == 0
                    await side_by_side.wait()

            tasks.create_task(work("1"))
            tasks.create_task(work("2"))
    await until_it_stands(broker, topic, [])


async def test_message_in_work_at_two_living_workers_is_recorded_once(
    worker: Begin, broker: Broker, topic: str
) -> None:
    one = await worker()
    async with one.working_on("1"):
        other = await worker()
        async with other.working_on("1"):
            assert await stands(broker, topic) == [{"1": None}]


async def test_message_that_comes_back_to_its_first_worker_is_recorded_again(
    worker: Begin, broker: Broker, topic: str
) -> None:
    one, other = await worker(), await worker()
    async with one.working_on("1"):
        async with other.working_on("1"):
            await until_it_stands(broker, topic, [{"1": None}])
        await until_it_stands(broker, topic, [])
        async with one.working_on("1"):
            assert await stands(broker, topic) == [{"1": None}]


@pytest.mark.parametrize("data", [b"no json", b"[1]", b'{"1": "x"}', b'{"1": true}', b"[" * 100_000, b"\xff"])
async def test_malformed_entry_is_ignored(broker: Broker, topic: str, worker: Begin, data: bytes) -> None:
    producer = await broker.producer(topic)
    await producer.send(data, key="someone")
    one = await worker()
    await producer.send(data, key="someone else")
    await producer.close()
    async with asyncio.timeout(60), one.working_on("1") as crashes:
        assert crashes == 0
