"""One flow on a real Pulsar, in a tenant of its own: its workers, its requests, all that comes of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pulsar
from pulsar.asyncio import Client

from tests.support.model_server import ModelServer
from tests.support.restless_model import PROMPT, TEMPLATES, RestlessModel
from tests.support.worker_processes import Site
from tests.support.workers import Heard, listening, published
from trustgraph_prompt.broker import Broker, Message, connect
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: f
workspace: {space}
input: {{topic: "{requests}"}}
outputs:
  response: "{responses}"
  answers: persistent://{space}/flow/answers
  objects: persistent://{space}/flow/objects
concurrency: {concurrency}
"""


@dataclass
class Traffic:
    """`sent` are the ids of the requests that the broker has taken, `heard` what came of them."""

    site: Site
    model: RestlessModel
    space: str
    requests: str
    responses: str
    heard: Heard
    sent: list[str] = field(default_factory=list)
    _broker: Broker = field(kw_only=True)
    _client: Client = field(kw_only=True)

    async def send(self, ids: Iterable[str]) -> None:
        """Publish as our own clients do: unbatched."""
        producer = await self._broker.producer(self.requests)
        for id in ids:
            await producer.send(_request(id), properties={"id": id})
            self.sent.append(id)
        await producer.close()

    async def send_as_trustgraph(self, ids: Iterable[str], every: float) -> None:
        """Publish as TrustGraph's clients do, with a producer that batches; one each so many seconds."""
        producer = await self._client.create_producer(self.requests)

        async def send(id: str) -> None:
            await producer.send(_request(id), properties={"id": id})
            self.sent.append(id)

        async with asyncio.TaskGroup() as sending:
            for id in ids:
                sending.create_task(send(id))
                await asyncio.sleep(every)
        await producer.close()

    async def hear_out(self) -> None:
        """Until whatever has been published as a response by now has been heard."""
        end = uuid4().hex
        producer = await self._broker.producer(self.responses)
        await producer.send(b"", properties={"id": end})
        await producer.close()
        assert not await self.heard.missing([end])
        self.heard.messages[:] = [m for m in self.heard.messages if m.properties["id"] != end]

    async def hear(self, topic: str) -> Heard:
        """Follow `answers` or `objects` from its beginning."""
        return await self.site.hear(self._broker, f"persistent://{self.space}/flow/{topic}")

    async def published(self, topic: str) -> list[Message]:
        """All that `answers` or `objects` holds by now."""
        return await published(self._broker, f"persistent://{self.space}/flow/{topic}")


@asynccontextmanager
async def traffic(
    site: Site,
    space: str,
    server: ModelServer,
    model: RestlessModel,
    *,
    persistent: bool = True,
    concurrency: int = 4,
) -> AsyncIterator[Traffic]:
    """On persistent topics, as our flows have them, or on those of TrustGraph's prompt service."""
    if persistent:
        requests, responses = f"persistent://{space}/flow/requests", f"persistent://{space}/flow/responses"
    else:
        requests, responses = (
            f"non-persistent://{space}/{kind}/prompt:f" for kind in ("request", "response")
        )
    flow = FLOW.format(space=space, requests=requests, responses=responses, concurrency=concurrency)
    site.serves(flow, TEMPLATES)
    site.asks(server.url)
    server.reply = model.reply
    client = Client(site.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        broker = await stack.enter_async_context(await connect(site.url))
        heard = await stack.enter_async_context(_hearing(broker, responses, persistent))
        yield Traffic(site, model, space, requests, responses, heard, _broker=broker, _client=client)


@asynccontextmanager
async def _hearing(broker: Broker, topic: str, persistent: bool) -> AsyncIterator[Heard]:
    if persistent:
        async with listening(broker, topic) as heard:
            yield heard
        return
    consumer, heard = await broker.consumer(topic, "test", type="exclusive"), Heard()
    following = asyncio.create_task(heard.follow(consumer.receive))
    yield heard
    await consumer.close()
    await following


def _request(id: str) -> bytes:
    return PromptRequest.asking(PROMPT, {"text": id}).encode()
