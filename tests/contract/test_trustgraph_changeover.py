"""The worker takes over from TrustGraph's service, which unsubscribes when it ends."""

from __future__ import annotations

import asyncio

import pulsar
import pytest
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import connect


@pytest.mark.pulsar
@pytest.mark.parametrize("persistence", ["non-persistent", "persistent"])
async def test_service_that_unsubscribes_beside_us_takes_no_message_away(
    pulsar_url: str, pulsar_space: str, persistence: str
) -> None:
    topic, subscription = f"{persistence}://{pulsar_space}/request/prompt", "prompt--default--f--request"
    theirs = Client(pulsar_url)
    old = await theirs.subscribe(topic, subscription, consumer_type=pulsar.ConsumerType.Shared)
    async with await connect(pulsar_url) as ours:
        new = await ours.consumer(topic, subscription)

        with pytest.raises(PulsarException):  # the broker refuses: it is not the only one
            await old.unsubscribe()
        await old.close()

        producer = await ours.producer(topic)
        for n in range(20):
            await producer.send(str(n).encode())
        async with asyncio.timeout(60):
            received = [await new.receive() for _ in range(20)]
        assert [message.data for message in received if message] == [str(n).encode() for n in range(20)]
        await new.close()
    await theirs.close()
