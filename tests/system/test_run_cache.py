"""A real worker process with a cache in a real Redis, which outlives the worker."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import environment, run
from tests.support.house import DEFINITION, entry
from tests.support.redis_server import BINARY, MISSING, RedisServer
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer

REQUESTS, ANSWERS = "persistent://tg/flow/in", "persistent://tg/flow/answers"
SECONDS = 100.0

FLOW = f"""
name: f
input: {{topic: "{REQUESTS}"}}
outputs: {{response: "persistent://tg/flow/out", answers: "{ANSWERS}"}}
"""


@pytest.fixture
def site(tmp_path: Path) -> list[str]:
    """The command of a worker, and in a folder all that it needs."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    answer = json.dumps({"entity": "chalk", "definition": "a stone"})
    (tmp_path / "script.jsonl").write_text(json.dumps({"answer": answer}) + "\n")
    settings = {"response-type": "jsonl", "object-schema": DEFINITION, "cache": {"seconds": 3600}}
    templates = {"template.define": entry("Define {{ text }}", **settings)}
    (tmp_path / "templates.json").write_text(json.dumps(templates))
    return [
        *("run", "--broker", f"embedded:{tmp_path / 'broker.db'}", "--flows", str(tmp_path / "flow.yaml")),
        *("--templates", str(tmp_path / "templates.json")),
        *("--provider", f"scripted:{tmp_path / 'script.jsonl'}"),
    ]


@pytest.fixture
def redis_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tp-") as folder:
        server = RedisServer(Path(folder))
        server.start()
        yield server.url
        server.stop()


async def answer_of_a_worker(site: list[str], id: str, **variables: str) -> Answer:
    """The answer of a worker that begins for this request, and ends after it."""
    async with await connect(site[2]) as broker:
        answers, producer = await broker.reader(ANSWERS, start="latest"), await broker.producer(REQUESTS)
        await producer.send(PromptRequest.asking("define", {"text": "chalk"}).encode(), properties={"id": id})
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trustgraph_prompt", *site), env=environment(**variables)
        )
        try:
            async with asyncio.timeout(SECONDS):
                message = await answers.receive()
                worker.send_signal(signal.SIGTERM)
                assert await worker.wait() == 0
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
            await answers.close()
            await producer.close()
    assert message is not None
    return Answer.decode(message.data)


@pytest.mark.redis
@pytest.mark.skipif(BINARY is None, reason=MISSING)
async def test_what_one_worker_has_paid_for_another_gives(site: list[str], redis_url: str) -> None:
    variables = {"TRUSTGRAPH_PROMPT_CACHE": redis_url}
    first = await answer_of_a_worker(site, "0", **variables)
    assert (first.cached, len(first.calls)) == (False, 1)

    for n in range(1, 10):  # a busy machine may be too slow for the patience of a worker with its cache
        other = await answer_of_a_worker(site, str(n), **variables)
        if other.cached:
            break

    assert (other.cached, len(other.calls)) == (True, 0)
    assert len(other.objects) == 1
    assert set(first.objects).isdisjoint(other.objects)


async def test_a_redis_that_is_away_stops_nobody(site: list[str]) -> None:
    answer = await answer_of_a_worker(site, "one", TRUSTGRAPH_PROMPT_CACHE="redis://127.0.0.1:1")

    assert (answer.reason, answer.cached) == ("success", False)


def test_what_is_no_cache_is_a_wrong_configuration(site: list[str]) -> None:
    ended = run(*site, "--cache", "memcached://localhost")

    assert ended.returncode == 2
    assert "--cache: no URL of a Redis" in ended.stderr
