"""The producers of a process: one for each topic, replaced when it broke, gone when nobody needs it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable

TOPIC = "persistent://tg/flow/out"


class Recording:
    """A broker that keeps what it made; `trouble` is what its producers raise."""

    def __init__(self) -> None:
        self.made: list[Recorded] = []
        self.trouble: BrokerError | None = None

    async def producer(self, topic: str, *, batch: bool = False) -> Recorded:
        await asyncio.sleep(0)
        self.made.append(Recorded(self, topic))
        return self.made[-1]


class Recorded:
    def __init__(self, broker: Recording, topic: str) -> None:
        self._broker = broker
        self.topic = topic
        self.broken = self.closed = False

    async def send(self, data: bytes, **how: Any) -> str:
        await asyncio.sleep(0)
        if self.broken:
            raise BrokerClosed(self.topic)
        if self._broker.trouble is not None:
            raise self._broker.trouble
        return "1"

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def broker() -> Recording:
    return Recording()


@pytest.fixture
def producers(broker: Recording) -> ProducerPool:
    return ProducerPool(cast(Broker, broker))


async def test_closed_producer_is_replaced_once_for_all_who_find_it_closed(
    broker: Recording, producers: ProducerPool
) -> None:
    await producers.send(TOPIC, b"")
    broker.made[0].broken = True

    await asyncio.gather(*(producers.send(TOPIC, b"") for _ in range(50)))
    await producers.close()

    assert [producer.closed for producer in broker.made[1:]] == [True]


async def test_forgotten_producer_is_closed_and_made_again_when_needed(
    broker: Recording, producers: ProducerPool
) -> None:
    await producers.send(TOPIC, b"")
    await producers.send("persistent://tg/flow/other", b"")

    await producers.forget([TOPIC, "persistent://tg/flow/never"])
    assert [producer.closed for producer in broker.made] == [True, False]

    await producers.send(TOPIC, b"")
    assert len(broker.made) == 3


async def test_reason_of_a_refused_send_is_known_until_a_send_succeeds(
    broker: Recording, producers: ProducerPool
) -> None:
    broker.trouble = BrokerUnavailable("quota exceeded")
    with pytest.raises(BrokerUnavailable):
        await producers.send(TOPIC, b"")
    assert producers.refused == {TOPIC: "quota exceeded"}

    broker.trouble = None
    await producers.send(TOPIC, b"")
    assert producers.refused == {}
