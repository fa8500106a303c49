"""The document that describes a worker; over every broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support import status_counts
from tests.support.busy_worker import KINDS, RECORDING, TEMPLATES, text_of
from tests.support.workers import House, Working, entry
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import ProviderAuthentication
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.worker.canary.record import CANARY, Canary
from trustgraph_prompt.worker.config import config_topic, history
from trustgraph_prompt.worker.config.history import Author
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.series import SECONDS_TO_KEEP
from trustgraph_prompt.worker.telemetry.status import Document, Status

DEFINE = "template.define"


def status(working: Working) -> Document:
    document = Status(working.worker, "prompt").observe()()
    status_counts.check(document, working.worker.metrics.text().decode())
    return document


async def until(working: Working, condition: Callable[[Document], Any]) -> Document:
    """The status once it is so."""
    async with asyncio.timeout(30):
        while not condition(document := status(working)):
            await asyncio.sleep(0.02)
    return document


def model() -> ScriptedProvider:
    return ScriptedProvider([ScriptedAnswer(line.pop("answer"), **line) for line in map(dict, RECORDING)])


def priced(house: House) -> Flow:
    return house.flow(price=Price(0.2, 0.6), budget=Budget(attempts=1))


async def ask_each_kind(house: House, flow: Flow) -> None:
    """One request for each kind of answer, in turn, once all are answered."""
    answers = await house.hear(flow.outputs.answers or "")
    for number in range(len(KINDS)):
        await house.send(flow, "define", id=f"request-{number}", text=text_of(number))
        if KINDS[number] != "useless":
            await answers.until(number + 1)


async def test_counts_are_those_of_the_metrics(house: House) -> None:
    await config_topic.push(house.broker, "default", TEMPLATES, topic=house.topic("config"))
    working = await house.work(priced(house), model(), config=True)
    await ask_each_kind(house, priced(house))
    document = await until(
        working, lambda document: document["dead_letters"] and not document["flows"][0]["in_work"]
    )

    assert document["ready"]
    [flow] = document["flows"]
    assert (flow["name"], flow["topic"], flow["waiting"]) == ("f", house.topic("requests"), None)
    assert flow["requests"] == len(KINDS)
    assert sum(flow["per_minute"]) == len(KINDS)
    assert flow["seconds"]["of"] == len(KINDS)
    assert flow["cost"] > 0
    assert flow["cost_per_hour"] > 0
    define, explain = document["prompts"]
    assert (define["id"], explain["id"], explain["requests"]) == ("define", "explain", 0)
    assert (define["completed"], sum(define["rejected"].values()), sum(define["repaired"].values())) == (
        1,
        1,
        1,
    )
    assert [one["request"] for one in reversed(document["outcomes"])] == [
        f"request-{n}" for n in range(len(KINDS))
    ]
    assert {one["version"] for one in document["outcomes"]} == {define["version"]}
    assert "SECRET" not in str(document)


async def test_content_is_shown_on_request_with_the_rule_that_an_object_breaks(house: House) -> None:
    await config_topic.push(house.broker, "default", TEMPLATES, topic=house.topic("config"))
    activity = Activity(shows_content=True)
    working = await house.work(priced(house), model(), config=True, activity=activity)
    await ask_each_kind(house, priced(house))
    document = await until(working, lambda document: document["dead_letters"])

    shown = {
        KINDS[int(one["request"][-1])]: one["content"] for one in document["outcomes"] if "content" in one
    }
    assert shown.keys() == {"refused", "useless"}
    [rejected] = shown["refused"]["rejected"]
    assert (rejected["index"], rejected["text"]) == (1, '{"entity": "SECRET-ANSWER"}')
    [issue] = rejected["issues"]
    assert issue["reason"] == "schema_missing_field"
    assert '"required": ["entity", "definition"]' in issue["schema"]
    assert shown["refused"]["question"] == text_of(KINDS.index("refused"))


async def test_config_changes_have_author_and_reason(house: House) -> None:
    topic = house.topic("config")
    await history.push(house.broker, "default", TEMPLATES, Author("ada", "the first ones"), topic=topic)
    working = await house.work(house.flow(), model(), config=True)
    first = status(working)
    assert {
        change["entry"]: (change["by"], change["why"]) for change in first["config"]["changes"]
    } == dict.fromkeys(TEMPLATES, ("ada", "the first ones"))

    await history.push(
        house.broker, "default", {DEFINE: entry("Define {{ text }}")}, Author("bob"), topic=topic
    )
    second = await until(working, lambda document: document["config"]["changes"][0]["by"] == "bob")
    define = {prompt["id"]: prompt for prompt in second["prompts"]}["define"]
    change = second["config"]["changes"][0]
    assert (change["entry"], change["action"], change["why"]) == (DEFINE, "push", None)
    assert change["version"] == define["version"]
    assert define["since"] > {prompt["id"]: prompt for prompt in first["prompts"]}["define"]["since"]

    await config_topic.push(house.broker, "default", {DEFINE: entry("{% broken")}, topic=topic)
    await config_topic.push(house.broker, "default", {"template.explain": ""}, topic=topic)
    last = await until(working, lambda document: len(document["config"]["changes"]) == len(TEMPLATES) + 3)
    assert [(change["action"], change["by"]) for change in last["config"]["changes"][:2]] == [
        ("delete", None),
        ("rejected", None),
    ]


async def test_canary_is_shown_with_its_share_author_and_verdicts(house: House) -> None:
    topic = house.topic("config")
    await config_topic.push(house.broker, "default", TEMPLATES, topic=topic)
    record = Canary("c", TEMPLATES[DEFINE].replace("Define", "Name"), 0.5, "ada", "shorter").encode()
    await config_topic.push(house.broker, "default", {DEFINE: record}, topic=topic + CANARY)
    working = await house.work(priced(house), model(), config=True)
    await ask_each_kind(house, priced(house))
    document = await until(working, lambda document: document["dead_letters"])

    canary = document["prompts"][0]["canary"]
    assert (canary["share"], canary["by"], canary["why"]) == (0.5, "ada", "shorter")
    judged = [sum(verdicts.values()) for verdicts in canary["judged"].values()]
    by_canary = [one for one in document["outcomes"] if one["canary"]]
    assert judged[1] == sum(one["objects"] + one["rejected"] for one in by_canary)
    assert {one["version"] for one in by_canary} == {canary["version"]}


class Refusing(ScriptedProvider):
    """A server that does not accept the key."""

    def __init__(self) -> None:
        super().__init__([ScriptedAnswer(error=ProviderAuthentication("SECRET", loggable="HTTP 401"))])

    async def ready(self, model: str | None) -> None:
        raise ProviderAuthentication("SECRET", loggable="HTTP 401")


async def test_a_model_that_is_away_has_the_reason(house: House) -> None:
    working = await house.work(house.flow(), Refusing())
    await house.send(house.flow(), "say", text="it")
    document = await until(working, lambda document: not document["ready"])
    [why] = [why for part, why in document["waiting"].items() if part.startswith("model ")]
    assert "HTTP 401" in why
    assert document["since"] > document["worker"]["started"]
    assert document["provider"]["errors"]["scripted"] == {"provider_authentication": 1}
    assert "SECRET" not in str(document)


async def test_a_flow_that_has_ended_is_gone_with_its_counts(house: House) -> None:
    working = await house.work(house.flow(), lambda call: "said")
    responses = await house.hear(house.topic("responses"))
    await house.send(house.flow(), "say", text="it")
    await responses.until(1)
    await until(working, lambda document: document["flows"][0]["requests"] == 1)
    working.flow_set.change([])
    async with asyncio.timeout(30):
        while working.worker.activity.flows:
            await asyncio.sleep(0.02)
    working.worker.metrics.registry.clock = lambda: time.monotonic() + SECONDS_TO_KEEP
    document = status(working)
    assert document["flows"] == []
    assert all(prompt["requests"] == 0 for prompt in document["prompts"])


async def test_each_flow_shows_the_model_that_it_asks(house: House) -> None:
    provider = ScriptedProvider(lambda call: "said")
    working = await house.work(house.flow(), provider)
    provider.identity = replace(provider.identity, model="small")
    working.flow_set.change([house.flow(), house.flow(name="g")])

    assert {flow["name"]: flow["model"] for flow in status(working)["flows"]} == {"f": None, "g": "small"}
