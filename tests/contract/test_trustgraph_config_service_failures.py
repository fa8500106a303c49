"""In TrustGraph's place when places on the broker are lost, and what flows that end leave behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.support.trustgraph_place import Place, template, until
from trustgraph_prompt.broker import Broker, Caller, Consumer, Producer
from trustgraph_prompt.errors import BrokerClosed, ConfigError, ProviderUnavailable
from trustgraph_prompt.llm import Provider, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.trustgraph import config_client, config_follower
from trustgraph_prompt.trustgraph.config_client import Values
from trustgraph_prompt.trustgraph.flow_definitions import NO_VALUES, Processor
from trustgraph_prompt.worker import Flow
from trustgraph_prompt.worker.telemetry.series import SECONDS_TO_KEEP


@pytest.fixture
def broker_kind() -> str:
    """What each broker loses is the matter of other tests; here it is told what to lose."""
    return "memory"


class Forgetful:
    """A broker that works, but says of consumers of the topics `forgotten` that it knows of none.

    Where it is `silent`, these cannot be stopped before it knows of them again.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.forgotten: set[str] = set()
        self.silent = False
        self.callers: list[Caller] = []
        self.consumed: list[str] = []
        self.published: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def caller(self, request: str, response: str) -> Caller:
        self.callers.append(await self._broker.caller(request, response))
        return self.callers[-1]

    async def consumer(self, topic: str, subscription: str, **options: Any) -> Consumer:
        consumer = await self._broker.consumer(topic, subscription, **options)
        self.consumed.append(topic)

        async def check() -> None:
            if topic in self.forgotten:
                raise BrokerClosed("the broker knows of no such consumer")

        stop = consumer.stop

        async def stopped() -> None:
            while self.silent and topic in self.forgotten:
                await asyncio.sleep(0.01)
            await stop()

        consumer.check, consumer.stop = check, stopped  # type: ignore[method-assign]
        return consumer

    async def producer(self, topic: str, **options: Any) -> Producer:
        producer = await self._broker.producer(topic, **options)
        self.published.add(topic)
        close = producer.close

        async def closed() -> None:
            self.published.discard(topic)
            await close()

        producer.close = closed  # type: ignore[method-assign]
        return producer


@pytest.fixture
def forgetful(place: Place) -> Forgetful:
    forgetful = Forgetful(place.broker)
    place.broker = cast(Broker, forgetful)
    return forgetful


async def test_config_changes_are_served_although_the_response_consumer_was_lost(
    place: Place, forgetful: Forgetful
) -> None:
    working = await place.work()
    for caller in forgetful.callers:
        await caller.close()

    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())

    await working.serves({"default/f": place.topics()["request"]})
    await until(lambda: not working.worker.health.notes())


async def test_known_prompts_are_served_while_service_and_notices_are_away(
    place: Place, forgetful: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_client, "SECONDS_FOR_AN_ANSWER", 0.2)
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    await place.answer()
    working = await place.work()
    health, notices = working.worker.health, f"non-persistent://{place.space}/notify/config"
    place.config.silent = True

    forgetful.forgotten.add(notices)
    await until(lambda: forgetful.consumed.count(notices) > 1)
    forgetful.forgotten.clear()
    await until(lambda: "config service" in health.notes())

    assert health.waiting == {}
    [response] = await (await place.hear()).ask("say", text="x")
    assert response["text"] == "Say x"

    place.config.silent = False
    await until(lambda: health.notes() == {})


