"""A prompt worker and the completion worker that it asks, two processes on one broker in a file."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.model_server import ModelServer
from tests.support.worker_processes import Process, Site
from tests.support.workers import DEFINITION, Heard, entry
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.llm import Call, Message, RuntimeConfig, TopicProvider
from trustgraph_prompt.wire import PromptRequest

ANSWER = "".join(f'{{"entity": "e{n}", "definition": "d{n}"}}\n' for n in range(3))
COMPLETION_REQUESTS = "non-persistent://tg/request/text-completion:default:default"
COMPLETIONS = "non-persistent://tg/response/text-completion:default:default"

FLOW = """
name: f
input: {topic: "persistent://tg/flow/in"}
outputs:
  response: persistent://tg/flow/out
  objects: persistent://tg/flow/objects
concurrency: 4
provider: {request: "REQUESTS", response: "RESPONSES"}
"""

#: Beside what a person serves by default: topics that keep what nobody has answered yet.
KEPT = """
name: kept
input: {topic: "persistent://tg/flow/completions", kind: text-completion}
outputs: {response: "persistent://tg/flow/completed"}
"""


class Both(Site):
    """Starts prompt workers and completion workers."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        super().__init__(folder, stack)
        (folder / "kept.yaml").write_text(KEPT)
        self.ask_over(COMPLETION_REQUESTS, COMPLETIONS)
        self.answer_after(0.02)

    def ask_over(self, requests: str, responses: str) -> None:
        """Where the prompt worker asks."""
        prompt = entry("Define {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION})
        flow = FLOW.replace("REQUESTS", requests).replace("RESPONSES", responses)
        self.serves(flow, {"template.define": prompt})

    def answer_after(self, delay: float) -> None:
        """How long the model takes from the next start on."""
        answers = [{"prompt": "define", "answer": ANSWER}, {"contains": "hello", "answer": "Hello, world."}]
        self.answers(*({**answer, "delay": delay, "chunk": 5} for answer in answers))

    async def prompts(self) -> Process:
        files = ("--flows", self.folder / "flow.yaml", "--templates", self.folder / "templates.json")
        return await self.start("run", "--broker", self.url, *files)

    async def completions(self, *options: object) -> Process:
        broker_and_model = ("--broker", self.url, "--provider", self.provider)
        return await self.start("complete", *broker_and_model, "--drain-timeout", "0.1", *options)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Both]:
    async with AsyncExitStack() as stack:
        yield Both(tmp_path, stack)


@pytest.fixture
async def broker(site: Both) -> AsyncIterator[Broker]:
    async with await connect(site.url) as opened:
        yield opened


async def send(broker: Broker, ids: list[str]) -> None:
    producer = await broker.producer("persistent://tg/flow/in")
    for id in ids:
        await producer.send(PromptRequest.asking("define", {"text": id}).encode(), properties={"id": id})
    await producer.close()


async def test_trustgraphs_client_is_answered_on_the_topics_it_knows(site: Both, broker: Broker) -> None:
    await site.completions()
    caller = await broker.caller(COMPLETION_REQUESTS, COMPLETIONS)
    request = {"operation": "completion", "system": "s", "prompt": "hello", "response_format": None}
    answers = []
    for streaming in (False, True):
        data = json.dumps({**request, "streaming": streaming, "schema": None}).encode()
        async with aclosing(caller.call(data, timeout=60)) as responses:
            async for message in responses:
                answers.append(json.loads(message.data))
                if answers[-1]["end_of_stream"]:
                    break
    await caller.close()

    assert [answer["response"] for answer in answers] == ["Hello, world.", "Hello", ", wor", "ld.", ""]
    assert answers[-1]["in_token"] > 0
    assert all(answer["error"] is None for answer in answers)


async def test_a_server_is_asked_for_what_flow_and_request_say(
    site: Both, broker: Broker, server: ModelServer
) -> None:
    flow = site.folder / "model.yaml"
    flow.write_text(KEPT + 'parameters: {model: "large", temperature: "0.25"}\n')
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"type": "string"}},
        "required": ["b", "a"],
        "additionalProperties": False,
    }
    model = ("--base-url", server.url, "--model", "small")
    await site.start("complete", "--broker", site.url, "--flows", flow, *model)
    caller = await broker.caller("flow:tg:completions", "flow:tg:completed")
    provider = TopicProvider(caller, timeout=60)
    question = [Message("system", "Be brief."), Message("user", "Hello?"), Message("assistant", "Yes?")]
    question.append(Message("user", "Who are you?"))

    response = await provider.complete(question, config=RuntimeConfig(max_tokens=9), response_schema=None)
    async with aclosing(provider.stream(Call(question, response_schema=schema))) as deltas:
        paths = [delta.schema_path async for delta in deltas]
    await caller.close()

    assert response.message.content == "Hello."
    first, second = server.bodies
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("large", 0.25, 9)
    assert [message["role"] for message in first["messages"]] == ["system", "user", "assistant", "user"]
    sent = second["response_format"]["json_schema"]
    assert (json.dumps(sent["schema"]), sent["strict"]) == (json.dumps(schema), True)
    assert paths[-1] == "strict"


