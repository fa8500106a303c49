"""Whether workers have taken what was pushed, as they say on the report topic; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.workers import House, entry
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerUnavailable
from trustgraph_prompt.llm import Call
from trustgraph_prompt.worker.config import config_topic, report_topic
from trustgraph_prompt.worker.config.report_topic import ReportListener, Reports

ENOUGH = 30.0
SHORT = 0.5


def echo(call: Call) -> str:
    return call.messages[-1].text


@asynccontextmanager
async def listening(house: House, workspace: str = "default") -> AsyncIterator[ReportListener]:
    listener = await ReportListener.open(house.broker, house.topic("config"), workspace)
    yield listener
    await listener.close()


async def push(house: House, text: str, workspace: str = "default") -> str:
    changes = {"template.other": entry("Other"), "template.say": entry(text)}
    return await config_topic.push(house.broker, workspace, changes, topic=house.topic("config"))


async def answers(
    house: House, text: str, seconds: float = ENOUGH, workspace: str = "default"
) -> dict[str, Collection[str] | None]:
    async with listening(house, workspace) as listener:
        return await listener.answers(await push(house, text, workspace), seconds)


async def announce(house: House, data: bytes, name: str = "worker:other") -> None:
    await house.put(house.topic("config-report"), data, key=name)


async def announced(house: House, count: int) -> None:
    """Wait until so many workers have announced themselves."""
    async with asyncio.timeout(ENOUGH):
        while True:
            async with listening(house) as listener:
                if len(listener.workers) == count:
                    return
            await asyncio.sleep(0.05)


async def test_push_that_no_worker_serves_has_no_answer(house: House) -> None:
    assert await answers(house, "Say A") == {}

    await house.work(house.flow(workspace="elsewhere"), echo, config=True)
    assert await answers(house, "Say B") == {}
    async with listening(house) as listener:
        assert list(listener.others.values()) == [["elsewhere"]]


async def test_each_worker_says_whether_it_took_a_push(house: House) -> None:
    await house.work(house.flow(), echo, config=True)
    await house.work(house.flow(), echo, config=True)
    await announced(house, 2)

    taken = await answers(house, "Say A")
    refused = await answers(house, "Say {% if %}")
    mended = await answers(house, "Say B")

    assert list(taken.values()) == list(mended.values()) == [[], []]
    assert list(refused.values()) == [["default/template.say"]] * 2
    assert taken.keys() == refused.keys() == mended.keys()


async def test_a_worker_that_has_ended_is_not_waited_for(house: House) -> None:
    working = await house.work(house.flow(), echo, config=True)
    await announced(house, 1)
    await working.stop()

    assert await answers(house, "Say A") == {}


async def test_a_worker_that_does_not_answer_is_named(house: House) -> None:
    await house.work(house.flow(), echo, config=True)
    await announced(house, 1)
    await announce(house, json.dumps({"workspaces": ["default"], "pushes": {}}).encode())

    told = await answers(house, "Say A", 2.0)

    assert told.pop("worker:other") is None
    assert list(told.values()) == [[]]


async def test_a_worker_that_was_killed_is_not_waited_for_for_ever(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await announce(house, json.dumps({"workspaces": ["default"], "pushes": {}}).encode())
    monkeypatch.setattr(report_topic, "ANNOUNCEMENT_LIFETIME", 0.0)
    await asyncio.sleep(0.01)

    assert await answers(house, "Say A", SHORT) == {}


async def test_a_worker_announces_itself_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_topic, "SECONDS_BETWEEN_ANNOUNCEMENTS", 0.1)
    said = await house.hear(house.topic("config-report"))
    await house.work(house.flow(), echo, config=True)

    files, first, *again = await said.until(4)
    assert files.key == "worker:files/default"
    assert {message.key for message in again} == {first.key}


async def test_push_that_a_worker_read_at_its_start_is_answered(house: House) -> None:
    id = await push(house, "Say A")
    await house.work(house.flow(), echo, config=True)
    await announced(house, 1)

    async with listening(house) as listener:
        await push(house, "Say B")
        await push(house, "Say C")
        assert list((await listener.answers(id, ENOUGH)).values()) == [[]]


@pytest.mark.parametrize("junk", [b"no json", b"[]", b'{"workspaces": 1, "pushes": {}}', b'{"pushes": []}'])
async def test_malformed_report_is_ignored(house: House, junk: bytes) -> None:
    await announce(house, junk)

    assert await answers(house, "Say A", SHORT) == {}


async def test_a_worker_keeps_only_its_last_pushes(house: House) -> None:
    await house.work(house.flow(), echo, config=True)
    await announced(house, 1)

    pushes = [await push(house, f"Say {number}") for number in range(report_topic.PUSHES_KEPT + 5)]

    async with listening(house) as listener:
        last = await push(house, "Say the last")
        await listener.answers(last, ENOUGH)
    table = await house.broker.table(house.topic("config-report"))
    [message] = (each for key, each in table.entries.items() if not key.startswith(report_topic.FILES))
    await table.close()
    kept = json.loads(message.data)["pushes"]
    assert list(kept) == [*pushes, last][-report_topic.PUSHES_KEPT :]


async def test_a_worker_reports_again_after_a_day_in_which_no_report_could_be_sent(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(ProducerPool):
        failures = 0

        async def send(self, *arguments: Any, **options: Any) -> None:
            if self.failures < 1_100:  # more than a float has powers of two
                self.failures += 1
                raise BrokerUnavailable("no room")
            await super().send(*arguments, **options)

    monkeypatch.setattr(report_topic, "SECONDS_BETWEEN_ANNOUNCEMENTS", 0.0)
    caplog.set_level("ERROR")
    sent = await house.hear(house.topic("config-report"))
    producers = Failing(house.broker)
    reports = Reports(producers, house.topic("config"), ["default"])
    reports.announce({})

    assert (await sent.until(1))[0].key
    await reports.close()
    await producers.close()
