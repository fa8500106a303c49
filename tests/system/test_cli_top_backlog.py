"""`top --admin-url` tells how many messages wait for each flow, on a real Pulsar."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.command import run
from tests.support.pulsar_server import PulsarServer
from tests.support.statuses import flow, serving, status
from trustgraph_prompt.broker import connect


@pytest.fixture
def broker_kind() -> str:
    return "pulsar"


async def top(*arguments: object) -> dict[str, Any]:
    """What `top --once --json` prints."""
    result = await asyncio.to_thread(run, "top", *arguments, "--once", "--json")
    assert result.returncode == 0, result.stderr
    rows: dict[str, Any] = json.loads(result.stdout)
    return rows


@pytest.mark.pulsar
async def test_the_backlog_of_each_flow_is_what_waits_in_its_subscription(
    pulsar: PulsarServer, namespace: str
) -> None:
    topics = {name: f"persistent://{namespace}/{name}" for name in ("plain", "parted", "nowhere")}
    pulsar.put(f"{topics['parted'].replace('://', '/')}/partitions", 3)
    flows = [flow(name, topic=topic, subscription="s") for name, topic in topics.items()]
    flows.append(flow("hostile", topic="persistent://../x?y", subscription="s"))
    flows.append(flow("volatile", topic=f"non-persistent://{namespace}/volatile", subscription="s"))
    async with await connect(pulsar.url) as broker:
        for name, count in (("plain", 3), ("parted", 5)):
            consumer = await broker.consumer(topics[name], "s")
            producer = await broker.producer(topics[name])
            for number in range(count):
                await producer.send(b"x", key=str(number))
            await consumer.close()
    async with serving(status(flows=flows)) as url:
        rows = await top(url, "--admin-url", pulsar.admin_url)
        elsewhere = await top(url, "--admin-url", "http://127.0.0.1:1")

    backlogs = {row["name"]: row["backlog"] for row in rows["flows"]}
    assert backlogs == {"plain": 3, "parted": 5, "nowhere": None, "volatile": None, "hostile": None}
    assert (rows["missing"], rows["no_backlogs"]) == ({}, None)
    assert {row["backlog"] for row in elsewhere["flows"]} == {None}
    assert elsewhere["missing"] == {}
    assert "Connection refused" in elsewhere["no_backlogs"]