async def test_a_prompt_worker_asks_over_topics(site: Both, broker: Broker) -> None:
    ids = [f"r{n}" for n in range(50)]
    responses = await site.hear(broker, "persistent://tg/flow/out")
    await site.completions()
    prompts = await site.prompts()
    await send(broker, ids)
    assert not await responses.missing(ids)

    for message in responses.messages:
        response = json.loads(message.data)
        assert [value["entity"] for value in json.loads(response["object"])] == ["e0", "e1", "e2"]
        assert (response["finish_reason"], response["model"]) == ("stop", "scripted")
    prompts.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(prompts.wait(), 60) == 0


async def all_came_once(site: Both, broker: Broker, responses: Heard, ids: list[str]) -> None:
    assert not await responses.missing(ids)
    assert not [message for message in responses.messages if json.loads(message.data)["error"]]
    objects = await site.hear(broker, "persistent://tg/flow/objects")
    await objects.until(3 * len(ids))
    times = Counter(message.properties["id"] for message in objects.messages)
    assert set(times.values()) == {1}


async def test_a_completion_worker_that_is_replaced_under_load_costs_no_request(
    site: Both, broker: Broker
) -> None:
    ids = [f"r{n}" for n in range(60)]
    responses = await site.hear(broker, "persistent://tg/flow/out")
    site.answer_after(0.3)
    first = await site.completions()
    await site.prompts()
    await send(broker, ids)
    await responses.until(5)

    await site.completions()
    first.send_signal(signal.SIGTERM)

    assert await asyncio.wait_for(first.wait(), 60) == 0
    await all_came_once(site, broker, responses, ids)


async def test_on_persistent_topics_completions_wait_for_the_next_worker(site: Both, broker: Broker) -> None:
    ids = [f"r{n}" for n in range(30)]
    responses = await site.hear(broker, "persistent://tg/flow/out")
    site.ask_over("persistent://tg/flow/completions", "persistent://tg/flow/completed")
    site.answer_after(0.3)
    kept = ("--flows", site.folder / "kept.yaml")
    first = await site.completions(*kept)
    await site.prompts()
    await send(broker, ids)
    await responses.until(5)

    first.kill()
    await first.wait()
    await site.completions(*kept)

    await all_came_once(site, broker, responses, ids)


async def test_waiting_client_is_answered_with_shutting_down_at_once(site: Both, broker: Broker) -> None:
    site.answer_after(600)
    worker = await site.completions()
    caller = await broker.caller(COMPLETION_REQUESTS, COMPLETIONS)
    async with aclosing(caller.call(b'{"prompt": "hello"}', timeout=60)) as responses:
        hearing = asyncio.ensure_future(anext(responses))
        await worker.shows("/metrics", 'trustgraph_prompt_requests_in_work{flow="default"} 1.0')
        worker.send_signal(signal.SIGTERM)
        response = json.loads((await hearing).data)
    await caller.close()

    assert response["error"]["type"] == "shutting-down"
    assert response["end_of_stream"]
    assert await asyncio.wait_for(worker.wait(), 60) == 0


def test_the_help_names_every_option() -> None:
    result = run("complete", "--help")

    assert result.returncode == 0
    for option in ("--broker", "--flows", "--id", "--concurrency", "--http", "--provider", "--model"):
        assert option in result.stdout


def test_flow_of_another_kind_is_refused_and_sent_to_run(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW.partition("provider:")[0])

    result = run("complete", "--flows", tmp_path / "flow.yaml", "--broker", "embedded:")

    assert result.returncode == 2
    assert "/input/kind" in result.stderr
    assert "`run`" in result.stderr


def test_a_flow_whose_key_is_nowhere_is_refused(tmp_path: Path) -> None:
    provider = "provider: {base-url: 'http://127.0.0.1:1/v1', model: m, key-env: TYPO_API_KEY}\n"
    (tmp_path / "flow.yaml").write_text(FLOW.partition("provider:")[0] + provider)

    result = run("run", "--flows", tmp_path / "flow.yaml", "--broker", "embedded:")

    assert result.returncode == 2
    assert "/provider/key-env" in result.stderr
    assert "TYPO_API_KEY" in result.stderr
