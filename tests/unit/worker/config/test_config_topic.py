"""Reading the config topic through, whatever stands on it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.steps import is_linear
from tests.support.workers import entry
from trustgraph_prompt.broker import Broker, EmbeddedBroker
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.prompts.prompt_set import MAX_PROMPTS
from trustgraph_prompt.worker.config import config_topic, source
from trustgraph_prompt.worker.config.config_topic import ConfigTopic
from trustgraph_prompt.worker.config.source import Prompts
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import Watch


async def loaded(pushes: int) -> None:
    """A topic of pushes that nobody has finished yet, each of one entry."""
    async with await EmbeddedBroker.connect() as broker:
        producer = await broker.producer(config_topic.TOPIC)
        for number in range(pushes):
            properties = {source.PUSH: str(number), source.MORE: "true"}
            await producer.send(entry("x").encode(), key=f"default/template.p{number}", properties=properties)
        producers, metrics = ProducerPool(broker), Metrics()
        topic = ConfigTopic(broker, Prompts(), producers, metrics, Watch(Health(), metrics))
        await topic.load()
        await topic.close()
        await producers.close()


async def started(broker: Broker, producers: ProducerPool) -> tuple[Prompts, ConfigTopic]:
    """The prompts of a worker that has read the topic through."""
    prompts, metrics = Prompts(), Metrics()
    topic = ConfigTopic(broker, prompts, producers, metrics, Watch(Health(), metrics))
    await topic.load()
    return prompts, topic


@pytest.mark.parametrize("served_while_others_came", [True, False])
async def test_prompt_that_was_served_is_served_after_a_restart(served_while_others_came: bool) -> None:
    others = {f"template.p{number:04}": entry("same") for number in range(1_005)}
    async with await EmbeddedBroker.connect() as broker:
        producers = ProducerPool(broker)
        await config_topic.push(broker, "default", {"template.zz": entry("old")})
        before, topic = await started(broker, producers)
        if not served_while_others_came:
            await topic.close()
        await config_topic.push(broker, "default", others)
        if served_while_others_came:
            await topic.load()
            await config_topic.push(broker, "default", {"template.zz": entry("new")})
            await topic.load()
            await topic.close()
        after, topic = await started(broker, producers)
        await topic.close()
        await producers.close()
    text = "new" if served_while_others_came else "old"
    assert after["default"].question("zz", {})[1].prompt == text
    assert len(after["default"].prompts) == MAX_PROMPTS
    if served_while_others_came:
        assert after["default"].prompts.keys() == before["default"].prompts.keys()


def test_pushes_that_are_under_way_are_read_in_linear_time() -> None:
    assert is_linear(lambda pushes: asyncio.run(loaded(pushes)), 150)
