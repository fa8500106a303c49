"""Prompts that change while the worker runs; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from tests.support.workers import ENTRIES, House, Working, entry
from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.llm import Call, Completer, Delta, Identity
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker.config import config_topic
from trustgraph_prompt.worker.flow import Input, Outputs
from trustgraph_prompt.worker.messages.answer_record import Answer


def echo(call: Call) -> str:
    return call.messages[-1].text


class Gate(Completer):
    """A model that answers with its question, when it is let."""

    identity = Identity("test")
    prefill = False

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.asked.release()
        await self.open.wait()
        yield Delta(call.messages[-1].text, finish_reason="stop")

    async def close(self) -> None: ...


async def push(house: House, **changes: str) -> None:
    await config_topic.push(house.broker, "default", changes, topic=house.topic("config"))


class BrokerWithABlockedTopic(BrokerWrapper):
    """What is published on `blocked` arrives once `free` is set."""

    def __init__(self, broker: Broker, blocked: str) -> None:
        super().__init__(broker)
        self._blocked = blocked
        self.free = asyncio.Event()

    def _producer(self, producer: Producer) -> Producer:
        if producer.topic == self._blocked:
            send = producer.send

            async def send_later(*arguments: Any, **options: Any) -> str:
                await self.free.wait()
                return await send(*arguments, **options)

            cast(Any, producer).send = send_later
        return producer


async def serves(working: Working, prompt: str, text: str) -> None:
    """Wait until the worker has taken over a template."""
    async with asyncio.timeout(30):
        while True:
            snapshot = working.worker.prompts.get("default")
            if snapshot and prompt in snapshot.prompts:
                _, question = snapshot.question(prompt, {})
                if question.prompt == text:
                    return
            await asyncio.sleep(0.01)


async def serves_entry(working: Working, prompt: str, source: str) -> None:
    """Wait until the worker has taken over a template whose question cannot be asked as it is."""
    async with asyncio.timeout(30):
        while working.worker.prompts["default"].prompts[prompt].template.source != source:
            await asyncio.sleep(0.01)


async def test_entry_on_the_topic_is_served_from_the_first_request_on(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await push(house, **{"template.say": entry("Say A")})

    await house.work(flow, echo, config=True)
    [response] = await responses.under(await house.send(flow, "say"))

    assert response["text"] == "Say A"


async def test_chunks_wait_until_the_prompt_of_their_flow_is_pushed(house: House) -> None:
    flow = house.flow(
        input=Input(house.topic("chunks"), "s", kind="chunk"),
        outputs=Outputs(answers=house.topic("answers")),
        prompt="later",
        deliveries=1,
    )
    answers = await house.hear(house.topic("answers"))
    await house.put(flow.input.topic, Chunk(Metadata("urn:c"), "On chalk").encode())
    impatient = await house.work(flow, echo, config=True)
    assert impatient.worker.health.notes() == {
        "flow f": "there is no prompt `later`; its messages wait until it is pushed"
    }
    await impatient.stop()

    await house.work(flow, echo, config=True)
    await push(house, **{"template.later": entry("Say {{ text }}")})

    [record] = await answers.until(1)
    assert Answer.decode(record.data).value == "Say On chalk"


async def test_requests_in_flight_finish_on_the_old_version_and_later_ones_use_the_new(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await push(house, **{"template.say": entry("Say A")})
    model = Gate()
    working = await house.work(flow, model, config=True)

    before = await house.send(flow, "say")
    await model.asked.acquire()
    await push(house, **{"template.say": entry("Say B")})
    await serves(working, "say", "Say B")
    after = await house.send(flow, "say")
    model.open.set()

    assert (await responses.under(before))[0]["text"] == "Say A"
    assert (await responses.under(after))[0]["text"] == "Say B"


async def test_an_entry_that_does_not_compile_changes_nothing_and_is_reported(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    reports = await house.hear_refusals()
    await push(house, **{"template.say": entry("Say A"), "template.other": entry("Other A")})
    working = await house.work(flow, echo, config=True)

    await push(house, **{"template.say": entry("Say {% if %}"), "template.other": entry("Other B")})
    [report] = await reports.until(1)

    told = json.loads(report.data)
    assert report.key == told["key"] == "default/template.say"
    assert told["message"]
    health = working.worker.health
    assert health.ready
    assert "config entry default/template.say" in health.notes()
    assert (
        'trustgraph_prompt_config_refused{workspace="default"} 1.0' in working.worker.metrics.text().decode()
    )
    said, other = await house.send(flow, "say"), await house.send(flow, "other")
    assert (await responses.under(said))[0]["text"] == "Say A"
    assert (await responses.under(other))[0]["text"] == "Other B"

    await push(house, **{"template.say": entry("Say C")})
    mended = (await reports.until(2))[1]

    assert (mended.key, mended.data) == ("default/template.say", b"")
    assert not health.notes()
    assert (await responses.under(await house.send(flow, "say")))[0]["text"] == "Say C"


async def test_log_names_the_changed_prompts_and_no_refused_push(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="trustgraph_prompt.worker.config.source")
    await push(house, **{"template.say": entry("Say A")})
    working = await house.work(house.flow(), echo, config=True)
    reports = await house.hear_refusals()

    def changes() -> list[str]:
        return [said for said in map(str, caplog.messages) if said.startswith("prompts of workspace")]

    def version(id: str) -> str:
        return working.worker.prompts["default"].prompts[id].version[:12]

    before = version("say")
    caplog.clear()
    await push(house, **{"template.say": entry("Say {% if %}")})
    await reports.until(1)
    assert changes() == []

    await push(house, **{"template.say": entry("Say B"), "template.new": entry("New")})
    await serves(working, "say", "Say B")
    said, new = version("say"), version("new")
    assert changes() == [f"prompts of workspace default changed: new added ({new}), say {before} -> {said}"]
    caplog.clear()
    await push(house, **{"template.new": ""})
    await push(house, **{f"template.p{number:02}": entry("P") for number in range(12)})
    await serves(working, "p11", "P")
    told = ", ".join(changes())
    assert f"new deleted ({new})" in told
    assert "say" not in told
    assert told.endswith(" more")


async def test_a_system_message_with_a_term_that_nobody_sends_is_noted(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await push(house, **{"template.say": entry("Say A")})
    working = await house.work(house.flow(), echo, config=True)
    assert not working.worker.health.notes()

    await push(house, system=entry("Be {{ tone }}."), **{"template.say": entry("Say B")})
    await serves_entry(working, "say", "Say B")
    told = (
        "needs the term `tone`; 1 of 1 prompts does not mention it, "
        "and requests without it fail with missing-term (say)"
    )
    assert working.worker.health.notes() == {"config entry default/system": told}
    assert f"config entry default/system {told}" in caplog.messages

    await push(house, system="", **{"template.say": entry("Say C")})
    await serves_entry(working, "say", "Say C")
    assert not working.worker.health.notes()


async def test_blocked_report_topic_delays_no_push(house: House) -> None:
    reports = await house.hear_refusals()
    blocked = house.broker = BrokerWithABlockedTopic(house.broker, house.topic("config-report"))
    await push(house, **{"template.bad": entry("Say {% if %}")})
    working = await house.work(house.flow(), echo, config=True)  # which is ready all the same

    await push(house, **{"template.worse": entry("{{"), "template.say": entry("Say A")})
    await serves(working, "say", "Say A")
    await push(house, **{"template.bad": entry("Say B")})
    await serves(working, "bad", "Say B")
    assert not await reports.all()

    blocked.free.set()
    told = [(report.key, bool(report.data)) for report in await reports.until(3)]
    assert told == [
        ("default/template.bad", True),
        ("default/template.worse", True),
        ("default/template.bad", False),
    ]


async def test_malformed_key_is_refused_and_stops_nothing(house: House) -> None:
    keys = ["default", "default/", "default/template.", "/system", "default/other"]
    reports = await house.hear_refusals()
    working = await house.work(house.flow(), echo, config=True)

    for key in [None, *keys]:
        await house.put(house.topic("config"), entry("x").encode(), key=key)
    await push(house, **{"template.say": entry("Say A")})

    await serves(working, "say", "Say A")
    told = await reports.until(len(keys))
    assert [json.loads(report.data)["found"] for report in told] == keys


async def test_malformed_entry_is_refused_and_stops_nothing(house: House) -> None:
    entries = [b"no json", b"\xff", b"[]", b'"text"', b"{}", b"[" * 5000]
    entries += [b'{"prompt": 1}', b'{"prompt": "x", "schema": 1}']
    keys = [f"default/template.bad-{n}" for n in range(len(entries))]
    reports = await house.hear_refusals()
    working = await house.work(house.flow(), echo, config=True)

    for key, data in zip(keys, entries, strict=True):
        await house.put(house.topic("config"), data, key=key)
    await push(house, **{"template.say": entry("Say A")})

    await serves(working, "say", "Say A")
    assert [report.key for report in await reports.until(len(keys))] == keys


async def test_a_push_swaps_in_as_one(house: House) -> None:
    working = await house.work(house.flow(), echo, config=True)
    seen: set[frozenset[str]] = set()
    done = asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            if snapshot := working.worker.prompts.get("default"):
                texts = [
                    snapshot.question(f"p{n}", {})[1].prompt for n in range(20) if f"p{n}" in snapshot.prompts
                ]
                seen.add(frozenset(texts) | {str(len(texts))})
            await asyncio.sleep(0.001)

    watching = asyncio.create_task(watch())
    for version in ("one", "two"):
        await push(house, **{f"template.p{n}": entry(version) for n in range(20)})
        await serves(working, "p0", version)
    async with asyncio.timeout(30):
        while frozenset({"two", "20"}) not in seen:
            await asyncio.sleep(0.01)
    done.set()
    await watching

    assert seen <= {frozenset({"0"}), frozenset({"one", "20"}), frozenset({"two", "20"})}


async def test_a_deleted_entry_is_gone_and_one_of_the_files_shows_again(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    house.base = {"template.say": entry("Say from a file")}
    await push(house, **{"template.say": entry("Say A"), "template.more": entry("More")})
    working = await house.work(flow, echo, config=True)

    await push(house, **{"template.say": "", "template.more": ""})
    await serves(working, "say", "Say from a file")
    [response] = await responses.under(await house.send(flow, "more"))

    assert "more" in response["error"]["message"]


async def test_each_workspace_has_its_own_prompts(house: House) -> None:
    flow = house.flow(workspace="theirs")
    responses = await house.hear(house.topic("responses"))
    await push(house, **{"template.say": entry("Say ours")})
    await config_topic.push(
        house.broker, "theirs", {"template.say": entry("Say theirs")}, topic=house.topic("config")
    )
    await house.work(flow, echo, config=True)

    [response] = await responses.under(await house.send(flow, "say"))

    assert response["text"] == "Say theirs"


async def test_a_workspace_without_prompts_is_named(house: House) -> None:
    flow = house.flow(workspace="none")
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, echo, config=True)

    [response] = await responses.under(await house.send(flow, "say"))

    assert response["error"]["type"] == "no-configuration"
    assert "none" in response["error"]["message"]


async def test_pushed_entries_can_be_listed(house: House) -> None:
    await push(house, system=ENTRIES["system"], **{"template.say": entry("Say A")})
    await push(house, **{"template.say": entry("Say B"), "template.gone": entry("x")})
    await push(house, **{"template.gone": ""})

    listed = await config_topic.entries(house.broker, topic=house.topic("config"))

    assert listed == {
        "default/system": ENTRIES["system"].encode(),
        "default/template.say": entry("Say B").encode(),
    }


async def publish(house: House, key: str, text: str, push: str, *, more: bool) -> None:
    properties = {"push": push, "more": "true"} if more else {"push": push}
    await house.put(house.topic("config"), entry(text).encode(), properties, key=f"default/template.{key}")


@pytest.fixture
def deadline(monkeypatch: pytest.MonkeyPatch) -> float:
    """How long an entry waits for the next of its push in these tests."""
    monkeypatch.setattr(config_topic, "SECONDS_FOR_A_PUSH", 1.0)
    return 1.0


async def test_unfinished_push_of_a_dead_client_counts_after_a_while(house: House, deadline: float) -> None:
    working = await house.work(house.flow(), echo, config=True)

    await publish(house, "a", "one", "died", more=True)

    await serves(working, "a", "one")


async def test_a_later_push_is_not_overtaken_by_an_earlier_one(house: House, deadline: float) -> None:
    working = await house.work(house.flow(), echo, config=True)

    await publish(house, "a", "old", "slow", more=True)
    await publish(house, "b", "old", "slow", more=True)
    await publish(house, "a", "new", "quick", more=False)
    await serves(working, "a", "new")
    await serves(working, "b", "old")

    assert working.worker.prompts["default"].question("a", {})[1].prompt == "new"


async def test_a_push_that_goes_on_slowly_still_swaps_in_as_one(house: House, deadline: float) -> None:
    working = await house.work(house.flow(), echo, config=True)

    for key in ("a", "b", "c"):
        await publish(house, key, "x", "slow", more=True)
        await asyncio.sleep(deadline * 0.6)
        assert not working.worker.prompts["default"].prompts
    await publish(house, "d", "x", "slow", more=False)

    await serves(working, "d", "x")
    assert set(working.worker.prompts["default"].prompts) == {"a", "b", "c", "d"}


async def test_a_worker_that_starts_in_the_middle_of_a_push_waits_for_its_end(house: House) -> None:
    await push(house, **{"template.z": entry("z")})
    await publish(house, "a", "x", "under way", more=True)
    working = await house.work(house.flow(), echo, config=True)

    assert set(working.worker.prompts["default"].prompts) == {"z"}
    await publish(house, "b", "x", "under way", more=False)

    await serves(working, "b", "x")
    assert set(working.worker.prompts["default"].prompts) == {"a", "b", "z"}


async def test_a_workspace_that_no_flow_serves_costs_nothing(house: House) -> None:
    working = await house.work(house.flow(), echo, config=True)

    for n in range(5):
        await house.put(house.topic("config"), entry("x").encode(), key=f"foreign{n}/template.a")
    await push(house, **{"template.say": entry("Say A")})
    await serves(working, "say", "Say A")

    assert set(working.worker.prompts) == {"default"}
    assert "foreign" not in working.worker.metrics.text().decode()
    assert not working.worker.health.notes()


async def test_a_refused_key_is_noted_until_it_is_deleted(house: House) -> None:
    working = await house.work(house.flow(), echo, config=True)
    await house.put(house.topic("config"), b"{}", key="default/other")
    await push(house, **{"template.say": entry("Say A")})
    await serves(working, "say", "Say A")

    assert list(working.worker.health.notes()) == ["config entry default/other"]
    await house.put(house.topic("config"), b"", key="default/other")
    await push(house, **{"template.say": entry("Say B")})
    await serves(working, "say", "Say B")

    assert not working.worker.health.notes()
