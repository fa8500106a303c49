"""Old answer records are deleted, and no other; over every broker."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.support.workers import Counted, House
from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerUnavailable
from trustgraph_prompt.worker import Answer, Flow, answer_retention
from trustgraph_prompt.worker.answer_retention import AnswerRetention
from trustgraph_prompt.worker.canary.record import CANARY, Canary

KEEP = 0.1
PAUSE = 0.05


def record(request: str, flow: str = "f", reason: str = "success") -> bytes:
    return Answer(request, flow, "define", "1", reason, "extracted", False, ("o",)).encode()


class Shelf:
    """The answers topic of a flow that keeps its records for `KEEP` seconds."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.flow = house.flow(keep_answers=KEEP)
        self._now = 0.0

    async def put(self, **records: bytes) -> None:
        for key, data in records.items():
            await self.house.put(self.house.topic("answers"), data, key=key)

    async def age(self) -> None:
        """What is published by now is old, what comes later is not."""
        await asyncio.sleep(PAUSE)
        self._now = time.time() + KEEP
        await asyncio.sleep(PAUSE)

    async def clear(
        self, flow: Flow | None = None, broker: Any = None, now: float | None = None
    ) -> int | None:
        broker, now = broker or self.house.broker, now or self._now
        producers, config = ProducerPool(broker), self.house.topic("config")
        retention = AnswerRetention(broker, producers, [], config, clock=lambda: now)
        try:
            return await retention.delete_old(flow or self.flow)
        finally:
            await producers.close()

    async def left(self) -> dict[str, bytes]:
        table = await self.house.broker.table(self.house.topic("answers"))
        await table.close()
        return {key: message.data for key, message in table.entries.items()}


@pytest.fixture
def shelf(house: House) -> Shelf:
    return Shelf(house)


async def test_old_records_are_deleted_and_later_ones_stay(shelf: Shelf) -> None:
    await shelf.put(**{f"old{n}": record(f"old{n}") for n in range(answer_retention.AT_ONCE + 5)})
    await shelf.age()
    await shelf.put(new=record("new"))

    assert await shelf.clear() == answer_retention.AT_ONCE + 5
    assert await shelf.left() == {"new": record("new")}
    assert not await shelf.clear()


async def test_a_request_that_was_answered_again_keeps_its_record(shelf: Shelf) -> None:
    await shelf.put(gone=record("gone"), again=record("again"))
    await shelf.age()
    await shelf.put(again=(later := record("again", reason="empty")))

    assert await shelf.clear() == 1
    assert await shelf.left() == {"again": later}


class Overtaking:
    """A broker on which records come just before and after a deletion; those of two keys fail or hang."""

    def __init__(self, broker: Broker, before: bytes, after: bytes = b"") -> None:
        self._broker = broker
        self._before = before
        self._after = after
        self.deleted = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def producer(self, topic: str, **options: Any) -> Producer:
        producer = await self._broker.producer(topic, **options)
        send = producer.send

        async def overtake(data: bytes, *, key: str | None = None, **more: Any) -> str:
            if data:
                return await send(data, key=key, **more)
            if key == "fails":
                raise BrokerUnavailable("gone")
            if key == "hangs":
                self.deleted.set()
                await asyncio.Event().wait()
            await send(self._before, key=key)
            id = await send(b"", key=key)
            self.deleted.set()
            return await send(self._after, key=key) if self._after else id

        producer.send = overtake  # type: ignore[method-assign]
        return producer


LATER, LAST = record("again", reason="empty"), record("again", reason="unparsable")


@pytest.mark.parametrize(("after", "stays"), [(b"", LATER), (LAST, LAST)])
async def test_new_record_stays_while_its_key_is_deleted(shelf: Shelf, after: bytes, stays: bytes) -> None:
    await shelf.put(again=record("again"))
    await shelf.age()

    await shelf.clear(broker=Overtaking(shelf.house.broker, LATER, after))
    assert await shelf.left() == {"again": stays}


