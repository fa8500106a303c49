"""Reading the config topic through, whatever stands on it."""

from __future__ import annotations

import asyncio

from tests.support.steps import is_linear
from tests.support.workers import entry
from trustgraph_prompt.broker import EmbeddedBroker
from trustgraph_prompt.worker import config
from trustgraph_prompt.worker.config import ConfigTopic, Prompts
from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.metrics import Metrics
from trustgraph_prompt.worker.producers import Producers
from trustgraph_prompt.worker.watch import Watch


async def loaded(pushes: int) -> None:
    """A topic of pushes that nobody has finished yet, each of one entry."""
    async with await EmbeddedBroker.connect() as broker:
        producer = await broker.producer(config.TOPIC)
        for number in range(pushes):
            properties = {config.PUSH: str(number), config.MORE: "true"}
            await producer.send(entry("x").encode(), key=f"default/template.p{number}", properties=properties)
        producers, metrics = Producers(broker), Metrics()
        topic = ConfigTopic(broker, Prompts(), producers, metrics, Watch(Health(), metrics))
        await topic.load()
        await topic.close()
        await producers.close()


def test_pushes_that_are_under_way_are_read_in_linear_time() -> None:
    assert is_linear(lambda pushes: asyncio.run(loaded(pushes)), 300)
