"""Completions over topics that lose messages, as a non-persistent topic does while nobody listens."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.support.brokers import every_broker
from tests.support.deltas import CALL, heard, text_of
from tests.support.trustgraph_services import completion_worker
from trustgraph_prompt.broker import Broker
from trustgraph_prompt.llm import LostMessages, TopicProvider
from trustgraph_prompt.llm.lost_messages import EXPERIENCE

broker_kind = every_broker

LEAST = 0.2  # seconds that a request waits at least


@pytest.fixture
def topics(namespace: str) -> tuple[str, str]:
    return f"non-persistent://{namespace}/ask", f"non-persistent://{namespace}/answer"


async def test_request_that_nobody_received_is_sent_again(broker: Broker, topics: tuple[str, str]) -> None:
    requests = await broker.consumer(topics[0], "another")
    provider = TopicProvider(await broker.caller(*topics), lost=LostMessages(least=LEAST))
    async with completion_worker(broker, *topics, lambda request: "before"):
        for _ in range(EXPERIENCE):
            await heard(provider, replace(CALL, stream=False))
            await requests.receive()

    asking = asyncio.create_task(heard(provider, replace(CALL, stream=False)))
    first = await requests.receive()
    async with completion_worker(broker, *topics, lambda request: "after"):
        assert text_of(await asyncio.wait_for(asking, 60)) == "after"
    second = await requests.receive()

    assert first is not None
    assert second is not None
    assert first.data == second.data
    assert first.properties["id"] != second.properties["id"]
