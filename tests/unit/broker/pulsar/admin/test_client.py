"""What is asked of Pulsar's admin API for the backlogs, and what it may refuse."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar.admin.prepare import backlogs_of
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable


class Admin(PulsarAdmin):
    """An admin API that has topics by their path, or refuses one with an error."""

    def __init__(self, **stats: dict[str, Any] | Exception) -> None:
        super().__init__("http://pulsar:8080")
        self.asked: list[str] = []
        self._stats = {f"persistent/t/n/{name}/stats": found for name, found in stats.items()}

    async def get(self, path: str, kind: type[Any], *, none: Collection[int] = (404,)) -> Any:
        self.asked.append(path)
        found = self._stats[path]
        if isinstance(found, Exception):
            raise found
        return found


def topic(name: str) -> str:
    return f"persistent://t/n/{name}"


FORBIDDEN = BrokerError("http://pulsar:8080: these credentials may not GET it (HTTP 403)")
STATS = {"subscriptions": {"s": {"msgBacklog": 3}, "r": {"msgBacklog": 5}}}


async def test_topic_with_several_subscriptions_is_asked_about_once() -> None:
    admin = Admin(a=STATS)
    backlogs = await backlogs_of(admin, [(topic("a"), name) for name in ("s", "r", "unknown")])
    assert backlogs == {(topic("a"), "s"): 3, (topic("a"), "r"): 5}
    assert admin.asked == ["persistent/t/n/a/stats"]


async def test_topic_that_may_not_be_read_hides_no_other_backlog() -> None:
    admin = Admin(a=STATS, b=FORBIDDEN)
    assert await backlogs_of(admin, [(topic("a"), "s"), (topic("b"), "s")]) == {(topic("a"), "s"): 3}


async def test_backlogs_raise_the_reason_if_no_topic_may_be_read() -> None:
    with pytest.raises(BrokerError, match="HTTP 403"):
        await backlogs_of(Admin(a=FORBIDDEN, b=FORBIDDEN), [(topic("a"), "s"), (topic("b"), "s")])
    assert await backlogs_of(Admin(), []) == {}


async def test_unreachable_broker_raises_though_another_topic_was_read() -> None:
    with pytest.raises(BrokerUnavailable):
        await backlogs_of(Admin(a=STATS, b=BrokerUnavailable("away")), [(topic("a"), "s"), (topic("b"), "s")])
