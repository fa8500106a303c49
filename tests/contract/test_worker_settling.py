"""What becomes of messages when the broker lets nobody settle them as they should be."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.support.workers import Counted, Heard, House
from trustgraph_prompt.ask.cache import MemoryCache
from trustgraph_prompt.broker import Broker, Consumer, Message, Producer, topics
from trustgraph_prompt.errors import BrokerClosed, BrokerError
from trustgraph_prompt.llm import Call


@pytest.fixture
def broker_kind() -> str:
    """The broker's own behaviour is the matter of other tests; here it is told to fail."""
    return "memory"


class Unsettled:
    """A broker that works, but gives `trouble` once to who settles so; `BrokerClosed` ends the consumer.

    `settled` gets the ids of the messages that were settled so.
    """

    def __init__(self, broker: Broker, trouble: BrokerError | None, settling: str = "bury") -> None:
        self._broker = broker
        self.trouble = trouble
        self._settling = settling
        self.settled: asyncio.Queue[str] = asyncio.Queue()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def consumer(self, topic: str, subscription: str, **options: Any) -> Consumer:
        consumer = await self._broker.consumer(topic, subscription, **options)
        settle = getattr(consumer, self._settling)

        async def fail(message: Message, *arguments: Any) -> None:
            if self.trouble is None:
                await settle(message, *arguments)
                self.settled.put_nowait(message.properties["id"])
                return
            trouble, self.trouble = self.trouble, None
            if isinstance(trouble, BrokerClosed):
                await consumer.close()
            raise trouble

        setattr(consumer, self._settling, fail)
        return consumer


async def test_a_useless_answer_that_could_not_be_buried_is_not_paid_twice(house: House) -> None:
    house.broker = cast(Broker, Unsettled(house.broker, BrokerClosed("no such consumer")))
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    asked: list[Call] = []

    def model(call: Call) -> str:
        asked.append(call)
        return "no json"

    working = await house.work(flow, model)

    await house.send(flow, "pick", text="x")

    await dead.until(1)
    assert len(asked) == len(await responses.all()) == 1
    assert 'requests_unsettled_total{flow="f"} 1.0' in working.worker.metrics.text().decode()


@pytest.mark.parametrize("prompt", ["define", "recall"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_redelivered_message_that_was_answered_is_only_acknowledged(
    house: House, prompt: str, streaming: bool
) -> None:
    house.broker = broker = cast(Any, Unsettled(house.broker, None, "acknowledge"))
    flow, model = house.flow(), Counted()
    await house.work(flow, model, cache=MemoryCache())
    first = await house.send(flow, prompt, streaming=streaming, text="x")
    assert await broker.settled.get() == first

    broker.trouble = BrokerClosed("no such consumer")
    second = await house.send(flow, prompt, streaming=streaming, text="x")
    assert await broker.settled.get() == second

    ends = [json.loads(message.data)["end_of_stream"] for message in await house.published("responses")]
    assert ends == ([False, True] if streaming else [True]) * 2
    assert len(await house.published("answers")) == 2
    assert model.calls == (1 if prompt == "recall" else 2)


async def test_non_persistent_requester_gets_the_answer_of_a_redelivery_again(
    house: House,
) -> None:
    trouble = BrokerClosed("no such consumer")
    house.broker = cast(Broker, Unsettled(house.broker, trouble, "acknowledge"))
    flow, model = house.flow(), Counted()
    topic = f"{house.volatile_prefix}/responses"
    flow = replace(flow, outputs=replace(flow.outputs, response=topic))
    requester, heard = await house.broker.consumer(topic, "test", type="exclusive"), Heard()
    following = asyncio.create_task(heard.follow(requester.receive))
    await house.work(flow, model)

    id = await house.send(flow, "define", text="x")

    first, second = await heard.until(2)
    assert first.properties["id"] == second.properties["id"] == id
    assert first.data == second.data
    assert len(await house.published("answers")) == model.calls == 1
    await requester.close()
    await following


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


async def test_message_is_buried_although_its_error_response_is_refused(
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
