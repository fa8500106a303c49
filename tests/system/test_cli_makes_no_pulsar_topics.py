"""Commands that look at a real Pulsar: they find what is there, and make nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run, started
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.topics import dead_letter_topic

pytestmark = pytest.mark.pulsar

FLOW = """
name: {name}
input: {{topic: "persistent://{space}/flow/{name}-in"}}
outputs: {{response: "persistent://{space}/flow/{name}-out", answers: "persistent://{space}/flow/answers"}}
"""

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def variables(pulsar: PulsarServer, pulsar_space: str) -> dict[str, str]:
    return {
        "TRUSTGRAPH_PROMPT_BROKER": pulsar.url,
        "TRUSTGRAPH_PROMPT_ADMIN_URL": pulsar.admin_url,
        "TRUSTGRAPH_PROMPT_CONFIG_TOPIC": f"persistent://{pulsar_space}/config/prompt",
    }


@pytest.fixture
def command(variables: dict[str, str], pulsar_space: str, tmp_path: Path) -> Command:
    """The command beside the files of two flows, `f` and `g`."""
    for name in "fg":
        (tmp_path / f"{name}.yaml").write_text(FLOW.format(name=name, space=pulsar_space))
    return lambda *arguments: run(*arguments, folder=tmp_path, **variables)


def topics(pulsar: PulsarServer, space: str) -> list[str]:
    """The persistent topics of the space."""
    return [name for part in ("flow", "config") for name in asked(pulsar, f"persistent/{space}/{part}")]


def asked(pulsar: PulsarServer, path: str) -> list[str]:
    """What the admin API says."""
    with urllib.request.urlopen(f"{pulsar.admin_url}/admin/v2/{path}", timeout=30) as response:
        return [str(name) for name in json.load(response)]


async def bury(pulsar: PulsarServer, topic: str, subscription: str) -> None:
    async with await connect(pulsar.url) as broker:
        consumer = await broker.consumer(topic, subscription)
        await (await broker.producer(topic)).send(b"{}", properties={"id": "a"})
        message = await consumer.receive()
        assert message is not None
        await consumer.bury(message, "because", {"error": "llm-error"})


def test_reading_commands_make_no_topics(command: Command, pulsar: PulsarServer, pulsar_space: str) -> None:
    for arguments in (["list"], ["list", "--all"], ["show", "a"]):
        result = command("dead", *arguments, "--flows", ".")
        assert result.returncode == (1 if arguments == ["show", "a"] else 0), result.stderr
    listed = command("answers", "list", "--flows", ".")
    assert (listed.returncode, listed.stderr.count("no answers yet")) == (0, 2)
    assert command("config", "list").returncode == 0
    assert command("config", "get", "system").returncode == 1
    assert command("topics", "check", "--flows", ".").returncode == 1
    assert topics(pulsar, pulsar_space) == []


async def test_dead_letters_of_flows_that_nobody_named_are_found(
    command: Command, pulsar: PulsarServer, pulsar_space: str
) -> None:
    await bury(pulsar, f"persistent://{pulsar_space}/flow/f-in", "prompt--default--f--request")
    await bury(pulsar, f"persistent://{pulsar_space}/flow/elsewhere", "somebody")
    foreign = dead_letter_topic(f"persistent://{pulsar_space}/flow/foreign", "s")
    pulsar.put(foreign.replace("://", "/"))  # of a program that keeps its dead letters otherwise

    async def dead(*arguments: str) -> CompletedProcess[str]:
        return await asyncio.to_thread(command, "dead", *arguments, "--flows", "g.yaml")

    searched = f"of the flow g in g.yaml on {pulsar.url} (subscription prompt--default--g--request)"
    assert (await dead("list")).stderr == f"no dead letters {searched}\n"
    everywhere = await dead("list", "--all", "--json")
    letters = [json.loads(line) for line in everywhere.stdout.splitlines()]
    assert {(letter["topic"].rpartition("/")[2], letter["subscription"]) for letter in letters} == {
        ("f-in", "prompt--default--f--request"),
        ("elsewhere", "somebody"),
    }
    assert everywhere.stderr == (
        "2 dead letters of the flow g in g.yaml, "
        f"and of all other dead-letter topics of {pulsar_space}/flow on {pulsar.url}\n"
    )
    path = f"{foreign.replace('://', '/')}/subscriptions"
    assert await asyncio.to_thread(asked, pulsar, path) == []


def test_a_watch_waits_for_a_topic_that_nobody_has_made(
    command: Command, variables: dict[str, str], pulsar: PulsarServer, pulsar_space: str, tmp_path: Path
) -> None:
    (tmp_path / "say.prompt").write_text('prompt say:\n    text: "Say it."\n')
    with started("config", "watch", **variables, PYTHONUNBUFFERED="1") as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert watch.stderr.readline() == (
            f"watching persistent://{pulsar_space}/config/prompt on {pulsar.url}\n"
        )
        waiting = {watch.stderr.readline().partition(":")[0] for _ in range(2)}
        assert waiting == {"waiting"}
        assert topics(pulsar, pulsar_space) == []
        assert command("config", "push", "say.prompt").returncode == 0
        assert watch.stdout.readline() == "changed default/template.say\n"
        assert f"persistent://{pulsar_space}/config/prompt-report" not in topics(pulsar, pulsar_space)
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60) == 0


def test_dead_list_without_the_admin_api_is_an_error_and_makes_no_topic(
    command: Command, pulsar: PulsarServer, pulsar_space: str
) -> None:
    result = command("dead", "list", "--flows", ".", "--admin-url", "http://127.0.0.1:1")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: http://127.0.0.1:1: Connection refused")
    assert topics(pulsar, pulsar_space) == []
