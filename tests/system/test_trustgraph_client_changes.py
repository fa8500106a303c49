"""TrustGraph's own clients ask our worker while the config service changes prompts, flows and workspaces."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from tests.support.trustgraph_client import TrustGraphClient
from tests.support.trustgraph_services import Completion
from tests.support.trustgraph_site import TrustGraphSite, answered, unanswered

pytestmark = [pytest.mark.pulsar, pytest.mark.upstream]


def echo(request: dict[str, Any]) -> str:
    return str(request["prompt"])


def text(value: str) -> dict[str, str]:
    return {"response_type": "text", "text": value}


class Asking:
    """Asks a prompt again and again, and counts what came of it."""

    def __init__(self, client: TrustGraphClient, prompt: str) -> None:
        self.came: Counter[str] = Counter()
        self._task = asyncio.create_task(self._ask(client, prompt))
        self._enough = False

    async def hears(self, text: str) -> None:
        """Wait until that has come."""
        async with asyncio.timeout(60):
            while text not in self.came:
                await asyncio.sleep(0.02)

    async def end(self) -> Counter[str]:
        self._enough = True
        await self._task
        return self.came

    async def _ask(self, client: TrustGraphClient, prompt: str) -> None:
        while not self._enough:
            came = await client.prompt(prompt)
            self.came[
                came["result"]["text"] if "result" in came else f"{came['error']}: {came['message']}"
            ] += 1


async def test_a_prompt_changes_while_requests_run(trustgraph: TrustGraphSite) -> None:
    await trustgraph.prompts(say="one", judge={"prompt": "judge", "response-type": "json"})
    await trustgraph.start_flow()
    go_on = asyncio.Event()
    value = Completion('{"verdict": "good"}', once=go_on)
    model = await trustgraph.model(lambda request: value if request["prompt"] == "judge" else echo(request))
    await trustgraph.work()
    client = await trustgraph.client()
    asking = Asking(client, "say")

    await asking.hears("one")
    judging = asyncio.create_task(client.prompt("judge"))
    while not model.asked["judge"]:
        await asyncio.sleep(0.02)
    # What is under way ends as it began, though its prompt is gone and the others are new.
    await trustgraph.config.delete("prompt", "default", "template.judge")
    for version in ("two", "three"):
        await trustgraph.prompts(say=version)
        await asking.hears(version)
    go_on.set()
    judged = await judging
    came = await asking.end()

    print(f"requests answered while the prompt changed twice: {came}")  # noqa: T201
    assert judged["result"]["object"] == {"verdict": "good"}
    assert came.keys() == {"one", "two", "three"}
    assert "`judge`" in (await client.prompt("judge"))["message"]


async def test_a_bad_template_stops_no_other_and_its_last_good_version_serves(
    trustgraph: TrustGraphSite,
) -> None:
    await trustgraph.prompts(say="one", tell="told", broken="{% if %}")
    await trustgraph.start_flow()
    await trustgraph.model(echo)
    worker = await trustgraph.work()
    client = await trustgraph.client()

    assert (await client.prompt("tell"))["result"]["text"] == "told"
    never_good = await client.prompt("broken")
    await trustgraph.prompts(say="{% for %}", tell="told again")
    await answered(client, "tell", text("told again"))
    kept = await client.prompt("say")
    await worker.shows("/readyz", "template.say")
    await trustgraph.prompts(say="three", broken="mended")
    await answered(client, "broken", text("mended"))

    assert never_good["error"] == "RuntimeError"
    assert "`broken`" in never_good["message"]
    assert kept["result"]["text"] == "one"
    assert (await client.prompt("say"))["result"]["text"] == "three"


async def test_flows_start_change_and_stop_while_another_is_served(trustgraph: TrustGraphSite) -> None:
    await trustgraph.prompts(say="yes")
    await trustgraph.start_flow()
    for flow in ("default", "second", "moved"):
        await trustgraph.model(echo, flow)
    await trustgraph.work()
    asking = Asking(await trustgraph.client(), "say")
    second, moved = await trustgraph.client("second"), await trustgraph.client("moved")

    await trustgraph.start_flow("second")
    await answered(second, "say", text("yes"))
    # The same flow by its name, on other topics: upstream's service does not notice.
    await trustgraph.config.start_flow("second", trustgraph.topics("moved"))
    await answered(moved, "say", text("yes"))
    await unanswered(second, "say")
    await trustgraph.config.stop_flow("second")
    await unanswered(moved, "say")
    came = await asking.end()

    print(f"requests of the other flow, answered meanwhile: {came}")  # noqa: T201
    assert came.keys() == {"yes"}


async def test_a_workspace_is_created_and_deleted(trustgraph: TrustGraphSite) -> None:
    await trustgraph.prompts(say="yes")
    await trustgraph.start_flow()
    await trustgraph.model(echo)
    await trustgraph.model(echo, workspace="garden")
    await trustgraph.work()
    client, gardener = await trustgraph.client(), await trustgraph.client(workspace="garden")

    await trustgraph.config.create_workspace("garden")
    await trustgraph.prompts("garden", say="bees")
    await trustgraph.start_flow(workspace="garden")
    await answered(gardener, "say", text("bees"))
    assert (await client.prompt("say"))["result"]["text"] == "yes"

    await trustgraph.config.delete_workspace("garden")
    await unanswered(gardener, "say")
    assert (await client.prompt("say"))["result"]["text"] == "yes"


async def test_changes_of_a_restarted_config_service_with_a_lower_version_are_served(
    trustgraph: TrustGraphSite,
) -> None:
    await trustgraph.prompts(say="one")
    await trustgraph.start_flow()
    await trustgraph.model(echo)
    await trustgraph.work()
    client = await trustgraph.client()
    await answered(client, "say", text("one"))

    config = trustgraph.config
    config.silent = True
    await trustgraph.prompts(say="two")
    assert (await client.prompt("say"))["result"]["text"] == "one"
    config.silent, config.version = False, 0
    config.values["default", "prompt", "template.say"] = json.dumps({"prompt": "three"})
    await config.poke({})  # it starts anew

    await answered(client, "say", text("three"))
