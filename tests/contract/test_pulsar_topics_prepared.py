"""What a real Pulsar does with the topics that are prepared on it."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.support.pulsar_server import PulsarServer
from tests.support.workers import House, entry
from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar.admin.plan import RequiredTopics, compare, steps
from trustgraph_prompt.broker.pulsar.admin.prepare import carry_out, look
from trustgraph_prompt.worker import Flow
from trustgraph_prompt.worker.config import config_topic
from trustgraph_prompt.worker.required_topics import required_topics

pytestmark = pytest.mark.pulsar

SUBSCRIPTION: Final = "prompt--default--f--request"


@pytest.fixture
def tenant() -> str:
    """One that does not exist."""
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture
async def admin(pulsar: PulsarServer) -> AsyncIterator[PulsarAdmin]:
    async with PulsarAdmin(pulsar.admin_url) as admin:
        yield admin


@pytest.fixture
async def house(pulsar_url: str, tenant: str) -> AsyncIterator[House]:
    """Topics of a flow under a tenant that does not exist."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(await connect(pulsar_url))
        yield House(broker, f"persistent://{tenant}/flow", f"non-persistent://{tenant}/flow", stack)


def needed(house: House, tenant: str, flow: Flow | None = None) -> RequiredTopics:
    return required_topics([flow or house.flow()], f"persistent://{tenant}/config/prompt")


async def create(admin: PulsarAdmin, wanted: RequiredTopics) -> list[bool]:
    """Do all that is missing; tells of each step whether it did something."""
    return [await carry_out(admin, step) for step in steps(compare(wanted, await look(admin, wanted)))]


async def get(pulsar: PulsarServer, path: str) -> Any:
    """What the admin API says, as anybody asks it."""

    def fetch() -> Any:
        with urllib.request.urlopen(f"{pulsar.admin_url}/admin/v2/{path}", timeout=30) as response:
            return json.loads(response.read() or b"null")

    return await asyncio.to_thread(fetch)


async def post(pulsar: PulsarServer, path: str, body: object) -> None:
    await request(pulsar, path, "POST", json.dumps(body).encode())


async def request(pulsar: PulsarServer, path: str, method: str, body: bytes | None = None) -> None:
    asked = urllib.request.Request(
        f"{pulsar.admin_url}/admin/v2/{path}", body, {"Content-Type": "application/json"}, method=method
    )
    await asyncio.to_thread(lambda: urllib.request.urlopen(asked, timeout=30).close())


async def becomes(pulsar: PulsarServer, path: str, holds: Callable[[Any], bool]) -> None:
    """Wait until the admin API says so: its statistics and policies come a little later."""
    said = None
    try:
        async with asyncio.timeout(60):
            while not holds(said := await get(pulsar, path)):
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"{path} stays {said}")


async def test_everything_is_made_once_under_a_tenant_that_did_not_exist(
    admin: PulsarAdmin, house: House, tenant: str
) -> None:
    wanted = needed(house, tenant)
    assert all(await create(admin, wanted))
    assert {finding.state for finding in compare(wanted, await look(admin, wanted))} == {"ok"}
    assert await create(admin, wanted) == []


