"""The worker as a process, on a broker in a file: killed, stopped, reconfigured under load."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.command import run
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry, is_refusal, listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.errors import MessageTooLarge
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.config import config_topic

REQUESTS = "persistent://tg/flow/in"
VOLATILE = "non-persistent://tg/request/in"
OBJECTS_EACH = 3

FLOW = """
name: f
input: {{topic: "{topic}"}}
outputs:
  response: persistent://tg/flow/out
  answers: persistent://tg/flow/answers
  objects: persistent://tg/flow/objects
concurrency: 4
"""

ANSWER = "".join(f'{{"entity": "e{n}", "definition": "d{n}"}}\n' for n in range(OBJECTS_EACH))


SCRIPT = [{"prompt": "define", "answer": ANSWER}, {"prompt": "say", "answer": "said"}]

TEMPLATES = {
    "system": json.dumps("Be careful."),
    "template.define": entry("Define {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION}),
    "template.say": entry("Say {{ text }}"),
}


def lay(site: Site, *, delay: float = 0.02, topic: str = REQUESTS) -> None:
    """The model takes `delay` seconds from the next start on."""
    site.serves(FLOW.format(topic=topic), TEMPLATES)
    site.answers(*({**answer, "delay": delay} for answer in SCRIPT))


@pytest.fixture
def site(site: Site) -> Site:
    lay(site)
    return site


async def send(broker: Broker, ids: Iterable[str], prompt: str = "define", topic: str = REQUESTS) -> None:
    producer = await broker.producer(topic)
    for id in ids:
        await producer.send(PromptRequest.asking(prompt, {"text": id}).encode(), properties={"id": id})
    await producer.close()


async def test_prompts_come_from_the_config_topic_that_is_named(site: Site) -> None:
    topic = "persistent://elsewhere/config/prompt"
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        await config_topic.push(
            broker, "default", {"template.only-there": entry("Say {{ text }}")}, topic=topic
        )
        site.answers({"prompt": "only-there", "answer": "said"})
        await site.run(TRUSTGRAPH_PROMPT_CONFIG_TOPIC=topic)
        await send(broker, ["r"], "only-there")
        [response] = await responses.until(1)
    assert json.loads(response.data)["text"] == "said"


async def test_push_that_waits_names_the_workers_that_took_it(site: Site) -> None:
    prompts = site.folder / "prompts"
    prompts.mkdir()
    (prompts / "say.yaml").write_text("dialect: jinja\nprompt: Say {{ text }}\n")

    async def push(seconds: float, *more: str) -> subprocess.CompletedProcess[str]:
        arguments = ("push", prompts, "--broker", site.url, "--wait", seconds, *more)
        return await asyncio.to_thread(run, "config", *arguments)

    alone = await push(10)
    assert alone.returncode == 1
    assert alone.stdout.startswith("pushed 1 entry")
    assert "no running worker is known for workspace default" in alone.stderr

    async with (
        await connect(site.url) as broker,
        listening(broker, f"{config_topic.TOPIC}-report") as reports,
    ):
        worker = await site.run()
        name = (await reports.until(1))[0].key or ""
        shown = name.removeprefix("worker:")
        taken = await push(60)
        assert (taken.returncode, taken.stderr) == (0, "")
        assert taken.stdout.splitlines()[1:] == [f"taken by {shown}"]

        (prompts / "more.yaml").write_text("dialect: jinja\nprompt: More {{ text }}\n")
        apply = ("config", "apply", prompts, "--owner", "us", "--broker", site.url, "--wait", 60)
        applied = await asyncio.to_thread(run, *apply)
        assert (applied.returncode, applied.stderr) == (0, "")
        assert applied.stdout.splitlines() == [
            "published 1 entry to workspace default: template.more",
            f"taken by {shown}",
        ]

        worker.send_signal(signal.SIGSTOP)
        silent = await push(1)
        assert silent.returncode == 1
        assert re.search(
            rf"error: no answer from {shown} in 1 s; it last announced itself \d+ s ago; "
            "workers count as running for 3 minutes after that\n",
            silent.stderr,
        )
        typo = await push(10, "-w", "defualt")
        assert typo.returncode == 1
        unknown = f"no running worker is known for workspace defualt on {site.url}; workers run for: default"
        assert unknown in typo.stderr
        worker.send_signal(signal.SIGCONT)

        worker.send_signal(signal.SIGTERM)
        await worker.ended()
        assert "no running worker is known" in (await push(10)).stderr


async def test_workers_that_are_killed_lose_no_request_and_no_object(site: Site) -> None:
    ids = [f"r{n}" for n in range(500)]
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        workers = [await site.run(), await site.run()]
        sending = asyncio.create_task(send(broker, ids))
        for n in range(5):
            await responses.until(60 * (n + 1))
            workers[n % 2].kill()
            await workers[n % 2].wait()
            workers[n % 2] = await site.run()
        await sending
        assert not await responses.missing(ids)

        async with listening(broker, "persistent://tg/flow/objects") as objects:
            table = await broker.table("persistent://tg/flow/answers")
            answers = [Answer.decode(message.data) for message in table.entries.values()]
            await table.close()
            assert not await objects.missing([id for answer in answers for id in answer.objects])
    assert {answer.request for answer in answers} == set(ids)
    assert all(len(answer.objects) == OBJECTS_EACH for answer in answers)
    errors = [m for m in responses.messages if json.loads(m.data)["error"]]
    assert not errors


async def test_sigterm_under_load_loses_nothing_and_does_nothing_twice(site: Site) -> None:
    ids = [f"r{n}" for n in range(200)]
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        first = await site.run()
        await send(broker, ids)
        await responses.until(20)
        first.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(first.wait(), 60) == 0
        assert len(responses.messages) < len(ids)
        await site.run()
        assert not await responses.missing(ids)

        async with listening(broker, "persistent://tg/flow/objects") as objects:
            await objects.until(OBJECTS_EACH * len(ids))
    times = Counter(message.properties["id"] for message in [*responses.messages, *objects.messages])
    assert set(times.values()) == {1}


async def test_sigterm_answers_every_non_persistent_request_that_was_received(site: Site) -> None:
    lay(site, delay=0.3, topic=VOLATILE)
    ids = [f"r{n}" for n in range(60)]
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        worker = await site.run("--drain-timeout", "1")
        await send(broker, ids, topic=VOLATILE)
        await responses.until(4)
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 60) == 0
        assert not await responses.missing(ids)
    errors = Counter((json.loads(m.data)["error"] or {}).get("type") for m in responses.messages)
    assert errors.total() == len(ids)
    assert errors[None] >= 4
    assert errors["shutting-down"] == len(ids) - errors[None] > 0


async def test_a_second_signal_quits_at_once_and_leaves_the_rest_to_others(site: Site) -> None:
    lay(site, delay=600)
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        worker = await site.run()
        await send(broker, ["r"])
        await worker.shows("/metrics", 'trustgraph_prompt_requests_in_work{flow="f"} 1.0')
        worker.send_signal(signal.SIGTERM)
        await worker.shows("/readyz", "stopping")
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 30) == 1

        lay(site, delay=0)
        await site.run()
        assert not await responses.missing(["r"])


async def test_a_prompt_that_changes_under_load_changes_between_two_requests(site: Site) -> None:
    topic = config_topic.TOPIC
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        async with listening(broker, f"{topic}-report", wanted=is_refusal) as reports:
            await config_topic.push(broker, "default", {"template.say": entry("Say A")})
            await site.run()
            await send(broker, [f"a{n}" for n in range(50)], "say")
            await config_topic.push(broker, "default", {"template.say": entry("Say {% broken")})
            [report] = await reports.until(1)
            await config_topic.push(broker, "default", {"template.say": entry("Say B")})
            await reports.until(2)  # mended, so that what comes now is asked with B
            await send(broker, [f"b{n}" for n in range(50)], "say")
            assert not await responses.missing([f"{v}{n}" for v in "ab" for n in range(50)])
        table = await broker.table("persistent://tg/flow/answers")
        answers = [Answer.decode(message.data) for message in table.entries.values()]
        await table.close()
    versions: dict[str, set[str]] = {"a": set(), "b": set()}
    for answer in answers:
        versions[answer.request[0]].add(answer.version)
    assert json.loads(report.data)["key"] == "default/template.say"
    assert len(versions["b"]) == 1
    assert len(versions["a"] | versions["b"]) == 2
    assert not [m for m in responses.messages if json.loads(m.data)["error"]]


async def test_message_of_fifty_megabytes_is_refused_and_stops_nothing(site: Site) -> None:
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        await site.run()
        producer = await broker.producer(REQUESTS)
        with pytest.raises(MessageTooLarge):
            await producer.send(b" " * 50_000_000, properties={"id": "huge"})
        await send(broker, ["good"])
        assert not await responses.missing(["good"])


async def test_each_line_of_the_log_says_which_flow_request_and_prompt(site: Site) -> None:
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        worker = await site.run()
        await send(broker, ["one"])
        await send(broker, ["two"], "unknown")
        assert not await responses.missing(["one", "two"])
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
    records = [json.loads(line) for line in worker.log]
    [served] = [record for record in records if record["message"] == "success"]
    assert {
        "flow": "f",
        "request": "one",
        "prompt": "define",
        "objects": OBJECTS_EACH,
    }.items() <= served.items()
    [refused] = [record for record in records if record["level"] == "error"]
    assert (refused["request"], refused["prompt"]) == ("two", "unknown")
    assert "there is no prompt `unknown`" in refused["message"]
    assert "d0" not in "".join(worker.log), "the content of an answer is nobody's business"


async def test_on_a_terminal_the_log_is_for_people(site: Site) -> None:
    outside, inside = pty.openpty()
    process = await site.spawn(*site.arguments, stderr=inside)
    os.close(inside)
    shown = ""
    async with asyncio.timeout(60):
        while "starting" not in shown:
            shown += (await asyncio.to_thread(os.read, outside, 1000)).decode()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    os.close(outside)
    assert re.search(r"^\d\d:\d\d:\d\d info +starting +flows=", shown, re.M)


async def test_metrics_count_outcomes_objects_calls_and_dead_letters(site: Site) -> None:
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        worker = await site.run()
        await send(broker, ["one"])
        await send(broker, ["two"], "unknown")
        assert not await responses.missing(["one", "two"])
        for line in (
            'trustgraph_prompt_outcomes_total{flow="f",prompt="define",reason="success"} 1.0',
            'trustgraph_prompt_objects_total{flow="f",prompt="define"} 3.0',
            'trustgraph_prompt_calls_total{flow="f",model="scripted",prompt="define",why="first"} 1.0',
            'trustgraph_prompt_dead_letters_total{error="unknown-prompt",flow="f"} 1.0',
            'trustgraph_prompt_prompts{workspace="default"} 2.0',
            'trustgraph_prompt_call_seconds_count{model="scripted"} 1.0',
            "trustgraph_prompt_calls_waiting 0.0",
        ):
            await worker.shows("/metrics", line, seconds=10)


async def test_requests_over_the_limit_of_a_minute_wait(site: Site) -> None:
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        worker = await site.run("--requests-per-minute", "2", "--tokens-per-minute", "1000000")
        await send(broker, ["one", "two", "three"])
        assert not await responses.missing(["one", "two"])
        await worker.shows("/metrics", "trustgraph_prompt_calls_waiting 1.0")
