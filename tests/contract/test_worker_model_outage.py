"""A model server that is away, over HTTP, and a worker with requests for it, on each broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Reply, Then, event, streamed
from tests.support.workers import ENTRIES, House, Working
from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.llm import OpenAIProvider
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker.around.crash_record import WorkRecord
from trustgraph_prompt.worker.flow import Flow

ANSWER: list[bytes | float] = [0.02, *streamed("Here it is.", chunk=10_000)]
MODELS = Reply([json.dumps({"data": [{"id": "small"}]}).encode()], content_type="application/json")


class Pauses:
    """Those of circuits, shorter; counts how many have begun. After each there is one probe at most."""

    def __init__(self, factor: float = 0.1) -> None:
        self.begun = 0
        self.times = {"sleep": self._sleep}
        self._factor = factor

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.begun < count:
                await asyncio.sleep(0.01)

    async def _sleep(self, seconds: float) -> None:
        self.begun += 1
        await asyncio.sleep(seconds * self._factor)


def quick() -> dict[str, Any]:
    """The times of circuits whose pauses are shorter."""
    return Pauses().times


def answering(body: dict[str, Any]) -> Reply:
    """A server that is well."""
    return Reply(ANSWER) if body else MODELS


def refusing(status: int, *, code: str) -> Callable[[dict[str, Any]], Reply]:
    error = Reply([json.dumps({"error": {"code": code}}).encode()], status, content_type="application/json")
    return lambda body: error


def dead_letters(flow: Flow) -> str:
    return topics.dead_letter_topic(flow.input.topic, flow.input.subscription)


async def away(working: Working, seconds: float = 10) -> str:
    """What the worker says of the model that is away, as soon as it does."""
    async with asyncio.timeout(seconds):
        while True:
            said = [f"{k}: {v}" for k, v in working.worker.health.waiting.items() if k.startswith("model ")]
            if said:
                return said[0]
            await asyncio.sleep(0.01)


def calls(working: Working) -> float:
    """How many calls were made."""
    found = working.worker.metrics.registry.get_sample_value(
        "trustgraph_prompt_call_seconds_count", {"model": "small"}
    )
    return found or 0.0


async def test_a_server_that_is_stopped_under_load_costs_no_request(house: House) -> None:
    flow = house.flow(deliveries=1)
    responses = await house.hear(house.topic("responses"))
    dead = await house.hear(dead_letters(flow))
    async with ModelServer() as server:
        server.reply = answering
        port, pauses = server.port, Pauses(0.02)
        working = await house.work(flow, OpenAIProvider(server.url, "small"), circuit_times=pauses.times)
        ids = [await house.send(flow, "say", text=str(n)) for n in range(200)]
        await responses.until(40)
    said = await away(working)
    assert f"model small of http://127.0.0.1:{port}/v1" in said
    assert "ConnectionRefusedError" in said or "Cannot connect" in said or "Connect call failed" in said
    assert "(since 20" in said
    await pauses.until(3)  # by when all calls of before have ended
    made, begun = calls(working), pauses.begun
    await pauses.until(begun + 6)
    assert calls(working) - made <= pauses.begun - begun + 1  # a probe that was under way
    assert not working.worker.health.ready
    async with ModelServer(port=port) as server:
        server.reply = answering
        assert not await responses.missing(ids)
        await working.ready()
        await working.stop()
    assert all(json.loads(response.data)["error"] is None for response in await responses.all())
    assert len(responses.messages) == 200
    assert not await dead.all()


@pytest.mark.parametrize(
    ("status", "code", "category"),
    [
        (401, "invalid_api_key", "provider_authentication"),
        (404, "model_not_found", "provider_invalid_model"),
        (500, "internal", "provider_unavailable"),
    ],
)
async def test_server_errors_cost_no_request_until_they_are_fixed(
    house: House, status: int, code: str, category: str
) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    dead = await house.hear(dead_letters(flow))
    async with ModelServer() as server:
        server.reply, pauses = refusing(status, code=code), Pauses(0.02)
        provider = OpenAIProvider(server.url, "small")
        working = await house.work(flow, provider, circuit_times=pauses.times, ready_without_model=True)
        ids = [await house.send(flow, "say", text=str(n)) for n in range(20)]
        async with asyncio.timeout(30):
            while not (notes := working.worker.health.notes().get("provider of flow f", "")):
                await asyncio.sleep(0.01)
        assert f"{category}: " in notes
        assert f"HTTP {status}" in notes
        await pauses.until(6)
        assert working.worker.health.ready  # as it was told
        assert not await dead.all()
        server.reply = answering
        assert not await responses.missing(ids)
        await working.stop()
    assert not await dead.all()


async def test_an_unknown_model_stops_only_requests_for_it(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    known = ["small"]

    def reply(body: dict[str, Any]) -> Reply:
        if not body:
            models = json.dumps({"data": [{"id": model} for model in known]}).encode()
            return Reply([models], content_type="application/json")
        if body["model"] not in known:
            return refusing(404, code="model_not_found")(body)
        return Reply(ANSWER)

    house.base = {
        "template.say": json.dumps({"prompt": "Say {{ text }}", "dialect": "jinja"}),
        "template.shout": json.dumps(
            {"prompt": "Shout {{ text }}", "dialect": "jinja", "model": {"name": "large"}}
        ),
    }
    async with ModelServer() as server:
        server.reply = reply
        model = OpenAIProvider(server.url, "small")
        working = await house.work(flow, model, config=True, circuit_times=quick())
        shouts = [await house.send(flow, "shout", text=str(n)) for n in range(20)]
        says = [await house.send(flow, "say", text=str(n)) for n in range(20)]
        assert not await responses.missing(says)
        assert len(await responses.all()) == 20
        assert working.worker.health.ready  # the flow serves
        await working.stop()
    assert await responses.missing(shouts, 0.1) == set(shouts)


async def test_question_that_is_too_long_for_the_model_is_no_outage(house: House) -> None:
    flow, pauses = house.flow(), Pauses()
    responses = await house.hear(house.topic("responses"))
    words = "The number of tokens to keep from the initial prompt is greater than the context length."

    def reply(body: dict[str, Any]) -> Reply:
        is_long = "long" in str(body.get("messages"))
        return Reply([event({"error": {"message": words}})]) if is_long else answering(body)

    async with ModelServer() as server:
        server.reply = reply
        working = await house.work(flow, OpenAIProvider(server.url, "small"), circuit_times=pauses.times)
        long = [await house.send(flow, "say", text=f"long {n}") for n in range(8)]
        short = [await house.send(flow, "say", text=f"{n}") for n in range(4)]
        assert not await responses.missing([*long, *short])
        assert len(server.bodies) == 12
        await working.stop()
    answers = [json.loads(response.data) for response in await responses.all()]
    errors = [answer["error"]["message"] for answer in answers if answer["error"]]
    assert len(errors) == 8
    assert all("the question does not fit the model's context" in error for error in errors)
    assert pauses.begun == 0


async def test_budget_holds_on_a_server_that_wants_another_name_for_max_tokens(house: House) -> None:
    flow = house.flow(budget=Budget(tokens=1_000), concurrency=1)
    responses = await house.hear(house.topic("responses"))
    words = "Unsupported parameter: 'max_tokens' is not supported with this model."
    refusal = Reply([json.dumps({"error": {"message": words}}).encode()], 400)
    async with ModelServer() as server:
        server.reply = lambda body: refusal if "max_tokens" in body else answering(body)
        working = await house.work(flow, OpenAIProvider(server.url, "small"), circuit_times=quick())
        ids = [await house.send(flow, "say", text=str(n)) for n in range(3)]
        assert not await responses.missing(ids)
        await working.stop()
        assert ["max_tokens" in body for body in server.bodies] == [True, False, False, False]
        assert all(0 < body["max_completion_tokens"] < 1_000 for body in server.bodies[1:])
    assert all(json.loads(response.data)["error"] is None for response in await responses.all())


@pytest.mark.parametrize("persistent", [True, False])
async def test_waiting_request_is_answered_with_an_error_within_its_seconds(
    house: House, persistent: bool
) -> None:
    flow = house.flow(persistent=persistent, budget=Budget(seconds=7))
    responses = await house.hear(house.topic("responses"))
    async with ModelServer() as server:
        url = server.url
    working = await house.work(flow, OpenAIProvider(url, "small"), circuit_times=quick())
    [response] = await responses.under(await house.send(flow, "say", text="x"))
    assert "the model is away" in response["error"]["message"]
    await working.stop()


async def test_chunk_waits_for_the_model_beyond_the_seconds_of_the_budget(house: House) -> None:
    flow, pauses = house.flow(budget=Budget(seconds=0.3), prompt="say"), Pauses()
    chunks = replace(
        flow, input=replace(flow.input, kind="chunk"), outputs=replace(flow.outputs, response=None)
    )
    answers = await house.hear(house.topic("answers"))
    async with ModelServer() as server:
        port = server.port
    provider = OpenAIProvider(f"http://127.0.0.1:{port}", "small")
    working = await house.work(chunks, provider, circuit_times=pauses.times)
    await house.put(chunks.input.topic, json.dumps({"chunk": "chalk", "metadata": {"id": "1"}}).encode())
    await away(working)
    await pauses.until(5)  # of a tenth of a second at least
    async with ModelServer(port=port) as server:
        server.reply = answering
        [answer] = await answers.until(1)
        await working.stop()
    assert json.loads(answer.data)["reason"] == "success"


async def test_a_worker_that_ends_meanwhile_leaves_what_waits_to_the_next(house: House) -> None:
    flow = house.flow(deliveries=1)
    responses = await house.hear(house.topic("responses"))
    dead = await house.hear(dead_letters(flow))
    async with ModelServer() as server:
        port = server.port
    model = f"http://127.0.0.1:{port}"
    working = await house.work(flow, OpenAIProvider(model, "small"), circuit_times=quick(), drain_timeout=0.1)
    ids = [await house.send(flow, "say", text=str(n)) for n in range(20)]
    await away(working)
    await working.stop()
    async with ModelServer(port=port) as server:
        server.reply = answering
        working = await house.work(flow, OpenAIProvider(model, "small"))
        assert not await responses.missing(ids)
        await working.stop()
    assert not await dead.all()


async def in_work(house: House, topic: str) -> dict[str, int | None]:
    """What workers have in work, those that died among them."""
    table = await house.broker.table(topic)
    await table.close()
    return {k: v for e in table.entries.values() for k, v in WorkRecord.decode(e.data).crashes.items()}


@pytest.mark.parametrize("suspect_of", ["gone", "well"])
async def test_request_that_waits_for_its_model_is_not_in_work(house: House, suspect_of: str) -> None:
    """A suspect that waits stops nobody, who waits stops no suspect, and a crash is not their fault."""
    one = house.flow()
    flows = {
        name: replace(
            one,
            name=name,
            model=name,
            input=replace(one.input, topic=house.topic(name)),
            outputs=replace(one.outputs, response=house.topic(f"responses-{name}")),
        )
        for name in ("gone", "well")
    }
    gone, well = flows["gone"], flows["well"]
    works = topics.in_progress_topic(gone.input.topic, gone.input.subscription)
    dead_works = topics.in_progress_topic(flows[suspect_of].input.topic, flows[suspect_of].input.subscription)
    for flow in flows.values():
        await (await house.broker.consumer(flow.input.topic, flow.input.subscription)).close()
    responses = await house.hear(house.topic("responses-well"))
    async with ModelServer() as server:
        providers = {"gone": OpenAIProvider(server.url, "gone")}
    await house.send(gone, "say", text="x")
    ids = [await house.send(well, "say", text=str(n)) for n in range(3)]
    [suspect, *_] = await (await house.hear(flows[suspect_of].input.topic)).until(1)
    await house.put(dead_works, WorkRecord({suspect.id: 1}).encode(), key="dead")
    async with ModelServer() as server:
        server.reply = answering
        providers["well"] = OpenAIProvider(server.url, "well")
        working = Working(
            Service(
                house.broker,
                list(flows.values()),
                Prompts(ENTRIES, [one.workspace]),
                lambda model: providers[model or ""],
                config_topic=None,
                drain_timeout=0.1,
                circuit_times={"sleep": lambda seconds: asyncio.sleep(1e6)},
            )
        )
        house.stack.push_async_callback(working.stop)
        await away(working)
        assert not await responses.missing(ids)
        still = {suspect.id: 1} if suspect_of == "gone" else {}  # as the one that died left it
        async with asyncio.timeout(10):
            while await in_work(house, works) != still:
                await asyncio.sleep(0.05)
        await working.stop()


async def test_many_objects_that_an_outage_cut_off_are_asked_for_anew(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    lines = [json.dumps({"entity": f"e{n}", "definition": "d"}) for n in range(6)]
    whole = streamed("\n".join(lines), chunk=10)
    begun = asyncio.Event()

    def dies(body: dict[str, Any]) -> Reply:
        if not body:
            return MODELS
        begun.set()
        return Reply([*whole[: len(whole) * 2 // 3], Then.HANG])

    objects = await house.hear(house.topic("objects"))
    async with ModelServer() as server:
        server.reply = dies
        port = server.port
        working = await house.work(flow, OpenAIProvider(server.url, "small"), circuit_times=quick())
        id = await house.send(flow, "define", text="x")
        await begun.wait()
        await objects.until(1)
    await away(working)
    async with ModelServer(port=port) as server:
        server.reply = lambda body: Reply(list(whole)) if body else MODELS
        await responses.under(id)
        await working.stop()
    [answer] = await (await house.hear(house.topic("answers"))).until(1)
    record = json.loads(answer.data)
    assert (record["reason"], record["truncated"], len(record["objects"])) == ("success", False, 6)
