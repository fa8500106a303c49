"""Workers that are killed with SIGKILL, on a real Pulsar."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.model_server import ModelServer
from tests.support.pulsar_traffic import Traffic, traffic
from tests.support.restless_model import OBJECTS_EACH, PROMPT, RestlessModel
from tests.support.worker_processes import Process, Site
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.messages.answer_record import object_ids

pytestmark = pytest.mark.pulsar

KILLS = 50
REPLICAS = 3
CONCURRENCY = 4
REQUESTS_A_KILL = 10


async def answers(flow: Traffic) -> dict[str, list[tuple[str, ...]]]:
    """The objects that each record of an answer names, by request."""
    named: dict[str, list[tuple[str, ...]]] = {}
    for message in await flow.published("answers"):
        answer = Answer.decode(message.data)
        named.setdefault(answer.request, []).append(answer.objects)
    return named


async def more(flow: Traffic, count: int) -> None:
    """Until so many more responses have been heard, or one to each request."""
    enough = len(flow.heard.messages) + count
    async with asyncio.timeout(60):
        while len(flow.heard.messages) < enough:
            if {message.properties["id"] for message in flow.heard.messages} >= set(flow.sent):
                return
            await asyncio.sleep(0.01)


def runs(model: RestlessModel) -> dict[str, list[tuple[str, ...]]]:
    """The ids of the objects that the model gave at each call, by request."""
    given: dict[str, list[tuple[str, ...]]] = {}
    for request, objects in model.runs:
        ids = tuple(map(object_ids(request, PROMPT), objects))
        given.setdefault(request, []).append(ids)
    return given


class Replicas:
    """So many workers, of which one after the other is killed and replaced."""

    def __init__(self, site: Site, count: int) -> None:
        self._site = site
        self._starting = [asyncio.create_task(site.run()) for _ in range(count)]

    async def kill_one(self, dice: random.Random) -> None:
        """Kill one that is at work. Another is started, and nobody waits for it."""
        await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
        place = dice.choice([n for n, task in enumerate(self._starting) if task.done()])
        victim: Process = self._starting[place].result()
        victim.kill()
        await victim.wait()
        self._starting[place] = asyncio.create_task(self._site.run())

    async def settled(self) -> None:
        await asyncio.gather(*self._starting)


async def test_fifty_kills_lose_no_request_and_no_object(
    pulsar_site: Site, pulsar_space: str, server: ModelServer, record_counts: Callable[..., None]
) -> None:
    dice = random.Random(6)
    ids = [f"r{n}" for n in range((KILLS + 10) * REQUESTS_A_KILL)]
    model = RestlessModel(pause=0.02)
    async with traffic(pulsar_site, pulsar_space, server, model, concurrency=CONCURRENCY) as flow:
        await flow.send(ids[: 10 * REQUESTS_A_KILL])
        replicas = Replicas(pulsar_site, REPLICAS)
        for n in range(KILLS):
            await more(flow, dice.randint(1, 2 * REQUESTS_A_KILL - 1))
            await asyncio.sleep(dice.uniform(0, 0.1))
            await replicas.kill_one(dice)
            await flow.send(ids[(n + 10) * REQUESTS_A_KILL : (n + 11) * REQUESTS_A_KILL])
        unanswered = await flow.heard.missing(ids)
        await replicas.settled()
        # Workers go on with what is delivered again, and publish objects before the answer that names them.
        recorded = await answers(flow)
        objects = {message.properties["id"] for message in await flow.published("objects")}

    named = {id for records in recorded.values() for record in records for id in record}
    mixed = [r for r, records in recorded.items() if not set(records) <= set(runs(model)[r])]
    times = Counter(message.properties["id"] for message in flow.heard.messages)
    record_counts(
        requests=len(ids),
        kills=KILLS,
        unanswered=len(unanswered),
        object_ids=len(named),
        missing=len(named - objects),
        of_several_runs=len(mixed),
        asked_again=model.paid_twice,
        answered_again=sum(times.values()) - len(times),
    )
    assert not unanswered
    assert set(recorded) == set(ids)
    assert not named - objects
    assert not mixed
    assert not [m for m in flow.heard.messages if json.loads(m.data)["error"]]


async def test_answer_after_a_kill_between_objects_names_those_of_one_run(
    pulsar_site: Site, pulsar_space: str, server: ModelServer, record_counts: Callable[..., None]
) -> None:
    ids = [f"r{n}" for n in range(8)]
    model = RestlessModel(pause=0.01)
    async with traffic(pulsar_site, pulsar_space, server, model, concurrency=len(ids)) as flow:
        await flow.send(ids)
        objects = await flow.hear("objects")
        # All side by side, after the first crash as one group, after the second half of them.
        groups = [len(ids), len(ids), len(ids) // 2]
        kills = range(1, OBJECTS_EACH + 1)
        given_before = 0
        for before, group in zip(kills, groups, strict=True):
            model.stalls_after = before
            worker = await pulsar_site.run()
            given_before += before * group
            await objects.until(given_before)
            worker.kill()
            await worker.wait()
        model.stalls_after = None
        await pulsar_site.run()
        unanswered = await flow.heard.missing(ids)
        recorded = await answers(flow)
        published = {message.properties["id"] for message in await flow.published("objects")}

    kept = {id for records in recorded.values() for record in records for id in record}
    given = runs(model)
    record_counts(
        requests=len(ids),
        kills=len(kills),
        runs=len(model.runs),
        unanswered=len(unanswered),
        object_ids=len(published),
        named_by_an_answer=len(kept),
    )
    assert not unanswered
    assert recorded == {id: [given[id][-1]] for id in ids}
    assert published > kept
    assert published == {id for of_request in given.values() for run in of_request for id in run}
