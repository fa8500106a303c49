"""A thousand prompts on the config topic of a real Pulsar, many of which change each second under load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.config_changes import PROMPTS, Asking, Judge, Latencies, Prompts
from tests.support.model_server import ModelServer
from tests.support.pulsar_server import PulsarServer
from tests.support.pulsar_traffic import FLOW
from tests.support.restless_model import TEMPLATES
from tests.support.worker_processes import Site
from tests.support.workers import listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.worker import config

pytestmark = pytest.mark.pulsar

ROUNDS = 3
"""How often a phase with changes follows on one without."""


@asynccontextmanager
async def laid(broker: Broker, server: PulsarServer, workspace: str) -> AsyncIterator[Prompts]:
    """The prompts on the config topic, which others find as it was."""
    prompts = Prompts(await broker.producer(config.TOPIC), workspace)
    try:
        await prompts.lay()
        yield prompts
    finally:
        await prompts.clear()
        server.put(f"{config.TOPIC.replace('://', '/')}/compaction")


@pytest.mark.timeout(300)
async def test_fifty_changes_a_second_to_a_thousand_prompts_mix_nothing_and_are_seen(
    pulsar: PulsarServer,
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    tell: Callable[..., None],
) -> None:
    judge = Judge()
    server.reply = judge.reply
    requests, responses = (f"persistent://{pulsar_space}/flow/{name}" for name in ("requests", "responses"))
    pulsar_site.serves(
        FLOW.format(space=pulsar_space, requests=requests, responses=responses, concurrency=16), TEMPLATES
    )
    pulsar_site.asks(server.url)
    quiet, changing = Latencies(), Latencies()
    async with (
        await connect(pulsar_site.url) as broker,
        listening(broker, responses) as heard,
        laid(broker, pulsar, pulsar_space) as prompts,
    ):
        worker = await pulsar_site.run()
        asking = Asking(await broker.producer(requests), heard, worker)
        await asking.phase(Latencies())
        for _ in range(ROUNDS):
            await asking.phase(quiet)
            async with asyncio.TaskGroup() as pushing:
                pushing.create_task(prompts.change(over := asyncio.Event()))
                await asking.phase(changing)
                over.set()
    tell(
        prompts=PROMPTS + 1,
        generations=prompts.generation,
        generations_seen=len(judge.generations),
        questions=judge.calls,
        mixed=len(judge.mixed),
        without_changes=quiet,
        with_changes=changing,
    )
    assert not judge.mixed
    assert len(judge.generations) > ROUNDS
