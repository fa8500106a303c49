"""A real worker process with a cache in a real Redis, which outlives the worker."""

from __future__ import annotations

import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.redis_server import RedisServer
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry, listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer

REQUESTS, ANSWERS = "persistent://tg/flow/in", "persistent://tg/flow/answers"

FLOW = f"""
name: f
input: {{topic: "{REQUESTS}"}}
outputs: {{response: "persistent://tg/flow/out", answers: "{ANSWERS}"}}
"""

ASKED, TOLD = "persistent://tg/flow/asked", "persistent://tg/flow/told"

OVER_TOPICS = f"""{FLOW}
provider: {{request: "{ASKED}", response: "{TOLD}", model: "small"}}
"""

COMPLETING = f"""
name: completing
input: {{topic: "{ASKED}", kind: text-completion}}
outputs: {{response: "{TOLD}"}}
"""


@pytest.fixture
def site(site: Site) -> Site:
    return flow_set(site, FLOW)


def flow_set(site: Site, flow: str) -> Site:
    settings = {"response-type": "jsonl", "object-schema": DEFINITION, "cache": {"seconds": 3600}}
    answer = json.dumps({"entity": "chalk", "definition": "a stone"})
    site.serves(flow, {"template.define": entry("Define {{ text }}", **settings)})
    site.answers({"answer": answer})
    return site


async def answer_of_a_worker(site: Site, id: str, *options: object, **variables: str) -> Answer:
    """The answer of a worker that begins for this request, and ends after it."""
    async with await connect(site.url) as broker, listening(broker, ANSWERS, start="latest") as answers:
        producer = await broker.producer(REQUESTS)
        await producer.send(PromptRequest.asking("define", {"text": "chalk"}).encode(), properties={"id": id})
        worker = await site.run(*options, **variables)
        [message] = await answers.until(1)
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
        await producer.close()
    return Answer.decode(message.data)


@pytest.mark.redis
async def test_answer_that_one_worker_paid_for_is_given_by_another(
    site: Site, redis_server: RedisServer
) -> None:
    variables = {"TRUSTGRAPH_PROMPT_CACHE": redis_server.url}
    first = await answer_of_a_worker(site, "0", **variables)
    assert (first.cached, len(first.calls)) == (False, 1)

    for n in range(1, 10):  # a busy machine may be too slow for the patience of a worker with its cache
        other = await answer_of_a_worker(site, str(n), **variables)
        if other.cached:
            break

    assert (other.cached, len(other.calls)) == (True, 0)
    assert len(other.objects) == 1
    assert set(first.objects).isdisjoint(other.objects)


@pytest.mark.redis
async def test_answers_over_topics_of_another_broker_are_cached_apart(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    async with AsyncExitStack() as stack:
        for name in ("staging", "production"):
            folder = tmp_path / name
            folder.mkdir()
            site = flow_set(Site(folder, stack), OVER_TOPICS)
            (folder / "completing.yaml").write_text(COMPLETING)
            options = {"TRUSTGRAPH_PROMPT_CACHE": redis_server.url}
            answer = await answer_of_a_worker(site, name, "--flows", folder, **options)

            assert (answer.reason, answer.cached) == ("success", False)


async def test_unreachable_redis_stops_no_worker(site: Site) -> None:
    answer = await answer_of_a_worker(site, "one", TRUSTGRAPH_PROMPT_CACHE="redis://127.0.0.1:1")

    assert (answer.reason, answer.cached) == ("success", False)


def test_invalid_cache_url_is_a_config_error(site: Site) -> None:
    ended = run(*site.arguments, "--cache", "memcached://localhost")

    assert ended.returncode == 2
    assert "--cache: the URL is not valid: " in ended.stderr
