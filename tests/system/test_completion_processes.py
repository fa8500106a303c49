"""A prompt worker and the completion worker that it asks, two processes on one broker in a file."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.house import DEFINITION, Heard, entry
from tests.support.model_server import ModelServer
from tests.support.processes import Process
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


class Site:
    """A folder with everything that the processes need, and the processes."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.url = f"embedded:{folder / 'broker.db'}"
        self._stack = stack
        self.ask_over(COMPLETION_REQUESTS, COMPLETIONS)
        (folder / "kept.yaml").write_text(KEPT)
        prompt = entry("Define {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION})
        (folder / "templates.json").write_text(json.dumps({"template.define": prompt}))
        self.answer_after(0.02)

    def ask_over(self, requests: str, responses: str) -> None:
        """Where the prompt worker asks."""
        flow = FLOW.replace("REQUESTS", requests).replace("RESPONSES", responses)
        (self.folder / "flow.yaml").write_text(flow)

    def answer_after(self, delay: float) -> None:
        """How long the model takes from the next start on."""
        answers = [{"prompt": "define", "answer": ANSWER}, {"contains": "hello", "answer": "Hello, world."}]
        lines = [json.dumps({**answer, "delay": delay, "chunk": 5}) for answer in answers]
        (self.folder / "script.jsonl").write_text("\n".join(lines))

    async def prompts(self) -> Process:
        files = ("--flows", self.folder / "flow.yaml", "--templates", self.folder / "templates.json")
        return await self.start("run", *files)

    async def completions(self, *options: object) -> Process:
        script = f"scripted:{self.folder / 'script.jsonl'}"
        return await self.start("complete", "--provider", script, "--drain-timeout", "0.1", *options)

    async def start(self, command: str, *options: object) -> Process:
        """A process of the command, once it is ready."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trustgraph_prompt", command, "--broker", self.url),
            *(*map(str, options), "--http", "127.0.0.1:0"),
            stderr=asyncio.subprocess.PIPE,
        )
        worker = Process(process)
        self._stack.push_async_callback(worker.end)
        await worker.shows("/readyz", '"ready": true')
        return worker

    async def hear(self, broker: Broker, topic: str) -> Heard:
        reader = await broker.reader(topic)
        heard = Heard()
        task = asyncio.create_task(heard.follow(reader.receive))
        self._stack.push_async_callback(_ended, task)
        self._stack.push_async_callback(reader.close)
        return heard


async def _ended(task: asyncio.Task[None]) -> None:
    await task


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack)


@pytest.fixture
async def broker(site: Site) -> AsyncIterator[Broker]:
    async with await connect(site.url) as opened:
        yield opened


async def send(broker: Broker, ids: list[str]) -> None:
    producer = await broker.producer("persistent://tg/flow/in")
    for id in ids:
        await producer.send(PromptRequest.asking("define", {"text": id}).encode(), properties={"id": id})
    await producer.close()


async def answered(heard: Heard, ids: list[str], seconds: float = 90) -> None:
    """Wait until every id has been heard."""
    async with asyncio.timeout(seconds):
        while set(ids) - {message.properties["id"] for message in heard.messages}:
            await asyncio.sleep(0.05)


async def test_trustgraphs_client_is_answered_on_the_topics_it_knows(site: Site, broker: Broker) -> None:
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


async def test_a_server_is_asked_for_what_flow_and_request_say(site: Site, broker: Broker) -> None:
    flow = site.folder / "model.yaml"
    flow.write_text(KEPT + 'parameters: {model: "large", temperature: "0.25"}\n')
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"type": "string"}},
        "required": ["b", "a"],
        "additionalProperties": False,
    }
    server = ModelServer()
    await server.start()
    await site.start("complete", "--flows", flow, "--base-url", server.url, "--model", "small")
    caller = await broker.caller("flow:tg:completions", "flow:tg:completed")
    provider = TopicProvider(caller, timeout=60)
    question = [Message("system", "Be brief."), Message("user", "Hello?"), Message("assistant", "Yes?")]
    question.append(Message("user", "Who are you?"))

    response = await provider.complete(question, config=RuntimeConfig(max_tokens=9), response_schema=None)
    async with aclosing(provider.stream(Call(question, response_schema=schema))) as deltas:
        paths = [delta.schema_path async for delta in deltas]
    await caller.close()
    await server.stop()

    assert response.message.content == "Hello."
    first, second = server.bodies
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("large", 0.25, 9)
    assert [message["role"] for message in first["messages"]] == ["system", "user", "assistant", "user"]
    sent = second["response_format"]["json_schema"]
    assert (json.dumps(sent["schema"]), sent["strict"]) == (json.dumps(schema), True)
    assert paths[-1] == "strict"


async def test_a_prompt_worker_asks_over_topics(site: Site, broker: Broker) -> None:
    ids = [f"r{n}" for n in range(50)]
    responses = await site.hear(broker, "persistent://tg/flow/out")
    await site.completions()
    prompts = await site.prompts()
    await send(broker, ids)
    await answered(responses, ids)

    for message in responses.messages:
        response = json.loads(message.data)
        assert [value["entity"] for value in json.loads(response["object"])] == ["e0", "e1", "e2"]
        assert (response["finish_reason"], response["model"]) == ("stop", "scripted")
    prompts.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(prompts.wait(), 60) == 0


async def all_came_once(site: Site, broker: Broker, responses: Heard, ids: list[str]) -> None:
    await answered(responses, ids)
    assert not [message for message in responses.messages if json.loads(message.data)["error"]]
    objects = await site.hear(broker, "persistent://tg/flow/objects")
    await objects.until(3 * len(ids))
    times = Counter(message.properties["id"] for message in objects.messages)
    assert set(times.values()) == {1}


async def test_a_completion_worker_that_is_replaced_under_load_costs_no_request(
    site: Site, broker: Broker
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


async def test_on_persistent_topics_completions_wait_for_the_next_worker(site: Site, broker: Broker) -> None:
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


async def test_an_upstream_client_hears_of_the_end_at_once(site: Site, broker: Broker) -> None:
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


def test_a_flow_of_another_kind_is_for_run(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW.partition("provider:")[0])

    result = run("complete", "--flows", tmp_path / "flow.yaml", "--broker", "embedded:")

    assert result.returncode == 2
    assert "/input/kind" in result.stderr
    assert "`run`" in result.stderr
