"""What goes out for one request: pieces as they come, objects, the answer, the response. In this order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Piece
from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.errors import BrokerError, MessageTooLarge
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.answer import Answer, is_served, object_id
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.request import Request

MAX_UNCONFIRMED = 500
"""Objects of one request on their way to the broker at a time."""


class Producers:
    """The producers of a process, one for each topic, made when first needed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._producers: dict[str, asyncio.Future[Producer]] = {}

    async def get(self, topic: str, *, batch: bool = False) -> Producer:
        """The producer of a topic. Raises `BrokerError`; the next call tries again then."""
        if topic not in self._producers:
            self._producers[topic] = asyncio.ensure_future(self._broker.producer(topic, batch=batch))
        try:
            return await asyncio.shield(self._producers[topic])
        except BrokerError:
            self._producers.pop(topic, None)
            raise

    async def close(self) -> None:
        """Flush and close all of them."""
        for pending in self._producers.values():
            if pending.done() and not pending.cancelled() and pending.exception() is None:
                await pending.result().close()
        self._producers.clear()


class Outbox:
    """Everything durable before the answer, the answer before the response; nothing goes out twice.

    An object that the model has just finished is published at once. Should this run die, no answer names
    what it published, and whoever reads the objects drops them.
    """

    def __init__(self, request: Request, flow: Flow, producers: Producers) -> None:
        self._request = request
        self._flow = flow
        self._producers = producers
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._streamed = False
        self._trouble: BrokerError | None = None

    async def piece(self, prompt: PromptDefinition, piece: Piece) -> None:
        """Something that stands. Trouble with the broker waits for `finish`: the model is being paid."""
        try:
            for value in piece.objects:
                await self._publish(prompt, value)
            if self._request.streaming:
                lines = "".join(wire.encode(value).decode() + "\n" for value in piece.objects)
                if text := piece.text + lines:
                    await self._respond(wire.PromptResponse(text=text, end_of_stream=False))
                    self._streamed = True
        except BrokerError as error:
            self._trouble = error

    async def finish(self, prompt: PromptDefinition, outcome: Outcome) -> Answer:
        """Publish what is missing, then the answer, then respond. Raises `BrokerError`."""
        if self._trouble is not None:
            raise self._trouble
        objects = _objects(outcome)
        for value in objects:
            await self._publish(prompt, value)
        await asyncio.gather(*self._sending.values())
        ids = tuple(dict.fromkeys(self._id(prompt, value) for value in objects))
        answer = Answer.of(self._request, self._flow.name, prompt.id, prompt.version, outcome, ids)
        answers = await self._producers.get(self._flow.outputs.answers)
        await answers.send(answer.encode(), key=self._request.id)
        await self.respond(outcome)
        return answer

    async def respond(self, outcome: Outcome) -> None:
        """The last response to the request; an error where the outcome is of no use to the requester."""
        await self._respond(_response(outcome, streamed=self._streamed))

    async def refuse(self, type: str, message: str) -> None:
        """An error in place of an answer."""
        await self._respond(wire.PromptResponse(error=wire.Error(type, message)))

    async def _respond(self, response: wire.PromptResponse) -> None:
        await respond(self._producers, self._flow, self._request.id, response)

    async def _publish(self, prompt: PromptDefinition, value: object) -> None:
        topic = self._flow.outputs.topic_of(value, prompt.contract.discriminator)
        id = self._id(prompt, value)
        if topic is None or id in self._sending:
            return
        producer = await self._producers.get(topic, batch=True)
        if len(self._sending) % MAX_UNCONFIRMED == MAX_UNCONFIRMED - 1:
            await asyncio.gather(*self._sending.values())
        properties = {
            **self._request.source,
            "id": id,
            "request": self._request.id,
            "prompt": prompt.id,
            "version": prompt.version,
            "flow": self._flow.name,
            "workspace": self._flow.workspace,
        }
        sending = asyncio.create_task(_send(producer, value, id, properties))
        sending.add_done_callback(_seen)
        self._sending[id] = sending

    def _id(self, prompt: PromptDefinition, value: object) -> str:
        return object_id(self._request.id, prompt.id, value)


async def respond(producers: Producers, flow: Flow, id: str, response: wire.PromptResponse) -> None:
    """Put a response on the flow's response topic, where it has one, under the request's id."""
    if flow.outputs.response is None:
        return
    producer = await producers.get(flow.outputs.response)
    try:
        await producer.send(response.encode(), properties={"id": id})
    except MessageTooLarge as error:
        refusal = wire.PromptResponse(error=wire.Error("too-large", str(error)))
        await producer.send(refusal.encode(), properties={"id": id})


async def _send(producer: Producer, value: object, id: str, properties: Mapping[str, str]) -> None:
    await producer.send(wire.encode(value), key=id, properties=properties)


def _seen(sending: asyncio.Task[None]) -> None:
    """Somebody looked: `finish` raises what went wrong, and where it is never reached nobody misses it."""
    if not sending.cancelled():
        sending.exception()


def _objects(outcome: Outcome) -> list[object]:
    """What of an outcome is an object of its own: each of jsonl's, a json object, the members of an array."""
    if outcome.contract.format == "text" or (outcome.contract.format == "json" and not outcome.ok):
        return []
    values = outcome.value if isinstance(outcome.value, list) else [outcome.value]
    return [value for value in values if isinstance(value, dict)]


def _response(outcome: Outcome, *, streamed: bool) -> wire.PromptResponse:
    last = outcome.calls[-1] if outcome.calls else None
    usage = outcome.usage
    told: dict[str, Any] = {
        "in_token": usage.prompt_tokens,
        "out_token": usage.completion_tokens,
        "model": last.model if last else None,
        "finish_reason": last.finish_reason if last else None,
        "truncated": outcome.truncated,
        "stage": outcome.stage.name.lower(),
        "rejected": len(outcome.rejected),
    }
    if not is_served(outcome):
        return wire.PromptResponse(error=wire.Error("llm-error", outcome.explain()), **told)
    if outcome.contract.format == "text":
        return wire.PromptResponse(text="" if streamed else outcome.value, **told)
    if streamed:
        return wire.PromptResponse(text="", **told)
    return wire.PromptResponse(object=wire.encode(outcome.value).decode(), **told)
