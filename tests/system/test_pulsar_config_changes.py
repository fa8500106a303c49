"""A thousand prompts on the config topic of a real Pulsar, many of which change each second under load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.config_changes import PROMPTS, Asking, Judge, Latencies, Prompts
from tests.support.model_server import ModelServer
from tests.support.pulsar_traffic import FLOW
from tests.support.restless_model import TEMPLATES
from tests.support.worker_processes import Site
from tests.support.workers import listening
from trustgraph_prompt.broker import connect

pytestmark = pytest.mark.pulsar


async def test_fifty_changes_a_second_to_a_thousand_prompts_mix_nothing_and_are_seen(
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    record_counts: Callable[..., None],
) -> None:
    judge = Judge()
    server.reply = judge.reply
    requests, responses = (f"persistent://{pulsar_space}/flow/{name}" for name in ("requests", "responses"))
    pulsar_site.serves(
        FLOW.format(space=pulsar_space, requests=requests, responses=responses, concurrency=16), TEMPLATES
    )
    pulsar_site.asks(server.url)
    async with await connect(pulsar_site.url) as broker, listening(broker, responses) as heard:
        prompts = Prompts(await broker.producer(str(pulsar_site.config_topic)), pulsar_space)
        await prompts.lay()
        worker = await pulsar_site.run()
        asking = Asking(await broker.producer(requests), heard, worker)
        async with asyncio.TaskGroup() as pushing:
            pushing.create_task(prompts.change(over := asyncio.Event()))
            await asking.phase(latencies := Latencies())
            over.set()
    record_counts(
        prompts=PROMPTS + 1,
        generations=prompts.generation,
        generations_seen=len(judge.generations),
        questions=judge.calls,
        mixed=len(judge.mixed),
        latencies=latencies,
    )
    assert not judge.mixed
    assert len(judge.generations) > 3
