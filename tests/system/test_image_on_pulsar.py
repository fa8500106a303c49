"""Containers of the image on a real Pulsar: what stops them, and what the compose file says."""

from __future__ import annotations

import asyncio
import json
import re
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGTERM

import pytest
import yaml

from tests.support.command import ROOT
from tests.support.containers import ContainerSite, Image
from tests.support.guides import guide_page
from tests.support.model_server import DONE, ModelServer, Reply, said
from tests.support.pulsar_server import PulsarServer
from tests.support.pulsar_traffic import traffic
from tests.support.restless_model import RestlessModel

pytestmark = [pytest.mark.image, pytest.mark.pulsar, pytest.mark.xdist_group("image")]

GUIDE = guide_page("image.md")


@pytest.fixture
async def pulsar_container_site(
    image: Image, tmp_path: Path, pulsar_url: str, pulsar_space: str
) -> AsyncIterator[ContainerSite]:
    """A folder for containers of the image, with a config topic of the test's own."""
    async with AsyncExitStack() as stack:
        config_topic = f"persistent://{pulsar_space}/config/prompt"
        yield ContainerSite(image, tmp_path, stack, pulsar_url, config_topic)


async def test_container_stopped_under_load_loses_nothing(
    pulsar_container_site: ContainerSite,
    pulsar_space: str,
    server: ModelServer,
    record_counts: Callable[..., None],
) -> None:
    site, model = pulsar_container_site, RestlessModel(pause=0.05)
    async with traffic(site, pulsar_space, server, model, concurrency=8) as flow:
        worker = await site.run("--drain-timeout", 30)
        # Unbatched: of a batch, Pulsar redelivers also what is answered.
        sending = asyncio.create_task(flow.send(f"r{n}" for n in range(400)))
        await flow.heard.until(40)
        signalled = time.monotonic()
        await site.stop()
        await worker.ended()  # with 0, where SIGKILL leaves 137
        seconds = time.monotonic() - signalled
        answered = len(flow.heard.messages)
        await site.run()
        await sending
        unanswered = await flow.heard.missing(flow.sent)

    ids = [message.properties["id"] for message in flow.heard.messages]
    record_counts(
        requests=len(flow.sent),
        answered_before=answered,
        unanswered=len(unanswered),
        answered_twice=len(ids) - len(set(ids)),
        asked_twice=model.paid_twice,
        seconds_to_end=f"{seconds:.1f}",
    )
    assert answered < len(flow.sent)
    assert sorted(ids) == sorted(flow.sent)
    assert model.paid_twice == 0
    assert [json.loads(message.data)["error"] for message in flow.heard.messages] == [None] * len(ids)


async def test_a_command_that_handles_no_signals_ends_on_sigterm_as_it_does_outside(
    pulsar_container_site: ContainerSite,
) -> None:
    site = pulsar_container_site
    watching = ("config", "watch", "--broker", site.url, "--topic", site.config_topic)
    process = await site.spawn(*watching, stderr=PIPE)
    await site.handles(SIGTERM)
    await site.stop()
    assert await process.wait() == 128 + SIGTERM


async def test_the_compose_file_and_the_program_of_the_guide_work_together(
    pulsar_container_site: ContainerSite, pulsar: PulsarServer, pulsar_space: str, server: ModelServer
) -> None:
    site = pulsar_container_site
    here = {"pulsar://pulsar:6650": site.url, "http://model:11434/v1": server.url}
    site.serves((ROOT / "flows" / "requests.yaml").read_text().replace("//tg/", f"//{pulsar_space}/"), {})
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    program = program.replace("//tg/", f"//{pulsar_space}/")
    answer = '{"quote": "Chalk is a soft white rock", "entity": "chalk", "definition": "a soft rock"}'
    server.reply = lambda _: Reply([said(answer), said(finish_reason="stop"), DONE])

    def command(service: str) -> list[object]:
        words = (here.get(word, word) for word in services[service]["command"])
        return [*words, "--flows", site.folder / "flow.yaml"]

    variables = {name: here.get(text, text) for name, text in services["worker"]["environment"].items()}
    variables["TRUSTGRAPH_PROMPT_ADMIN_URL"] = pulsar.admin_url
    topics = await site.spawn(*command("topics"), stderr=PIPE, **variables)
    _, log = await topics.communicate()
    assert topics.returncode == 0, log.decode()
    await site.start(*command("worker"), **variables)
    asking = await site.spawn(
        "-c", f"import sys; sys.stdout = sys.stderr\n{program}", stderr=PIPE, entrypoint="python", **variables
    )
    _, response = await asking.communicate()
    assert json.loads(json.loads(response)["object"]) == [json.loads(answer)]