async def test_check_changes_nothing(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    wanted = needed(house, tenant)
    compare(wanted, await look(admin, wanted))
    assert tenant not in await get(pulsar, "tenants")
    pulsar.create_space(tenant)
    compare(wanted, await look(admin, wanted))
    assert await get(pulsar, f"persistent/{tenant}/flow") == []


async def test_connecting_makes_no_topic_where_new_topics_are_partitioned(pulsar: PulsarServer) -> None:
    path = "namespaces/public/default/autoTopicCreation"
    partitioned = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
    await post(pulsar, path, partitioned)
    try:
        await becomes(pulsar, path, lambda said: said is not None)
        async with await connect(pulsar.url):
            pass
        assert await get(pulsar, "persistent/public/default/partitioned") == []
    finally:
        await request(pulsar, path, "DELETE")


async def test_four_that_create_at_once_complete_each_others_work(
    admin: PulsarAdmin, house: House, tenant: str
) -> None:
    wanted = needed(house, tenant)
    done = await asyncio.gather(*(create(admin, wanted) for _ in range(4)))
    assert any(not all(steps) for steps in done)  # each found something that another had made
    assert {finding.state for finding in compare(wanted, await look(admin, wanted))} == {"ok"}


async def test_requests_wait_for_the_first_worker_where_a_scaler_sees_them(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    flow = house.flow()
    await create(admin, needed(house, tenant, flow))
    ids = [await house.send(flow, "say", text=str(number)) for number in range(3)]
    stats = f"persistent/{tenant}/flow/requests/stats"
    await becomes(pulsar, stats, lambda said: said["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 3)

    heard = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: call.messages[-1].text)
    answers = [(await heard.under(id))[0]["text"] for id in ids]
    assert answers == ["Say 0", "Say 1", "Say 2"]
    await becomes(pulsar, stats, lambda said: said["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0)


async def test_running_worker_leaves_the_prepared_topics_as_they_are(
    admin: PulsarAdmin, house: House, tenant: str
) -> None:
    flow = house.flow()
    wanted = required_topics([flow], house.topic("config"))
    await create(admin, wanted)
    changes = {"template.say": entry("Say {{ text }}")}
    await config_topic.push(house.broker, "default", changes, topic=house.topic("config"))
    heard = await house.hear(house.topic("responses"))
    working = await house.work(flow, lambda call: call.messages[-1].text, config=True)
    [answer] = await heard.under(await house.send(flow, "say", text="A"))
    await working.stop()
    assert answer["text"] == "Say A"
    assert {finding.state for finding in compare(wanted, await look(admin, wanted))} == {"ok"}


async def test_tables_are_compacted_and_nothing_is_deleted_for_want_of_users(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    await create(admin, needed(house, tenant))
    for name in (
        "config/prompt",
        "config/prompt-report",
        "config/prompt-owners",
        "config/prompt-canary",
        "flow/answers",
    ):
        path = f"persistent/{tenant}/{name}"
        assert await get(pulsar, f"{path}/compactionThreshold?applied=true") == 1_048_576
        # Pulsar's own cursor, which holds what is not compacted yet
        await becomes(pulsar, f"{path}/subscriptions", lambda said: said == ["__compaction"])
    for name in ("flow/answers", "flow/objects", "flow/responses"):
        policies = await get(pulsar, f"persistent/{tenant}/{name}/inactiveTopicPolicies")
        assert policies["deleteWhileInactive"] is False
    namespace = await get(pulsar, f"namespaces/{tenant}/config")
    assert namespace["retention_policies"] == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert "retention_policies" not in await get(pulsar, f"namespaces/{tenant}/flow")


async def test_policies_set_by_others_stay(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    pulsar.create_space(tenant)
    retention = {"retentionTimeInMinutes": 10_080, "retentionSizeInMB": 2_048}
    for namespace in ("flow", "config"):
        await post(pulsar, f"namespaces/{tenant}/{namespace}/retention", retention)
    pulsar.put(f"namespaces/{tenant}/config/compactionThreshold", 5_000_000)
    policies = [await get(pulsar, f"namespaces/{tenant}/{name}") for name in ("flow", "config")]
    pulsar.put(f"persistent/{tenant}/flow/answers")
    own = {"retentionTimeInMinutes": 20_160, "retentionSizeInMB": -1}
    await post(pulsar, f"persistent/{tenant}/flow/answers/retention", own)
    await becomes(pulsar, f"persistent/{tenant}/flow/answers/retention", lambda said: said == own)

    await create(admin, needed(house, tenant))

    assert [await get(pulsar, f"namespaces/{tenant}/{name}") for name in ("flow", "config")] == policies
    assert await get(pulsar, f"persistent/{tenant}/flow/answers/retention") == own
    assert await get(pulsar, f"persistent/{tenant}/config/prompt/compactionThreshold") is None
    assert (await get(pulsar, f"persistent/{tenant}/flow/answers/compactionThreshold")) == 1_048_576


async def test_objects_that_are_retained_longer_than_their_records_are_found(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    wanted = needed(house, tenant, house.flow(keep_answers=86_400.0))
    await create(admin, wanted)
    assert [f.state for f in compare(wanted, await look(admin, wanted)) if f.name == "retention"] == ["ok"]

    path = f"persistent/{tenant}/flow/objects/retention"
    week = {"retentionTimeInMinutes": 7 * 1440, "retentionSizeInMB": -1}
    await post(pulsar, path, week)
    await becomes(pulsar, path, lambda said: said == week)
    [finding] = [f for f in compare(wanted, await look(admin, wanted)) if f.state != "ok"]
    assert (finding.name, finding.of) == ("retention", house.topic("objects"))
    assert (finding.found, finding.step) == ("7 d", None)


async def test_a_partitioned_input_stays_partitioned_and_is_subscribed_everywhere(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    pulsar.create_space(tenant)
    pulsar.put(f"persistent/{tenant}/flow/requests/partitions", 3)
    await create(admin, needed(house, tenant))
    metadata = await get(pulsar, f"persistent/{tenant}/flow/requests/partitions")
    assert metadata["partitions"] == 3
    for partition in range(3):
        path = f"persistent/{tenant}/flow/requests-partition-{partition}/subscriptions"
        assert await get(pulsar, path) == [SUBSCRIPTION]


async def test_new_subscription_has_the_messages_already_on_the_topic(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    flow = house.flow()
    pulsar.create_space(tenant)
    for number in range(2):
        await house.send(flow, "say", text=str(number))
    await create(admin, needed(house, tenant, flow))
    stats = f"persistent/{tenant}/flow/requests/stats"
    await becomes(pulsar, stats, lambda said: said["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 2)


async def test_a_flow_on_a_non_persistent_topic_needs_no_topic_for_its_requests(
    admin: PulsarAdmin, pulsar: PulsarServer, house: House, tenant: str
) -> None:
    flow = house.flow(persistent=False)
    flow = replace(flow, input=replace(flow.input, topic=f"non-persistent://{tenant}/request/prompt"))
    await create(admin, needed(house, tenant, flow))
    made = await get(pulsar, f"persistent/{tenant}/request")
    assert made == [f"persistent://{tenant}/request/prompt-{SUBSCRIPTION}-DLQ"]


async def test_trustgraphs_namespaces_are_made_with_their_retention(
    admin: PulsarAdmin, pulsar: PulsarServer, tenant: str
) -> None:
    wanted = RequiredTopics.of_trustgraph(tenant)
    assert all(await create(admin, wanted))
    assert await create(admin, wanted) == []
    brief = {"retentionTimeInMinutes": 3, "retentionSizeInMB": -1}
    kept = {
        name: (await get(pulsar, f"namespaces/{tenant}/{name}")).get("retention_policies")
        for name in ("flow", "request", "response", "notify")
    }
    assert kept == {"flow": None, "request": None, "response": brief, "notify": brief}


async def test_topic_names_with_special_characters_are_found_again(
    admin: PulsarAdmin, tenant: str, house: House
) -> None:
    topic = f"persistent://{tenant}/flow/prompt:default:a%b?c#d;é"
    flow = house.flow()
    wanted = needed(house, tenant, replace(flow, input=replace(flow.input, topic=topic)))
    await create(admin, wanted)
    assert {finding.state for finding in compare(wanted, await look(admin, wanted))} == {"ok"}
    consumer = await house.broker.consumer(topic, SUBSCRIPTION)
    await consumer.close()
