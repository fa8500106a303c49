"""Prompts that owners apply; over every broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.support.workers import House, entry
from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.worker.config import apply, config_topic

A, B, C = entry("A"), entry("B"), entry("C")


class Killed(Exception):
    """The process is gone."""


class BrokerThatLosesItsUser(BrokerWrapper):
    """Takes some messages; then whoever publishes is killed, before or just after the next is published."""

    def __init__(self, broker: Broker, messages: int, *, published: bool) -> None:
        super().__init__(broker)
        self._left = messages
        self._published = published

    def _producer(self, producer: Producer) -> Producer:
        send = producer.send

        async def send_or_die(*arguments: Any, **options: Any) -> str:
            self._left -= 1
            if self._left < 0 and not self._published:
                raise Killed
            id = await send(*arguments, **options)
            if self._left < 0:
                raise Killed
            return id

        cast(Any, producer).send = send_or_die
        return producer


async def applied(
    house: House,
    owner: str,
    wanted: Mapping[str, str],
    *,
    force: bool = False,
    workspace: str = "default",
    broker: Broker | None = None,
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Apply entries; what changed, what was left alone, and whose records were ignored, with the reasons."""
    topic = house.topic("config")
    plan, ignored = await apply.propose(
        lambda topic: config_topic.entries(house.broker, workspace, topic=topic),
        owner,
        wanted,
        topic=topic,
        force=force,
    )
    await apply.carry_out(broker or house.broker, workspace, owner, plan, topic=topic)
    return list(plan.changes), dict(plan.left), ignored


async def there(house: House, workspace: str = "default") -> dict[str, str]:
    found = await config_topic.entries(house.broker, workspace, topic=house.topic("config"))
    return {key: data.decode() for key, data in found.items()}


async def records(house: House) -> dict[str, Any]:
    found = await config_topic.entries(house.broker, topic=house.topic("config-owners"))
    return {key: json.loads(data) for key, data in found.items()}


async def push(house: House, **changes: str) -> None:
    await config_topic.push(house.broker, "default", changes, topic=house.topic("config"))


async def test_changed_entries_are_published_and_removed_ones_deleted(house: House) -> None:
    first = {"system": '"Be brief."', "template.a": A, "template.b": B}
    second = {"template.a": json.dumps(json.loads(A), indent=2), "template.b": C, "template.c": C}
    await push(house, **{"template.other": A})

    assert await applied(house, "ns/r", first) == (sorted(first), {}, {})
    assert await applied(house, "ns/r", first) == ([], {}, {})
    assert await applied(house, "ns/r", second) == (["system", "template.b", "template.c"], {}, {})
    assert await there(house) == {"template.other": A, **second, "template.a": A}
    assert list(await records(house)) == ["default/ns/r"]

    assert await applied(house, "ns/r", {}) == (sorted(second), {}, {})
    assert await there(house) == {"template.other": A}
    assert await records(house) == {}


async def test_entries_changed_by_others_are_left_alone_unless_forced(house: House) -> None:
    await applied(house, "r", {"template.a": A, "template.b": A, "template.gone": A})
    await push(house, **{"template.a": C, "template.b": "", "template.gone": C})
    wanted = {"template.a": B, "template.b": B}
    left = {
        "template.a": "another client changed it since it was last applied",
        "template.b": "another client deleted it since it was last applied",
        "template.gone": "another client changed it since it was last applied",
    }

    for _ in range(2):  # it is said each time
        assert await applied(house, "r", wanted) == ([], left, {})
    assert await there(house) == {"template.a": C, "template.gone": C}
    assert (await applied(house, "r", wanted, force=True))[1] == {}
    assert await there(house) == wanted


async def test_entries_of_other_owners_and_workspaces_are_left_alone(house: House) -> None:
    assert (await applied(house, "one", {"template.a": A, "template.b": B}))[1] == {}
    belongs = {"template.a": "it belongs to owner one"}
    assert await applied(house, "two", {"template.a": C, "template.c": C}) == (["template.c"], belongs, {})
    assert await applied(house, "two", {"template.a": C}, workspace="w") == (["template.a"], {}, {})
    assert (await applied(house, "one", {}))[0] == ["template.a", "template.b"]
    assert await there(house) == {"template.c": C}
    assert await there(house, "w") == {"template.a": C}


async def test_entries_are_handed_over_to_another_owner(house: House) -> None:
    wanted = {"template.a": A, "template.b": B}
    await applied(house, "old", wanted)

    assert await applied(house, "new", wanted, force=True) == ([], {}, {})
    assert await applied(house, "old", {}) == ([], {}, {})
    assert await there(house) == wanted
    assert await applied(house, "new", {"template.a": C}) == (["template.a", "template.b"], {}, {})


#: The record, the history of three entries, the entries, the record.
MESSAGES = 8


@pytest.mark.parametrize("published", [False, True], ids=["before it is published", "after it is published"])
@pytest.mark.parametrize("messages", range(MESSAGES))
@pytest.mark.parametrize("force", [False, True], ids=["", "with force"])
async def test_apply_after_a_killed_one_recognizes_its_published_entries(
    house: House, messages: int, published: bool, force: bool
) -> None:
    await applied(house, "r", {"template.a": A, "template.gone": A})
    changed = {"template.a": B, "template.new": B}
    broker = BrokerThatLosesItsUser(house.broker, messages, published=published)
    with pytest.raises(Killed):
        await applied(house, "r", changed, broker=broker, force=force)

    changed_again = {"template.a": C, "template.new": B, "template.gone": C}
    assert (await applied(house, "r", changed_again))[1] == {}
    assert await there(house) == changed_again
    assert await applied(house, "r", {}) == (sorted(changed_again), {}, {})
    assert await there(house) == {}
    assert await records(house) == {}


async def test_malformed_record_is_ignored_and_replaced(house: House) -> None:
    hostile = {"bad": b"no json", "shape": b'{"entries": [1]}', "deep": b"[" * 5000, "ours": b"\xff"}
    for owner, data in hostile.items():
        await house.put(house.topic("config-owners"), data, key=f"default/{owner}")
    await push(house, **{"template.a": A, "template.b": A})

    changed, left, ignored = await applied(house, "ours", {"template.a": A, "template.b": B})
    assert (changed, left) == ([], {"template.b": "another client published it"})
    assert ignored.keys() == hostile.keys()
    assert (await applied(house, "ours", {"template.a": C}))[0] == ["template.a"]


async def test_worker_serves_applied_entries_at_once_and_ignores_their_records(house: House) -> None:
    working = await house.work(house.flow(), lambda call: call.messages[-1].text, config=True)
    responses = await house.hear(house.topic("responses"))
    heard = await house.hear(house.topic("config"))
    reports = await house.hear_refusals()

    await applied(house, "ns/r", {"template.say": A, "template.more": B})
    await push(house, **{"template.wrong": "{"})
    await reports.until(1)
    [response] = await responses.under(await house.send(house.flow(), "say"))

    assert response["text"] == "A"
    assert [message.key for message in await reports.all()] == ["default/template.wrong"]
    assert list(working.worker.health.notes()) == ["config entry default/template.wrong"]
    assert [message.key for message in await heard.all()] == [
        "default/template.more",
        "default/template.say",
        "default/template.wrong",
    ]
    assert working.worker.prompts["default"].prompts.keys() == {"say", "more"}