async def end_while_deleting(shelf: Shelf) -> None:
    broker = Overtaking(shelf.house.broker, LATER)
    clearing = asyncio.create_task(shelf.clear(broker=broker))
    await broker.deleted.wait()
    clearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await clearing


async def test_new_record_of_a_deleted_key_stays_though_the_worker_ends(
    shelf: Shelf,
) -> None:
    await shelf.put(again=record("again"))
    await shelf.age()
    await end_while_deleting(shelf)
    assert await shelf.left() == {"again": LATER}


async def test_a_worker_ends_while_a_deletion_hangs(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_retention, "SECONDS_TO_END", 0.0)
    await shelf.put(hangs=record("hangs"))
    await shelf.age()
    await end_while_deleting(shelf)
    assert await shelf.left() == {"hangs": record("hangs")}


async def test_new_record_of_a_deleted_key_stays_though_another_deletion_fails(
    shelf: Shelf,
) -> None:
    await shelf.put(again=record("again"), fails=record("fails"))
    await shelf.age()

    with pytest.raises(BrokerUnavailable):
        await shelf.clear(broker=Overtaking(shelf.house.broker, LATER))
    assert await shelf.left() == {"again": LATER, "fails": record("fails")}


async def test_records_of_other_flows_and_messages_of_other_programs_stay(shelf: Shelf) -> None:
    others = {"theirs": record("theirs", flow="g"), "foreign": b"\x00", "json": b"[]"}
    await shelf.put(ours=record("ours"), **others)
    await shelf.age()

    assert await shelf.clear() == 1
    assert await shelf.left() == others


async def test_records_that_a_running_canary_compares_stay(shelf: Shelf) -> None:
    await shelf.put(before=record("before"))
    await asyncio.sleep(PAUSE)
    canary, key = Canary("c", "{}", 0.1).encode(), f"{shelf.flow.workspace}/template.define"
    await shelf.house.put(shelf.house.topic("config" + CANARY), canary, key=key)
    await asyncio.sleep(PAUSE)
    await shelf.put(during=record("during"))
    await shelf.age()

    assert await shelf.clear() == 1
    assert await shelf.left() == {"during": record("during")}

    await shelf.house.put(shelf.house.topic("config" + CANARY), b"", key=key)
    await shelf.put(later=record("later"))
    await shelf.age()
    assert await shelf.clear() == 2
    assert await shelf.left() == {}


async def test_nothing_is_deleted_while_no_record_is_a_tenth_older(shelf: Shelf) -> None:
    await shelf.put(one=record("one"))
    hour = replace(shelf.flow, keep_answers=3600.0)

    assert await shelf.clear(hour, now=time.time() + 1.05 * 3600) is None
    assert (await shelf.left()).keys() == {"one"}
    assert await shelf.clear(hour, now=time.time() + 1.15 * 3600) == 1


async def test_one_process_at_a_time_deletes(shelf: Shelf) -> None:
    await shelf.put(one=record("one"))
    await shelf.age()
    holding, go = asyncio.Event(), asyncio.Event()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(shelf.house.broker, name)

        async def compact(self, topic: str) -> None:
            holding.set()
            await go.wait()
            await shelf.house.broker.compact(topic)

    first = asyncio.create_task(shelf.clear(broker=Slow()))
    await holding.wait()
    assert await shelf.clear() is None
    go.set()
    assert await first == 1


async def test_a_worker_deletes_the_old_records_of_its_flows(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_retention, "LONGEST_START", 0.0)
    working = await house.work(house.flow(), Counted())
    answers = await house.hear(house.topic("answers"))
    id = await house.send(house.flow(), "define", text="x")
    assert (await answers.until(1))[0].key == id
    await working.stop()
    await asyncio.sleep(2 * KEEP)

    await house.work(house.flow(keep_answers=KEEP), Counted())

    record, deletion = await answers.until(2)
    assert (deletion.key, deletion.data) == (record.key, b"")
