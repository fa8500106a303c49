"""A worker whose broker goes away: it waits, says so, and goes on by itself."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.command import run
from tests.support.model_server import ModelServer
from tests.support.pulsar_server import PulsarServer
from tests.support.pulsar_traffic import FLOW, Traffic, traffic
from tests.support.restless_model import PROMPT, TEMPLATES, RestlessModel
from tests.support.worker_processes import Process, Site
from trustgraph_prompt.broker import Producer, connect
from trustgraph_prompt.errors import BrokerUnavailable
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer

pytestmark = [pytest.mark.pulsar, pytest.mark.xdist_group("mortal")]

KILLS = 2
ANSWERED_BETWEEN_KILLS = 30
SECONDS_BETWEEN_REQUESTS = 0.05
AHEAD = 100
"""So many requests may wait for an answer before no more are made: a slow machine builds up no backlog."""
SECONDS_TO_COME_BACK = 180.0
SECONDS_TO_SAY_SO = 50.0
"""Until a worker has said that its broker is gone: ten times what it takes on a machine of its own."""


@asynccontextmanager
async def load(flow: Traffic) -> AsyncIterator[None]:
    """Requests for the time of the block, each published until the broker has taken it."""
    async with await connect(flow.site.url) as broker, asyncio.TaskGroup() as sending:
        producer, over = await broker.producer(flow.requests), asyncio.Event()

        async def pace() -> None:
            while not over.is_set():
                while len(flow.sent) - len(answered(flow)) >= AHEAD:
                    await asyncio.sleep(SECONDS_BETWEEN_REQUESTS)
                flow.sent.append(id := f"r{len(flow.sent)}")
                sending.create_task(_insist(producer, id))
                await asyncio.sleep(SECONDS_BETWEEN_REQUESTS)

        sending.create_task(pace())
        yield
        over.set()


async def _insist(producer: Producer, id: str) -> None:
    while True:
        try:
            await producer.send(PromptRequest.asking(PROMPT, {"text": id}).encode(), properties={"id": id})
        except BrokerUnavailable:
            continue
        return


def answered(flow: Traffic) -> Counter[str]:
    """How many responses each request has."""
    return Counter(message.properties["id"] for message in flow.heard.messages)


async def says_that_it_is_away(worker: Process) -> float:
    """How many seconds it takes the worker to say so."""
    began = time.monotonic()
    await worker.shows("/readyz", '"ready": false', SECONDS_TO_SAY_SO)
    seconds = time.monotonic() - began
    await worker.shows("/metrics", "trustgraph_prompt_ready 0.0")
    await worker.shows("/metrics", 'trustgraph_prompt_healthy{part="consumer of flow f"} 0.0')
    await worker.shows("/readyz", "consumer of flow f")
    await worker.shows("/livez", "true")
    return seconds


async def is_ready_again(worker: Process) -> float:
    """How many seconds the worker takes."""
    began = time.monotonic()
    await worker.shows("/readyz", '"ready": true', SECONDS_TO_COME_BACK)
    await worker.shows("/metrics", 'trustgraph_prompt_healthy{part="consumer of flow f"} 1.0')
    return time.monotonic() - began


@pytest.mark.parametrize("replicas", [1, 2])
async def test_killed_broker_loses_no_request_and_no_worker_answers_twice(
    mortal: PulsarServer,
    mortal_site: Site,
    server: ModelServer,
    record_counts: Callable[..., None],
    replicas: int,
) -> None:
    mortal.create_space(space := f"away-{time.time_ns()}")
    model = RestlessModel(pause=0.05)
    told, recoveries, began = 0.0, [], time.monotonic()
    async with traffic(mortal_site, space, server, model, concurrency=8) as flow:
        workers = [worker := await mortal_site.run(), *[await mortal_site.run() for _ in range(1, replicas)]]
        async with load(flow):
            for kill in range(KILLS):
                enough = len(answered(flow)) + ANSWERED_BETWEEN_KILLS
                async with asyncio.timeout(SECONDS_TO_COME_BACK):
                    while len(answered(flow)) < enough:
                        await asyncio.sleep(SECONDS_BETWEEN_REQUESTS)
                await asyncio.to_thread(mortal.kill)
                if not kill:
                    told = await says_that_it_is_away(worker)
                await asyncio.to_thread(mortal.start_again)
                recoveries.append(await is_ready_again(worker))
        unanswered = await flow.heard.missing(flow.sent, SECONDS_TO_COME_BACK)
        answers = [Answer.decode(message.data) for message in await flow.published("answers")]
        objects = {message.properties["id"] for message in await flow.published("objects")}
        requests = {(each.properties["id"], each.published) for each in await flow.published("requests")}
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 0

    named = {id for answer in answers for id in answer.objects}
    record_counts(
        requests=len(flow.sent),
        kills=KILLS,
        unanswered=len(unanswered),
        missing_objects=len(named - objects),
        answered_again=sum(answered(flow).values()) - len(answered(flow)),
        sent_again=len(requests) - len(flow.sent),
        model_calls=len(model.runs),
        paid_twice=model.paid_twice,
        away_after_seconds=f"{told:.1f}",
        seconds_to_be_ready_again=" ".join(f"{seconds:.1f}" for seconds in recoveries),
        seconds=f"{time.monotonic() - began:.0f}",
    )
    assert not unanswered
    assert {answer.request for answer in answers} == set(flow.sent)
    assert not named - objects
    # A second response is that of another worker, which asked, or of a request that was sent a second time.
    assert not answered(flow) - (model.times + Counter(id for id, _ in requests) - Counter(flow.sent))
    assert replicas > 1 or not model.paid_twice


async def test_worker_started_without_a_broker_says_so_and_begins_when_it_comes(
    mortal: PulsarServer, mortal_site: Site, server: ModelServer, record_counts: Callable[..., None]
) -> None:
    mortal.create_space(space := f"away-{time.time_ns()}")
    model = RestlessModel(pause=0.0)
    async with traffic(mortal_site, space, server, model) as flow:
        await flow.send(["r"])
        await asyncio.to_thread(mortal.kill)
        began = time.monotonic()
        worker = await mortal_site.begin()
        await worker.shows("/readyz", "refused")
        told = time.monotonic() - began
        await worker.shows("/livez", "true")
        await asyncio.to_thread(mortal.start_again)
        began = time.monotonic()
        await worker.shows("/readyz", '"ready": true', SECONDS_TO_COME_BACK)
        record_counts(
            told_after_seconds=round(told, 1), ready_after_seconds=round(time.monotonic() - began, 1)
        )
        assert not await flow.heard.missing(["r"])


async def test_a_canary_and_the_history_survive_a_broker_that_is_killed(
    mortal: PulsarServer, mortal_site: Site
) -> None:
    mortal.create_space(space := f"away-{time.time_ns()}")
    site, folder = mortal_site, mortal_site.folder
    topic = site.config_topic = f"persistent://{space}/config/prompt"
    requests, responses = (f"persistent://{space}/flow/{name}" for name in ("requests", "responses"))
    site.serves(FLOW.format(space=space, requests=requests, responses=responses, concurrency=4), TEMPLATES)
    site.answers({"answer": "said"})

    async def command(*arguments: object) -> str:
        where = ("--broker", site.url, "--topic", topic)
        done = await asyncio.to_thread(run, *arguments, *where, folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    await command("topics", "create", "--flows", "flow.yaml", "--admin-url", mortal.admin_url)
    for words, options in (("Say", ()), ("Please say", ("--canary", "50%"))):
        prompt = {"dialect": "jinja", "prompt": f"{words} {{{{ text }}}}"}
        (folder / "say.yaml").write_text(json.dumps(prompt))
        await command("config", "push", "say.yaml", "--workspace", space, *options)
    begun = f"the canary of prompt say of workspace {space} answers 50 % of its requests"
    workers = [await site.run()]
    await workers[0].says(begun)

    await asyncio.to_thread(mortal.kill)
    await asyncio.to_thread(mortal.start_again)
    await is_ready_again(workers[0])
    workers.append(await site.run())
    await workers[1].says(begun)
    await command("config", "canary", "abort", "say", "--workspace", space)
    for worker in workers:
        await worker.says(f"the canary of prompt say of workspace {space} has ended")
    history = ("config", "history", "say", "--workspace", space, "--admin-url", mortal.admin_url, "--json")
    changes = [json.loads(line) for line in (await command(*history)).splitlines()]
    assert [each["action"] for each in changes] == ["canary", "push"]
