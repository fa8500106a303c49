"""What becomes of messages when the broker lets nobody settle them as they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.support.workers import House
from trustgraph_prompt.broker import Broker, Consumer, Message, Producer, topics
from trustgraph_prompt.errors import BrokerClosed, BrokerError
from trustgraph_prompt.llm import Call


@pytest.fixture
def broker_kind() -> str:
    """The broker's own behaviour is the matter of other tests; here it is told to fail."""
    return "memory"


class Unburied:
    """A broker that works, but gives `trouble` once to who buries; `BrokerClosed` ends the consumer."""

    def __init__(self, broker: Broker, trouble: BrokerError) -> None:
        self._broker = broker
        self.trouble: BrokerError | None = trouble

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def consumer(self, topic: str, subscription: str, **options: Any) -> Consumer:
        consumer = await self._broker.consumer(topic, subscription, **options)
        bury = consumer.bury

        async def fail(message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
            if self.trouble is None:
                return await bury(message, reason, properties)
            trouble, self.trouble = self.trouble, None
            if isinstance(trouble, BrokerClosed):
                await consumer.close()
            raise trouble

        consumer.bury = fail  # type: ignore[method-assign]
        return consumer


async def test_a_useless_answer_that_could_not_be_buried_is_not_paid_twice(house: House) -> None:
    house.broker = cast(Broker, Unburied(house.broker, BrokerClosed("no such consumer")))
    flow = house.flow()
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    asked: list[Call] = []

    def model(call: Call) -> str:
        asked.append(call)
        return "no json"

    working = await house.work(flow, model)

    await house.send(flow, "pick", text="x")

    await dead.until(1)
    assert len(asked) == 1
    assert 'requests_unsettled_total{flow="f"} 1.0' in working.worker.metrics.text().decode()


class Forbidding:
    """A broker on which nobody may publish on one topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def producer(self, topic: str, **options: Any) -> Producer:
        if topic == self._topic:
            raise BrokerError(f"{topic}: AuthorizationError")
        return await self._broker.producer(topic, **options)


async def test_a_refusal_that_nobody_can_be_told_keeps_no_letter_from_being_buried(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow()
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    house.broker = cast(Broker, Forbidding(house.broker, house.topic("responses")))
    working = await house.work(flow, lambda call: "hi")
    await house.send(flow, "nosuch")

    await dead.until(1)
    assert "the broker refused the error response" in caplog.text
    assert "unacknowledged" not in caplog.text
    why = f"{house.topic('responses')}: AuthorizationError"
    assert working.worker.health.notes() == {f"publishing on {house.topic('responses')}": why}


async def test_a_dead_letter_counts_the_tries_in_memory(house: House) -> None:
    flow = house.flow(persistent=False, deliveries=2)
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    house.broker = cast(Broker, Forbidding(house.broker, house.topic("responses")))
    asked: list[Call] = []

    def model(call: Call) -> str:
        asked.append(call)
        return "hi"

    await house.work(flow, model)

    await house.send(flow, "say", text="x")

    [letter] = await dead.until(1)
    assert letter.deliveries == 2
    assert letter.properties["error"] == "broker-error"
    assert len(asked) == 1
