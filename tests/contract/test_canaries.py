"""Canaries: new versions of prompts that answer a share of the requests; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.support.workers import House, Working, entry
from trustgraph_prompt.ask import MemoryCache
from trustgraph_prompt.broker import Broker, Message, Table
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable
from trustgraph_prompt.llm import Call
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.canary.record import CANARY, Canary
from trustgraph_prompt.worker.config import canary_topic, config_topic
from trustgraph_prompt.worker.config.report_topic import ReportListener

SAY = "template.say"
ENOUGH = 30.0


def echo(call: Call) -> str:
    return call.messages[-1].text


def canary(text: str = "Say B", share: float = 0.5, **settings: object) -> Canary:
    return Canary("c1", entry(text, **settings), share)


def sides(canary: Canary, count: int = 6) -> tuple[list[str], list[str]]:
    """Ids of requests that the canary answers, and of others."""
    ids = [f"r{n}" for n in range(20 * count)]
    new = [id for id in ids if canary.answers(id)]
    return new[:count], [id for id in ids if id not in new][:count]


async def push(house: House, **changes: str) -> str:
    return await config_topic.push(house.broker, "default", changes, topic=house.topic("config"))


async def begin(house: House, record: bytes | Canary, key: str = SAY) -> str:
    """Publish a canary, or end it with b""."""
    data = record.encode() if isinstance(record, Canary) else record
    return await config_topic.push(house.broker, "default", {key: data}, topic=house.topic("config") + CANARY)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(ENOUGH):
        while not condition():
            await asyncio.sleep(0.01)


def standing(working: Working) -> dict[tuple[str, str], tuple[Canary, Any]]:
    return dict(working.worker.canaries.served)


async def ask(house: House, ids: list[str]) -> dict[str, str]:
    """What the requests with these ids are answered."""
    responses = await house.hear(house.topic("responses"))
    for id in ids:
        await house.send(house.flow(), "say", id=id)
    return {id: (await responses.under(id))[-1]["text"] for id in ids}


async def test_a_canary_answers_its_share_in_every_worker_also_after_a_restart(house: House) -> None:
    new, old = sides(canary())
    await push(house, **{SAY: entry("Say A")})
    await begin(house, canary())
    answers = await house.hear(house.topic("answers"))
    workers = [await house.work(house.flow(), echo, config=True) for _ in range(2)]

    assert await ask(house, new + old) == dict.fromkeys(new, "Say B") | dict.fromkeys(old, "Say A")
    records = [Answer.decode(message.data) for message in await answers.until(len(new + old))]
    assert {record.request: record.canary for record in records} == (
        dict.fromkeys(new, "c1") | dict.fromkeys(old, None)
    )
    assert len({(record.canary, record.version) for record in records}) == 2
    for worker in workers:
        await worker.stop()

    await house.work(house.flow(), echo, config=True)
    again, still = [f"{id}" for id in sides(canary(), 12)[0][6:]], sides(canary(), 12)[1][6:]
    assert await ask(house, again + still) == dict.fromkeys(again, "Say B") | dict.fromkeys(still, "Say A")


async def test_a_canary_begins_changes_and_ends_while_the_worker_runs(house: House) -> None:
    new, old = sides(canary())
    await push(house, **{SAY: entry("Say A"), "system": json.dumps("You are calm.")})
    working = await house.work(house.flow(), echo, config=True)
    assert set((await ask(house, new[:1])).values()) == {"Say A"}

    await begin(house, canary())
    await until(lambda: bool(standing(working)))
    assert await ask(house, [new[1], old[1]]) == {new[1]: "Say B", old[1]: "Say A"}

    await push(house, system=json.dumps("You are stern."))
    await until(lambda: working.worker.prompts["default"].prompts["say"].system.source == "You are stern.")
    await until(lambda: standing(working)["default", "say"][1].system.source == "You are stern.")

    await begin(house, b"")
    await until(lambda: not standing(working))
    assert await ask(house, [new[2], old[2]]) == {new[2]: "Say A", old[2]: "Say A"}


HOSTILE = [
    (SAY, b"{", "the canary is not JSON"),
    (SAY, replace(canary(), share=1.5).encode(), "1.5"),
    (SAY, json.dumps({"id": "c", "share": 0.1}).encode(), "the key `entry` is missing"),
    (SAY, canary("Say {% if %}").encode(), "the canary cannot be served: template.say"),
    (SAY, replace(canary(), entry="[" * 100_000).encode(), "not JSON"),
    ("template.unknown", canary().encode(), "there is no such prompt"),
    ("system", canary().encode(), "there is no such prompt"),
    ("nonsense", canary().encode(), "there is no such prompt"),
]


async def test_hostile_canaries_are_refused_and_the_old_version_goes_on(house: House) -> None:
    await push(house, **{SAY: entry("Say A")})
    refusals = await house.hear_refusals()
    working = await house.work(house.flow(), echo, config=True)

    for count, (key, record, why) in enumerate(HOSTILE, 1):
        await begin(house, record, key)
        report = (await refusals.until(count))[-1]
        assert report.key == f"canary:default/{key}"
        assert why in json.dumps(json.loads(report.data))
        assert any(why in note for note in working.worker.health.notes().values())
    new, old = sides(canary(), 1)
    assert set((await ask(house, new + old)).values()) == {"Say A"}

    await begin(house, b"")
    mended = (await refusals.until(len(HOSTILE) + 1))[-1]
    assert (mended.key, mended.data) == ("canary:default/template.say", b"")


async def test_canary_is_refused_in_a_report_where_the_flow_keeps_no_answers(house: House) -> None:
    flow = house.flow()
    flow = replace(flow, outputs=replace(flow.outputs, answers=None))
    await push(house, **{SAY: entry("Say A")})
    working = await house.work(flow, echo, config=True)
    async with asyncio.timeout(ENOUGH):
        while True:
            listener = await ReportListener.open(house.broker, house.topic("config"), "default")
            if listener.workers:
                break
            await listener.close()

    told = await listener.answers(await begin(house, canary()), ENOUGH)

    assert list(told.values()) == [["canary:default/template.say"]]
    assert b"keeps its answers" in listener.refusals["canary:default/template.say"]
    assert not standing(working)
    await listener.close()


async def test_cached_answers_belong_to_their_version(house: House) -> None:
    new, old = sides(canary(), 2)
    await push(house, **{SAY: entry("Say A {{ text }}", cache=True)})
    await begin(house, canary("Say B {{ text }}", cache=True))
    answers = await house.hear(house.topic("answers"))
    await house.work(house.flow(), echo, config=True, cache=MemoryCache())

    for count, id in enumerate([new[0], old[0], new[1], old[1]], 1):
        await house.send(house.flow(), "say", id=id, text="the same")
        await answers.until(count)

    records = [Answer.decode(message.data) for message in answers.messages]
    assert [(record.value, record.cached) for record in records] == [
        ("Say B the same", False),
        ("Say A the same", False),
        ("Say B the same", True),
        ("Say A the same", True),
    ]


class BrokerWithoutATopic(BrokerWrapper):
    """A topic cannot be read until it is `there`."""

    def __init__(self, broker: Broker, topic: str) -> None:
        super().__init__(broker)
        self._topic = topic
        self.there = False

    async def table(self, topic: str) -> Table:
        if topic == self._topic and not self.there:
            raise BrokerUnavailable("no such topic")
        return await super().table(topic)


async def test_a_worker_that_cannot_read_the_canaries_serves_without_them_until_it_can(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary_topic, "SECONDS_BETWEEN_READINGS", 0.05)
    new, _ = sides(canary())
    await push(house, **{SAY: entry("Say A")})
    await begin(house, canary())
    broker = house.broker = BrokerWithoutATopic(house.broker, house.topic("config") + CANARY)
    working = await house.work(house.flow(), echo, config=True)
    assert set((await ask(house, new[:1])).values()) == {"Say A"}

    broker.there = True
    await until(lambda: bool(standing(working)))
    assert set((await ask(house, new[1:2])).values()) == {"Say B"}


class BrokerThatForgetsAReader(BrokerWrapper):
    """Sends nothing to whoever opens a topic first, and says so only if it is asked."""

    def __init__(self, broker: Broker, topic: str) -> None:
        super().__init__(broker)
        self._topic = topic
        self._opened = 0

    async def table(self, topic: str) -> Table:
        table = await super().table(topic)
        self._opened += topic == self._topic
        if topic == self._topic and self._opened == 1:
            forgotten, closed, close = cast(Any, table), asyncio.Event(), table.close

            async def check() -> None:
                raise BrokerClosed("no such reader")

            async def changes() -> AsyncGenerator[Message, None]:
                await closed.wait()
                for message in list[Message]():
                    yield message

            async def close_it() -> None:
                closed.set()
                await close()

            forgotten.check, forgotten.changes, forgotten.close = check, changes, close_it
        return table


async def test_a_worker_whose_subscription_to_the_canaries_is_lost_finds_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary_topic, "SECONDS_BETWEEN_READINGS", 0.05)
    await push(house, **{SAY: entry("Say A")})
    house.broker = BrokerThatForgetsAReader(house.broker, house.topic("config") + CANARY)
    working = await house.work(house.flow(), echo, config=True)

    await begin(house, canary())
    await until(lambda: bool(standing(working)))


async def test_too_many_canaries_are_refused_and_the_first_are_served(house: House) -> None:
    ids = [f"p{n:02}" for n in range(canary_topic.MAX_CANARIES + 1)]
    keys = [f"template.{id}" for id in ids]
    await push(house, **dict.fromkeys(keys, entry("Say A")))
    topic = house.topic("config") + CANARY
    await config_topic.push(house.broker, "default", dict.fromkeys(keys, canary().encode()), topic=topic)
    refusals = await house.hear_refusals()
    working = await house.work(house.flow(), echo, config=True)

    assert [id for _, id in standing(working)] == ids[:-1]
    assert [report.key for report in await refusals.until(1)] == [f"canary:default/{keys[-1]}"]


async def test_a_request_that_began_on_a_version_ends_on_it(house: House) -> None:
    new, _ = sides(canary())
    tries = 0
    tried = asyncio.Event()

    def fail_once(call: Call) -> str:
        nonlocal tries
        tries += 1
        tried.set()
        if tries == 1:
            raise ConnectionError("away for a moment")
        return call.messages[-1].text

    await push(house, **{SAY: entry("Say A")})
    await begin(house, canary())
    flow = house.flow(persistent=False)
    working = await house.work(flow, fail_once, config=True)
    responses = await house.hear(house.topic("responses"))
    await house.send(flow, "say", id=new[0])
    await tried.wait()
    await begin(house, b"")
    await until(lambda: not standing(working))

    assert (await responses.under(new[0]))[-1]["text"] == "Say B"
