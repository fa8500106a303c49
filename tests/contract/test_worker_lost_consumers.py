"""A worker whose places on the broker are gone, or do not answer, while its connection stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest

from tests.support.workers import ENTRIES, House, Working, entry
from trustgraph_prompt.broker import Broker, Consumer, Table
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.worker.config import config_topic
from trustgraph_prompt.worker.timeouts import Timeouts

CONSUMER = "consumer of flow f"


@pytest.fixture
def broker_kind() -> str:
    """What each broker says of a place is the matter of other tests; here it is told what to say."""
    return "memory"


class DoubtfulBroker:
    """A broker that works, but says `trouble`, if there is any, of the first place that was taken.

    `defects` is how often taking another fails as nothing should.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.trouble: BrokerError | None = None
        self.defects = 0
        self.opened: list[Consumer | Table] = []
        self.closed: list[Consumer | Table] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def consumer(self, topic: str, subscription: str, **options: Any) -> Consumer:
        if self.opened and self.defects:
            self.defects -= 1
            raise RuntimeError("a defect")
        consumer = await self._broker.consumer(topic, subscription, **options)
        self._ambiguity(consumer)
        return consumer

    async def table(self, topic: str) -> Table:
        table = await self._broker.table(topic)
        if not topic.endswith("-WORK"):
            self._ambiguity(table)
        return table

    def _ambiguity(self, handle: Any) -> None:
        first = not self.opened
        self.opened.append(handle)

        async def check() -> None:
            if self.trouble is not None and first:
                raise self.trouble

        close = handle.close

        async def closed() -> None:
            self.closed.append(handle)
            await close()

        handle.check, handle.close = check, closed


@pytest.fixture
def doubtful(house: House) -> DoubtfulBroker:
    doubtful = DoubtfulBroker(house.broker)
    house.broker = cast(Broker, doubtful)
    return doubtful


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def waiting(working: Working) -> dict[str, str]:
    return dict(working.worker.health.waiting)


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_consumer_whose_place_is_gone_is_replaced_and_nothing_is_paid_twice(
    house: House, doubtful: DoubtfulBroker, persistent: bool
) -> None:
    flow = house.flow(persistent=persistent)
    responses = await house.hear(house.topic("responses"))
    asked: list[str] = []

    def model(call: Call) -> ScriptedAnswer:
        asked.append(call.messages[-1].text)
        return ScriptedAnswer("said", delay=3.0 if len(asked) == 1 else 0.0)

    working = await house.work(flow, model)
    under_way = await house.send(flow, "say", text="one")
    await until(lambda: asked)
    doubtful.trouble = BrokerClosed("no such consumer any more")
    await until(lambda: len(doubtful.opened) == 2)
    await until(lambda: working.worker.health.ready)
    later = await house.send(flow, "say", text="two")

    assert (await responses.under(later))[0]["text"] == "said"
    assert (await responses.under(under_way))[0]["text"] == "said"
    assert sorted(asked) == ["Say one", "Say two"]
    await until(lambda: doubtful.opened[0] in doubtful.closed)


async def test_a_flow_is_served_anew_when_its_consumer_could_not_be_replaced(
    house: House, doubtful: DoubtfulBroker
) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    working = await house.work(flow, lambda call: "said", timeouts=Timeouts(after_defect=0.1))

    doubtful.defects = 2
    doubtful.trouble = BrokerClosed("no such consumer any more")

    await until(lambda: len(doubtful.opened) == 2)
    await until(lambda: working.worker.health.ready)
    [response] = await responses.under(await house.send(flow, "say", text="x"))
    assert response["text"] == "said"


class Gated(ProviderWrapper):
    """A provider that says nothing before `open` is set."""

    open: asyncio.Event

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        await self.open.wait()
        async for delta in self.provider.stream(call):
            yield delta


@pytest.mark.parametrize("stopped", [False, True], ids=["serving", "stopped-meanwhile"])
async def test_another_consumer_listens_while_the_lost_one_is_worked_off(
    house: House, doubtful: DoubtfulBroker, stopped: bool
) -> None:
    flow = house.flow(persistent=False, concurrency=1)
    responses = await house.hear(house.topic("responses"))
    model = Gated(ScriptedProvider(lambda call: call.messages[-1].text))
    model.open = asyncio.Event()
    working = await house.work(flow, model)
    ids = [await house.send(flow, "say", text=str(n)) for n in range(4)]

    doubtful.trouble = BrokerClosed("no such consumer any more")
    await until(lambda: len(doubtful.opened) == 2)
    await until(lambda: working.worker.health.ready)
    ids += [await house.send(flow, "say", text=str(n)) for n in range(4, 8)]
    assert not await responses.all()
    if stopped:
        working.worker.stop()
        await until(lambda: "worker" in waiting(working))
    model.open.set()

    assert not await responses.missing(ids, 30)
    assert [message.properties["id"] for message in responses.messages] == ids


async def test_a_consumer_that_does_not_answer_is_waited_for_until_it_does(
    house: House, doubtful: DoubtfulBroker
) -> None:
    working = await house.work(house.flow(), lambda call: "said")
    metrics = working.worker.metrics

    doubtful.trouble = BrokerUnavailable("no answer in 10 s")
    await until(lambda: CONSUMER in waiting(working))
    assert waiting(working)[CONSUMER].startswith("no answer in 10 s (since ")
    assert f'trustgraph_prompt_healthy{{part="{CONSUMER}"}} 0.0' in metrics.text().decode()
    assert "trustgraph_prompt_ready 0.0" in metrics.text().decode()

    doubtful.trouble = None
    await until(lambda: working.worker.health.ready)
    assert f'trustgraph_prompt_healthy{{part="{CONSUMER}"}} 1.0' in metrics.text().decode()
    assert len(doubtful.opened) == 1


async def test_lost_reader_of_the_config_topic_is_replaced(house: House, doubtful: DoubtfulBroker) -> None:
    house.base = ENTRIES
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    working = await house.work(flow, lambda call: call.messages[-1].text, config=True)

    doubtful.trouble = BrokerClosed("no such reader any more")
    await until(lambda: len(doubtful.opened) == 3)  # the consumer among them
    await until(lambda: working.worker.health.ready)
    await config_topic.push(
        house.broker, "default", {"template.say": entry("Say B")}, topic=house.topic("config")
    )
    await until(lambda: working.worker.prompts["default"].question("say", {"text": ""})[1].prompt == "Say B")

    assert (await responses.under(await house.send(flow, "say")))[0]["text"] == "Say B"
