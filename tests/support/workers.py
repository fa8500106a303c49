"""A worker with a scripted model, on whichever broker a test asks for."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.llm import Call, Delta, Provider, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Flow, Input, Outputs, Prompts, Service
from trustgraph_prompt.worker.config.report_topic import WORKER
from trustgraph_prompt.worker.flows import FlowSet

Script = Callable[[Call], str | ScriptedAnswer | Iterable[Delta]]

DEFINITION = {
    "type": "object",
    "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
    "required": ["entity", "definition"],
}


def entry(prompt: str, **settings: object) -> str:
    """A config entry for a prompt."""
    return json.dumps({"prompt": prompt, "dialect": "jinja", **settings})


ENTRIES = {
    "system": json.dumps("You are careful."),
    "template.say": entry("Say {{ text }}"),
    "template.define": entry(
        "Define what is in: {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION}
    ),
    "template.insist": entry(
        "Insist on: {{ text }}",
        **{"response-type": "jsonl", "object-schema": DEFINITION, "attempts": 2},
    ),
    "template.search": entry(
        "Search in: {{ text }}",
        **{"response-type": "jsonl", "object-schema": DEFINITION, "attempts": 2, "passes": 3},
    ),
    "template.settle": entry(
        "Settle on: {{ text }}",
        **{"response-type": "json", "schema": DEFINITION, "attempts": 2, "repair": True},
    ),
    "template.think": entry("Think of {{ text }}", model={"extras": {"reasoning_effort": "low"}}),
    "template.doubt": entry("Doubt {{ text }}", escalate={"op": "~", "value": "I CANNOT"}),
    "template.vouch": entry(
        'Vouch for what is in, such as {"entity": "Etna", "definition": "a volcano"}: {{ text }}',
        **{
            "response-type": "jsonl",
            "object-schema": {
                **DEFINITION,
                "properties": {
                    "entity": {"type": "string", "x-from": "text"},
                    "definition": {"type": "string"},
                },
            },
        },
    ),
    "template.recall": entry(
        "Recall what is in: {{ text }}",
        **{"response-type": "jsonl", "object-schema": DEFINITION, "cache": True},
    ),
    "template.pick": entry(
        "Pick from: {{ text }}",
        **{"response-type": "json", "schema": {"type": "object", "required": ["choice"]}},
    ),
    "template.mix": entry(
        "Extract from: {{ text }}",
        **{
            "response-type": "jsonl",
            "object-schema": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"type": {"const": kind}, "name": {"type": "string"}},
                        "required": ["type", "name"],
                    }
                    for kind in ("definition", "relationship")
                ]
            },
        },
    ),
}


CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'
"""An answer to `define`."""


class Counted:
    """A model that counts how often it is asked."""

    def __init__(self, text: str = CHALK) -> None:
        self.calls = 0
        self.text = text

    def __call__(self, call: Call) -> str:
        self.calls += 1
        return self.text


class Heard:
    """Everything that is published on one topic, or what `wanted` picks of it, as it comes."""

    def __init__(
        self,
        wanted: Callable[[Message], bool] = lambda message: True,
        published: Callable[[], Awaitable[list[Message]]] | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self._wanted = wanted
        self._published = published
        self._news = asyncio.Condition()

    async def follow(self, receive: Callable[[], Awaitable[Message | None]]) -> None:
        while message := await receive():
            if not self._wanted(message):
                continue
            async with self._news:
                self.messages.append(message)
                self._news.notify_all()

    async def until(self, count: int, seconds: float = 60) -> list[Message]:
        """The messages, once there are so many."""
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(lambda: len(self.messages) >= count)
        return self.messages

    async def all(self) -> list[Message]:
        """The messages, once all that the topic has by now have been heard.

        What was heard of one topic tells nothing about another, even if that was written first.
        """
        assert self._published is not None, "followed by a consumer"
        return await self.until(sum(map(self._wanted, await self._published())))

    async def objects(self, ids: Sequence[str]) -> list[Any]:
        """The objects with these ids, in their order: they come in any. No others have come."""
        found = {message.properties["id"]: json.loads(message.data) for message in await self.all()}
        assert len(self.messages) == len(found) == len(ids)
        return [found[id] for id in ids]

    async def missing(self, ids: Iterable[str], seconds: float = 120) -> set[str]:
        """Those of the ids that no message has as its property `id`; none as soon as all have come."""
        wanted, seen = set(ids), 0

        def complete() -> bool:
            nonlocal seen
            wanted.difference_update(m.properties.get("id", "") for m in self.messages[seen:])
            seen = len(self.messages)
            return not wanted

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(complete)
        return wanted

    async def under(self, id: str, seconds: float = 60) -> list[dict[str, Any]]:
        """The responses to a request, up to the last of them."""

        def ended() -> bool:
            return any(
                json.loads(message.data)["end_of_stream"]
                for message in self.messages
                if message.properties.get("id") == id
            )

        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(ended)
        return [json.loads(m.data) for m in self.messages if m.properties.get("id") == id]


async def published(broker: Broker, topic: str) -> list[Message]:
    """All that a topic has by now."""
    reader, messages = await broker.reader(topic), []
    while await reader.behind() and (message := await reader.receive()):
        messages.append(message)
    await reader.close()
    return messages


@asynccontextmanager
async def listening(
    broker: Broker,
    topic: str,
    *,
    start: Literal["earliest", "latest"] = "earliest",
    wanted: Callable[[Message], bool] = lambda message: True,
) -> AsyncIterator[Heard]:
    """Follow a topic."""
    reader = await broker.reader(topic, start=start)
    heard = Heard(wanted, lambda: published(broker, topic))
    task = asyncio.create_task(heard.follow(reader.receive))
    yield heard
    await reader.close()
    await task


def is_refusal(report: Message) -> bool:
    """Whether a worker refuses an entry there, or takes that back, and does not tell of itself."""
    return not (report.key or "").startswith(WORKER)


@dataclass
class House:
    """A broker, the topics of one flow, and workers that serve it."""

    broker: Broker
    prefix: str
    volatile_prefix: str
    stack: AsyncExitStack
    base: Mapping[str, str] = field(default_factory=dict)

    def topic(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def flow(self, *, persistent: bool = True, **changes: object) -> Flow:
        requests = self.topic("requests") if persistent else f"{self.volatile_prefix}/requests"
        flow = Flow(
            name="f",
            input=Input(requests, "prompt--default--f--request"),
            outputs=Outputs(
                answers=self.topic("answers"),
                response=self.topic("responses"),
                objects={"": self.topic("objects")},
            ),
        )
        return replace(flow, **changes)  # type: ignore[arg-type]

    async def hear(self, topic: str) -> Heard:
        """Follow a topic from its beginning."""
        return await self.stack.enter_async_context(listening(self.broker, topic))

    async def published(self, name: str) -> list[Message]:
        """All that a topic of the flow has by now."""
        return await published(self.broker, self.topic(name))

    async def hear_refusals(self) -> Heard:
        """Follow what is refused of the config topic."""
        following = listening(self.broker, self.topic("config-report"), wanted=is_refusal)
        return await self.stack.enter_async_context(following)

    async def work(
        self,
        flow: Flow,
        model: Script | Provider,
        *,
        config: bool = False,
        **settings: Any,
    ) -> Working:
        """A worker that serves the flow, from now to the end of the test or to its `stop`."""
        provider = ScriptedProvider(model) if callable(model) else model
        working = Working(
            Service(
                self.broker,
                [flow],
                Prompts(self.base if config else ENTRIES, [flow.workspace]),
                lambda _: provider,
                config_topic=self.topic("config") if config else None,
                **settings,
            )
        )
        self.stack.push_async_callback(working.stop)
        await working.ready()
        return working

    async def send(
        self, flow: Flow, prompt: str, *, id: str | None = None, streaming: bool = False, **terms: object
    ) -> str:
        """Ask; gives the id of the request."""
        data = PromptRequest.asking(prompt, terms, streaming=streaming).encode()
        id = id or uuid.uuid4().hex
        await self.put(flow.input.topic, data, {"id": id})
        return id

    async def send_twice(
        self, flow: Flow, prompt: str, *, id: str, text: str, terms: Mapping[str, object] | None = None
    ) -> None:
        """Ask twice with one id and content, in two milliseconds: within one the second is a redelivery."""
        request = PromptRequest.asking(prompt, {"text": text, **(terms or {})}).encode()
        await self.put(flow.input.topic, request, {"id": id})
        await asyncio.sleep(0.002)
        await self.put(flow.input.topic, request, {"id": id})

    async def put(
        self, topic: str, data: bytes, properties: Mapping[str, str] | None = None, key: str | None = None
    ) -> None:
        producer = await self.broker.producer(topic)
        await producer.send(data, properties=properties, key=key)
        await producer.close()


class Working:
    """A worker at work, with all that it has around it in production."""

    def __init__(self, worker: Service) -> None:
        self.worker = worker
        self._task = asyncio.create_task(worker.run())

    async def ready(self, seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not self.worker.health.ready:
                await asyncio.sleep(0.01)

    @property
    def flow_set(self) -> FlowSet:
        """The flows of a worker whose broker answers."""
        assert self.worker.flow_set is not None
        return self.worker.flow_set

    async def stop(self) -> None:
        self.worker.stop()
        await self._task
