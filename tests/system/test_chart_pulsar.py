"""What the chart makes, on a real Pulsar: the topics job, the worker, and what KEDA asks about it."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chart import Object, render
from tests.support.command import run
from tests.support.kubernetes_tools import HELM_4
from tests.support.pulsar_server import PulsarServer
from tests.support.worker_processes import Site
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest

pytestmark = pytest.mark.pulsar

MOUNTED = "/etc/trustgraph-prompt"
ANSWERS = (
    {"contains": "now", "answer": "Yes."},
    {"contains": "later", "error": {"category": "provider_unavailable", "message": "busy"}},
)


@pytest.fixture
def rendered(pulsar: PulsarServer, pulsar_space: str, tmp_path: Path) -> list[Object]:
    """A release whose worker answers questions of a topic; its files, as they are mounted in its Pods."""
    flow = {
        "input": {"topic": f"flow:{pulsar_space}:questions"},
        "outputs": {"response": f"flow:{pulsar_space}:answers"},
        "budget": {"attempts": 1},
    }
    access = {
        "url": pulsar.url,
        "adminUrl": pulsar.admin_url,
        "configTopic": f"persistent://{pulsar_space}/config/prompt",
    }
    worker = {
        "pulsar": access,
        "provider": {"recording": {"configMap": "recording"}},
        "scaling": {"keda": {"enabled": True}},
    }
    code, manifests, errors = render(HELM_4, {"flows": {"questions": flow}, "worker": worker})
    assert code == 0, errors
    found = list(yaml.safe_load_all(manifests))
    for folder in ("flows", "recording"):
        (tmp_path / folder).mkdir()
    for name, content in the(found, "ConfigMap", "demo-trustgraph-prompt-prompt-flows")["data"].items():
        (tmp_path / "flows" / name).write_text(content)
    (tmp_path / "recording" / "recording.jsonl").write_text("\n".join(map(json.dumps, ANSWERS)))
    return found


def the(found: list[Object], kind: str, name: str) -> Object:
    (only,) = (each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return only


def command(owner: Object, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """The arguments and variables of an object's Pod, with its files in a folder."""
    container = owner["spec"]["template"]["spec"]["containers"][0]
    variables = {each["name"]: each["value"].replace(MOUNTED, str(folder)) for each in container["env"]}
    return [argument.replace(MOUNTED, str(folder)) for argument in container["args"]], variables


def subscriptions(metadata: dict[str, str]) -> dict[str, Any]:
    """The subscriptions that KEDA is shown: its scaler composes this URL, and takes `msgBacklog` of one."""
    topic = metadata["topic"].replace("persistent://", "")
    url = f"{metadata['adminURL']}/admin/v2/persistent/{topic}/stats"
    with urllib.request.urlopen(url, timeout=30) as page:
        found: dict[str, Any] = json.load(page)["subscriptions"]
    return found


def backlogs(found: list[Object]) -> list[int]:
    """What each trigger counts, and that there is no other subscription."""
    spec = the(found, "ScaledObject", "demo-trustgraph-prompt-prompt")["spec"]
    counts = []
    for trigger in spec["triggers"]:
        there = subscriptions(trigger["metadata"])
        assert there.keys() == {trigger["metadata"]["subscription"]}
        counts.append(there[trigger["metadata"]["subscription"]]["msgBacklog"])
    return counts


async def until(found: list[Object], expected: list[int]) -> None:
    async with asyncio.timeout(120):
        while await asyncio.to_thread(backlogs, found) != expected:
            await asyncio.sleep(0.2)


async def ask(pulsar_url: str, space: str, *questions: str) -> None:
    async with await connect(pulsar_url) as broker:
        producer = await broker.producer(f"flow:{space}:questions")
        for question in questions:
            request = PromptRequest.asking("question", {"question": question}).encode()
            await producer.send(request, properties={"id": question})


async def test_keda_finds_the_backlog_of_a_worker_that_never_ran_and_of_one_that_runs(
    rendered: list[Object], pulsar_url: str, pulsar_space: str, site: Site
) -> None:
    prepare, variables = command(the(rendered, "Job", "demo-trustgraph-prompt-prompt-topics"), site.folder)
    done = run(*prepare, **variables)
    assert done.returncode == 0, done.stderr
    assert backlogs(rendered) == [0, 0]

    await ask(pulsar_url, pulsar_space, "now 1?", "now 2?", "now 3?")
    await until(rendered, [3, 0])

    serve, variables = command(the(rendered, "Deployment", "demo-trustgraph-prompt-prompt"), site.folder)
    await site.start(*serve, **variables)
    await until(rendered, [0, 0])


async def test_a_retry_that_is_not_yet_due_counts(
    rendered: list[Object], pulsar_url: str, pulsar_space: str, site: Site
) -> None:
    serve, variables = command(the(rendered, "Deployment", "demo-trustgraph-prompt-prompt"), site.folder)
    await site.start(*serve, **variables)

    await ask(pulsar_url, pulsar_space, "later?")

    await until(rendered, [0, 1])
