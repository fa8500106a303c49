"""Prompts that show the model examples: what a worker sends, and which objects it does not publish."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.workers import DEFINITION, House, Working, entry
from trustgraph_prompt.llm import Call, OpenAIProvider
from trustgraph_prompt.worker import Answer, Flow, Input, Outputs
from trustgraph_prompt.worker.config import config_topic
from trustgraph_prompt.worker.flow import TopicChoice

FLINT = {"entity": "flint", "definition": "a hard stone"}
CHALK = {"entity": "chalk", "definition": "a soft rock"}
SHOWN = [
    {"terms": {"text": "Flint is a hard stone."}, "reads": [FLINT]},
    {"terms": {"text": "It rained."}, "reads": []},
]
TURNS = [
    {"role": "user", "content": "Flint is a hard stone."},
    {"role": "assistant", "content": json.dumps(FLINT)},
    {"role": "user", "content": "It rained."},
    {"role": "assistant", "content": "[]"},
]
SYSTEM = {"role": "system", "content": "Define each entity by a definition."}
ASKED = {"role": "user", "content": "Chalk is soft."}
BOTH = f"{json.dumps(FLINT)}\n{json.dumps(CHALK)}"


def showing(*shown: Any, **more: Any) -> str:
    settings = {"response-type": "jsonl", "schema": DEFINITION, "system": SYSTEM["content"], **more}
    return entry("{{ text }}", shown=list(shown), **settings)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        server.reply = lambda body: Reply(streamed(BOTH))
        yield server


async def serve(house: House, flow: Flow, server: ModelServer, **more: Any) -> Working:
    house.base = {"template.define": showing(*SHOWN, **more)}
    provider = OpenAIProvider(server.url, "small")
    house.stack.push_async_callback(provider.close)
    return await house.work(flow, provider, config=True)


@pytest.mark.parametrize("streaming", [False, True])
async def test_model_gets_the_turns_and_its_echo_of_them_is_not_published(
    house: House, server: ModelServer, streaming: bool
) -> None:
    flow = house.flow()
    answers, objects = await house.hear(house.topic("answers")), await house.hear(house.topic("objects"))
    await serve(house, flow, server)

    await house.send(flow, "define", text="Chalk is soft.", streaming=streaming)

    [record] = await answers.until(1)
    assert server.bodies[0]["messages"] == [SYSTEM, *TURNS, ASKED]
    assert [json.loads(one.data) for one in await objects.all()] == [CHALK]
    answer = Answer.decode(record.data)
    assert [one["issues"][0]["reason"] for one in answer.rejected] == ["echoed"]


async def test_server_that_enforces_a_list_gets_answers_of_that_form(
    house: House, server: ModelServer
) -> None:
    flow = house.flow()
    answers, objects = await house.hear(house.topic("answers")), await house.hear(house.topic("objects"))
    server.reply = lambda body: Reply(streamed(json.dumps({"items": [FLINT, CHALK]})))
    await serve(house, flow, server, native="items")

    await house.send(flow, "define", text="Chalk is soft.")

    await answers.until(1)
    assert "response_format" in server.bodies[0]
    assert server.bodies[0]["messages"][2]["content"] == json.dumps({"items": [FLINT]})
    assert [json.loads(one.data) for one in await objects.all()] == [CHALK]


@pytest.mark.parametrize("way", ["turns", "text"])
async def test_our_completion_worker_gets_turns_and_trustgraphs_one_text(house: House, way: str) -> None:
    requests, responses = house.topic("completions"), house.topic("completed")
    completing = Flow("c", Input(requests, "c", kind="text-completion"), Outputs(response=responses))
    flow = house.flow(provider=TopicChoice(requests, responses, model="m"))
    sent, objects = await house.hear(requests), await house.hear(house.topic("objects"))
    answers = await house.hear(house.topic("answers"))
    calls: list[Call] = []

    def model(call: Call) -> str:
        calls.append(call)
        return BOTH

    house.base = {"template.define": showing(*SHOWN, examples={"as": way})}
    await house.work(completing, model, config=True)
    await house.work(flow, model, config=True)

    await house.send(flow, "define", text="Chalk is soft.")

    await answers.until(1)
    [request] = [json.loads(one.data) for one in await sent.all()]
    received = [{"role": message.role, "content": message.text} for message in calls[0].messages]
    if way == "turns":
        assert request["prompt"] == "Chalk is soft."
        assert received == [SYSTEM, *TURNS, ASKED]
    else:
        assert request["prompt"].startswith("Passage:\nFlint is a hard stone.\n\nAnswer:\n")
        assert request["prompt"].endswith("Passage:\nChalk is soft.\n\nAnswer:")
        assert len(received) == 2
    assert [json.loads(one.data) for one in await objects.all()] == [CHALK]


async def test_entry_with_an_example_that_cannot_be_shown_is_refused_and_the_last_one_served(
    house: House, server: ModelServer
) -> None:
    flow = house.flow()
    refused, answers = await house.hear_refusals(), await house.hear(house.topic("answers"))
    await serve(house, flow, server)

    wrong = showing({"terms": {"text": "Flint."}, "reads": [{"entity": "flint"}]})
    await config_topic.push(house.broker, "default", {"template.define": wrong}, topic=house.topic("config"))
    [report] = await refused.until(1)
    await house.send(flow, "define", text="Chalk is soft.")

    assert "/shown/0/reads/0" in report.data.decode()
    await answers.until(1)
    assert server.bodies[0]["messages"][1:-1] == TURNS
