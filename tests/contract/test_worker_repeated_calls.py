"""What goes out while a question is put several times: each object once, nothing half; and what it cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.workers import House
from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.worker import Answer

CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'
FLINT = '{"entity": "flint", "definition": "a hard stone found in chalk"}'
SLATE = '{"entity": "slate", "definition": "a rock that splits"}'
WRONG = '{"entity": "slate", "definition": null}'


class Turns:
    """A model that gives its answers in turn."""

    def __init__(self, *answers: ScriptedAnswer) -> None:
        self._answers = answers

    def __call__(self, call: Call) -> ScriptedAnswer:
        return self._answers[int(call.labels["call"]) - 1]


def cut(text: str) -> ScriptedAnswer:
    return ScriptedAnswer(text, finish_reason="length")


async def test_objects_go_out_once_however_often_the_model_was_asked(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    objects = await house.hear(house.topic("objects"))
    answers = await house.hear(house.topic("answers"))
    turns = Turns(
        cut(f"{CHALK}\n{WRONG}\n{FLINT[:20]}"), ScriptedAnswer(f"{CHALK}\n{FLINT}\n"), ScriptedAnswer(SLATE)
    )
    await house.work(flow, turns)

    lines = await responses.under(await house.send(flow, "insist", streaming=True, text="rocks"))

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert [call["why"] for call in answer.calls] == ["first", "continue", "invalid"]
    found = [json.loads(text) for text in (CHALK, FLINT, SLATE)]
    assert await objects.objects(answer.objects) == found
    assert CHALK.replace(": ", ":").replace(", ", ",").encode() in [each.data for each in objects.messages]
    assert [json.loads(line["text"]) for line in lines[:-1]] == found
    assert answer.rejected_count == 0


async def test_objects_of_a_later_pass_are_published_too(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    objects = await house.hear(house.topic("objects"))
    answers = await house.hear(house.topic("answers"))
    turns = Turns(*map(ScriptedAnswer, (CHALK, f"{CHALK.replace('c', 'C')}\n{FLINT}\n{WRONG}", SLATE, "[]")))
    working = await house.work(flow, turns)

    lines = await responses.under(await house.send(flow, "search", streaming=True, text="rocks"))

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    found = [json.loads(text) for text in (CHALK, FLINT, SLATE)]
    assert [call["why"] for call in answer.calls] == ["first", "pass", "invalid", "pass"]
    assert await objects.objects(answer.objects) == found
    assert [json.loads(line["text"]) for line in lines[:-1]] == found
    assert answer.reason == "success"
    text = working.worker.metrics.text().decode()
    assert 'trustgraph_prompt_pass_objects_total{flow="f",pass="2",prompt="search"} 2.0' in text
    assert 'trustgraph_prompt_pass_objects_total{flow="f",pass="3",prompt="search"} 0.0' in text


@pytest.mark.parametrize("allowed", ["flow", "process", "nobody"])
async def test_prompt_sets_only_parameters_that_flow_or_process_allow(house: House, allowed: str) -> None:
    flow = house.flow(
        extras={"top_k": 5}, allow_parameters=frozenset(["reasoning_effort"] if allowed == "flow" else [])
    )
    responses = await house.hear(house.topic("responses"))
    seen = []

    def model(call: Call) -> ScriptedAnswer:
        seen.append(dict(call.config.extras))
        return ScriptedAnswer("chalk")

    settings: dict[str, Any] = {"allow_parameters": ["reasoning_effort"]} if allowed == "process" else {}
    await house.work(flow, model, **settings)

    [response] = await responses.under(await house.send(flow, "think", text="rocks"))

    if allowed == "nobody":
        assert "--allow-parameter reasoning_effort" in response["error"]["message"]
        assert seen == []
    else:
        assert response["text"] == "chalk"
        assert seen == [{"top_k": 5, "reasoning_effort": "low"}]


async def test_escalation_is_in_response_record_and_metrics(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    working = await house.work(flow, Turns(*[ScriptedAnswer("I cannot.")] * 2))

    [response] = await responses.under(await house.send(flow, "settle", text="rocks"))
    [other] = await responses.under(await house.send(flow, "doubt", text="rocks"))

    records = [Answer.decode(record.data).escalated for record in await answers.until(2)]
    assert (response["escalated"], other["escalated"]) == ("attempts", "condition")
    assert other["text"] == "I cannot."
    assert records == ["attempts", "condition"]
    text = working.worker.metrics.text().decode()
    for prompt, why in (("settle", "attempts"), ("doubt", "condition")):
        assert f'trustgraph_prompt_escalations_total{{flow="f",prompt="{prompt}",why="{why}"}} 1.0' in text


async def test_an_object_goes_out_before_the_model_has_finished(house: House) -> None:
    flow = house.flow()
    objects = await house.hear(house.topic("objects"))
    went_out = asyncio.Event()

    class Waiting(ScriptedProvider):
        async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
            async for delta in super().stream(call):
                yield delta
                if "}" in delta.text:
                    await went_out.wait()

    await house.work(flow, Waiting([ScriptedAnswer(f"{CHALK}\n{FLINT}", chunk=len(CHALK))]))
    await house.send(flow, "define", text="chalk")

    [first] = await objects.until(1)
    assert json.loads(first.data) == json.loads(CHALK)
    went_out.set()
    await objects.until(2)


@pytest.mark.parametrize("prefill", [True, False])
async def test_a_value_that_was_cut_goes_out_once_and_whole(house: House, prefill: bool) -> None:
    flow = house.flow()
    objects = await house.hear(house.topic("objects"))
    responses = await house.hear(house.topic("responses"))
    rest = ScriptedAnswer(CHALK[40:] if prefill else CHALK)
    await house.work(flow, ScriptedProvider(Turns(cut(CHALK[:40]), rest), prefill=prefill))

    [response] = await responses.under(await house.send(flow, "settle", streaming=True, text="chalk"))

    [published] = await objects.until(1)
    assert json.loads(published.data) == json.loads(response["object"]) == json.loads(CHALK)
    assert (response["truncated"], response["stage"]) == (False, "direct")
    assert len(await objects.all()) == 1


async def test_cost_is_in_the_record_and_in_the_metrics(house: House) -> None:
    flow = house.flow(price=Price(prompt=1, completion=4), budget=Budget(money=1))
    answers = await house.hear(house.topic("answers"))
    used = Usage(1000, 500, 1500)
    turns = Turns(
        ScriptedAnswer(CHALK, finish_reason="length", usage=used), ScriptedAnswer(FLINT, usage=used)
    )
    working = await house.work(flow, turns)

    await house.send(flow, "define", text="chalk")

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert answer.cost == pytest.approx(0.006)
    assert [call["cost"] for call in answer.calls] == [pytest.approx(0.003)] * 2
    await working.stop()
    metrics = working.worker.metrics.text().decode()
    assert 'trustgraph_prompt_cost_total{flow="f",model="scripted",prompt="define"} 0.006' in metrics