async def test_lost_notice_consumer_is_not_reopened_without_pause(
    place: Place, forgetful: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_prompt.worker.telemetry.watch.SECONDS_BETWEEN_LOOKS", 0.01)
    notices = f"non-persistent://{place.space}/notify/config"
    await place.work()

    forgetful.forgotten.add(notices)
    await asyncio.sleep(1.5)

    assert forgetful.consumed.count(notices) <= 5


async def test_worker_stays_ready_while_the_consumer_of_one_flow_is_lost(
    place: Place, forgetful: Forgetful
) -> None:
    for name in ("f", "g"):
        await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
        await place.config.start_flow(name, place.topics(name))
    working = await place.work()
    health, lost = working.worker.health, forgetful.forgotten
    topic = working.flows["default/f"]

    forgetful.silent = True  # else it is replaced before anybody can see that it was away
    lost.add(topic)
    await until(lambda: "consumer of flow default/f" in health.notes())
    assert health.ready

    lost.clear()
    await until(lambda: "consumer of flow default/f" not in health.notes())


async def test_a_change_is_served_while_everything_else_cannot_be_fetched(place: Place) -> None:
    await place.config.put("w", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics("f", "w"), "w")
    working = await place.work()
    await until(lambda: "w/f" in working.flows)
    place.config.refuses |= {"getkeys-all-ws", "getvalues-all-ws"}
    place.config.version += 5
    await place.config.poke({})  # notices were missed: everything is due
    await until(lambda: "config service" in working.worker.health.notes())

    await place.config.start_flow("g", place.topics("g", "w"), "w")

    await until(lambda: "w/g" in working.flows)
    place.config.refuses.clear()
    await until(lambda: "config service" not in working.worker.health.notes())


async def test_continuous_changes_do_not_delay_the_fetch_after_a_failed_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_follower, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(config_follower, "LONGEST_PAUSE", 0.01)
    await place.config.start_flow("f", place.topics("f", "w"), "w")
    await place.config.put("w", {("prompt", "template.say"): template("Say {{ text }}")})
    working = await place.work()
    await until(lambda: "w/f" in working.flows)
    place.config.refuses |= {"getkeys-all-ws", "getvalues-all-ws"}
    await place.config.poke({})  # notices were missed: everything is due
    await until(lambda: "config service" in working.worker.health.notes())
    answering = place.config.held["w", "prompt"] = asyncio.Event()
    asked = place.config.asked("w")
    await place.config.put("w", {("prompt", "template.say"): template("Tell {{ text }}")})
    await until(lambda: place.config.asked("w") > asked)

    # Another change is there as soon as this one is fetched, and meanwhile everything has become due again.
    await place.config.put("w", {("prompt", "template.say"): template("Shout {{ text }}")})
    await asyncio.sleep(0.1)
    place.config.refuses.clear()
    del place.config.requests[:]
    answering.set()

    await until(lambda: place.config.requests)
    assert place.config.requests[0]["operation"] == "getkeys-all-ws"


@dataclass(frozen=True)
class Defective(Processor):
    """A processor that cannot make the flows of the workspaces `broken`."""

    broken: set[str] = field(default_factory=set, compare=False)

    def flow(self, workspace: str, variant: str, text: str, config: Mapping[str, Values] = NO_VALUES) -> Flow:
        if workspace in self.broken:
            raise ZeroDivisionError("a defect")
        return super().flow(workspace, variant, text, config)


async def test_a_defect_at_one_workspace_keeps_no_other_from_changing(place: Place) -> None:
    for workspace in ("bad", "good"):
        await place.config.put(workspace, {("prompt", "template.say"): template("Say {{ text }}")})
        await place.config.start_flow("f", place.topics("f", workspace), workspace)
    processor = Defective()
    working = await place.work(processors=[processor])
    await until(lambda: working.flows.keys() >= {"bad/f", "good/f"})

    processor.broken.add("bad")
    await place.config.start_flow("g", place.topics("g", "bad"), "bad")
    await place.config.start_flow("g", place.topics("g", "good"), "good")
    await until(lambda: "good/g" in working.flows)

    processor.broken.clear()
    await until(lambda: "bad/g" in working.flows)


async def test_a_workspace_may_lose_its_flows_while_its_prompts_are_fetched(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config, say = place.config, {("prompt", "template.say"): template("Say {{ text }}")}
    await config.put("w", say)
    await config.start_flow("f", place.topics("f", "w"), "w")
    working = await place.work()
    await working.serves({"w/f": place.topics("f", "w")["request"]})
    with monkeypatch.context() as patch:
        patch.setattr(config_client, "SECONDS_FOR_AN_ANSWER", 0.2)
        config.mute.add("w")
        await config.put("w", say)
        await until(lambda: "prompts of workspace w" in working.worker.health.notes())
    config.held["w", "prompt"] = asyncio.Event()
    before = len(config.requests)
    config.mute.clear()
    await until(lambda: any(request["type"] == "prompt" for request in config.requests[before:]))

    config.values.clear()
    await config.poke({})
    await working.serves({})
    config.held["w", "prompt"].set()
    await config.put("v", say)
    await config.start_flow("g", place.topics("g", "v"), "v")
    await working.serves({"v/g": place.topics("g", "v")["request"]})

    assert "internal error" not in caplog.text


async def test_a_flow_that_has_ended_leaves_nothing_behind(place: Place, forgetful: Forgetful) -> None:
    def provider(model: str | None) -> Provider:
        if model is None:
            raise ConfigError("who answers?")
        return ScriptedProvider(lambda call: ScriptedAnswer(error=ProviderUnavailable("down")))

    completions = Processor("prompt", "text-completion", asks_topics=False)
    for name, parameters in (("f", {"model": "m"}), ("unanswered", {})):
        definition = json.dumps({"topics": place.topics(name), "parameters": parameters})
        await place.config.set(completions.type, "default", name, definition)
    working = await place.work(1.0, processors=[completions], provider=provider)
    worker, asking = working.worker, await place.hear()
    [error] = await asking.put(b"no request")
    assert error["error"]
    asked = asyncio.create_task(asking.put(b'{"prompt": "x"}'))
    await until(
        lambda: worker.health.notes().keys() == {"provider of flow default/f", "flow default/unanswered"}
    )
    response = f"non-persistent://{place.space}/response/" + place.topics()["response"].split(":", 2)[2]
    assert response in forgetful.published
    assert 'flow="default/f"' in worker.metrics.text().decode()

    for name in ("f", "unanswered"):
        await place.config.stop_flow(name)

    assert "shutting down" in (await asked)[0]["error"]["message"]
    await until(lambda: response not in forgetful.published)
    assert 'flow="default/f"' in worker.metrics.text().decode()
    worker.metrics.registry.clock = lambda: time.monotonic() + SECONDS_TO_KEEP
    assert 'flow="default/f"' not in worker.metrics.text().decode()
    assert worker.health.notes() == {}
