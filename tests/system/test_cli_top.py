"""`top` looks at real workers, once and in a real terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.busy_worker import RECORDING, TEMPLATES, text_of
from tests.support.command import PROGRAM, run
from tests.support.terminal import terminal
from tests.support.worker_processes import Process, Site
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer

REQUESTS = 5_000
ANSWERS = "persistent://tg/flow/f-answers"
FLOW = f"""
name: f
input: {{topic: "persistent://tg/flow/f"}}
outputs: {{answers: "{ANSWERS}", response: "non-persistent://tg/flow/f-responses"}}
concurrency: 100
budget: {{attempts: 1}}
price: {{prompt: 0.2, completion: 0.6}}
"""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A flow `f`, whose model answers some texts badly."""
    async with AsyncExitStack() as stack:
        site = Site(tmp_path, stack)
        site.serves(FLOW, TEMPLATES)
        site.answers(*RECORDING)
        yield site


async def three_workers(site: Site) -> tuple[list[Process], list[str]]:
    """Three workers, once they are ready, and their URLs."""
    workers = await asyncio.gather(*(site.run() for _ in range(3)))
    addresses = [await worker.address() for worker in workers]
    return workers, [f"http://{host}:{port}" for host, port in addresses]


async def ask(site: Site, requests: int) -> list[Answer]:
    """Ask so many times, and return the records of the answers."""
    async with await connect(site.url) as broker:
        answers = await site.hear(broker, ANSWERS)
        producer = await broker.producer("persistent://tg/flow/f", batch=True)

        async def send(number: int) -> None:
            prompt = "define" if number % 3 else "explain"
            data = PromptRequest.asking(prompt, {"text": text_of(number)}).encode()
            await producer.send(data, properties={"id": str(number)})

        await asyncio.gather(*map(send, range(requests)))
        return [Answer.decode(message.data) for message in await answers.until(requests, 150)]


async def settled(urls: list[str], requests: int) -> dict[str, Any]:
    """What `top` tells as soon as no request is in work."""
    async with asyncio.timeout(60):
        while True:
            result = await asyncio.to_thread(run, "top", *urls, "--once", "--json")
            assert result.returncode == 0, result.stderr
            rows: dict[str, Any] = json.loads(result.stdout)
            [flow] = rows["flows"]
            if flow["requests"] >= requests and not flow["in_work"]:
                return rows


def counted(answers: list[Answer]) -> dict[str, Any]:
    """What a row says of these answers."""
    usage = [answer.usage for answer in answers]
    return {
        "requests": len(answers),
        "outcomes": Counter(answer.reason for answer in answers),
        "objects": sum(len(answer.objects) for answer in answers),
        "tokens": {
            "in": sum(each["prompt_tokens"] or 0 for each in usage),
            "out": sum(each["completion_tokens"] or 0 for each in usage),
        },
        "cost": pytest.approx(sum(answer.cost or 0 for answer in answers), abs=1e-5),
    }


async def test_every_number_agrees_with_the_answers_topic(site: Site) -> None:
    _, urls = await three_workers(site)
    answers = await ask(site, REQUESTS)
    rows = await settled(urls, REQUESTS)
    letters = await asyncio.to_thread(
        run, "dead", "list", "--json", "--flows", site.folder / "flow.yaml", "--broker", site.url
    )
    dead = Counter(json.loads(line)["error"] for line in letters.stdout.splitlines())

    [flow] = rows["flows"]
    assert {name: flow[name] for name in counted(answers)} == counted(answers)
    assert flow["rejected"] == sum(answer.rejected_count for answer in answers)
    assert flow["workers"] == 3
    assert flow["dead_letters"] == rows["dead_letters"] == dead
    assert set(dead) == {"unusable-answer"}
    for prompt in rows["prompts"]:
        of_prompt = [answer for answer in answers if answer.prompt == prompt["id"]]
        issues = Counter(
            rejected["issues"][0]["reason"] for answer in of_prompt for rejected in answer.rejected
        )
        assert {name: prompt[name] for name in counted(of_prompt)} == counted(of_prompt)
        assert prompt["version"] == of_prompt[0].version
        assert prompt["rejected"] == issues
        assert prompt["truncated"] == sum(bool(answer.truncated) for answer in of_prompt)
    assert [prompt["id"] for prompt in rows["prompts"]] == ["define", "explain"]
    workers = rows["workers"]
    assert len({worker["worker"]["instance"] for worker in workers}) == 3
    assert all(worker["ready"] and worker["requests"] for worker in workers)
    for name in ("requests", "objects", "rejected"):
        assert sum(worker[name] for worker in workers) == flow[name]
    assert (rows["missing"], rows["omitted"]) == ({}, {"flows": 0, "prompts": 0})


async def test_a_killed_worker_is_seen_in_the_terminal(site: Site) -> None:
    workers, urls = await three_workers(site)
    await ask(site, 40)
    async with terminal(site.folder) as shell:
        await shell.type("echo what was there before")
        await shell.type(f"{PROGRAM} top {' '.join(urls)} --interval 0.2")
        screen = await shell.shows("3 of 3 workers ready", "by name", "define", "explain", "unusable-answer")
        assert "what was there before" not in screen
        assert all(url.removeprefix("http://") in screen for url in urls)

        await shell.press("f")
        await shell.shows("by failed")
        workers[1].kill()
        gone = urls[1].removeprefix("http://")
        screen = await shell.shows("2 of 2 workers ready", f"{gone}: Connection refused")
        assert screen.count(" ready ") >= 2

        await shell.press("q")
        await shell.shows("what was there before")


@pytest.mark.parametrize("end", ["q", "C-c", "TERM"])
async def test_terminal_is_restored_when_top_ends(tmp_path: Path, end: str) -> None:
    async with terminal(tmp_path) as shell:
        await shell.type("stty -g > before; echo what was there before")
        top = f"sh -c 'echo $$ > pid; exec {PROGRAM} top http://127.0.0.1:1'"
        await shell.type(f"{top}; echo code $?; stty -g > after")
        screen = await shell.shows("q quit", "127.0.0.1:1: Connection refused")
        assert "what was there before" not in screen
        if end == "TERM":
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        else:
            await shell.press(end)
        await shell.shows("code 0", "what was there before")
        await shell.type("echo written")
        await shell.shows("\nwritten")
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()


async def test_top_without_a_terminal_or_a_worker_is_refused(site: Site) -> None:
    (site.folder / "nothing").mkdir()
    nobody = run("top", "http://127.0.0.1:1", "--once")
    assert (nobody.returncode, "127.0.0.1:1: Connection refused" in nobody.stdout) == (1, True)
    assert run("top", "http://127.0.0.1:1").stderr == (
        "error: top: standard output is no terminal: give --once\n"
    )
    assert run("top", "http://127.0.0.1:1", "--json").returncode == 2
    for url in ("127.0.0.1:8000", "http://", "http://ada:secret@host:1", "http://host:1?x", "http://[:1"):
        refused = run("top", url, "--once")
        assert refused.returncode == 2
        assert "not the URL of a worker" in refused.stderr
        assert "secret" not in refused.stderr
        assert "found None" not in refused.stderr
