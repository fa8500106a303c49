"""What goes out for one request: pieces as they come, objects, the answer, the response. In this order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic, time
from typing import Any

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Piece
from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable, MessageTooLarge
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.answer import Answer, is_served, object_ids
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.journal import Entry
from trustgraph_prompt.worker.request import Request

Response = wire.PromptResponse | wire.TextCompletionResponse

TRUSTGRAPH_ERRORS = ("llm-error", "no-configuration", "too-many-requests", "not-implemented")
"""The types of errors that TrustGraph's own services know."""

SECONDS_FOR_A_RECEIPT = 10.0
"""A broker that takes longer to say that it has a message is as good as away."""

MAX_UNCONFIRMED = 500
"""Objects of one request on their way to the broker at a time."""


class Producers:
    """The producers of a process, one for each topic, made when first needed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._producers: dict[str, asyncio.Future[Producer]] = {}
        self._under_way: dict[object, tuple[str, float]] = {}
        self.last_published = 0.0
        """In seconds since the epoch."""

    async def send(
        self,
        topic: str,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        batch: bool = False,
    ) -> None:
        """Publish on a topic; durable on return. Raises `BrokerError`.

        `batch` counts when the producer of the topic is made. One that turns out to be closed is replaced.
        """
        self._under_way[ticket := object()] = (topic, monotonic())
        try:
            await (await self._get(topic, batch)).send(data, key=key, properties=properties)
        except BrokerClosed:
            self._producers.pop(topic, None)
            await (await self._get(topic, batch)).send(data, key=key, properties=properties)
        finally:
            del self._under_way[ticket]
        self.last_published = time()

    @property
    def waiting(self) -> float:
        """For how many seconds the longest of all that are under way has been waiting for its receipt."""
        return monotonic() - next(iter(self._under_way.values()))[1] if self._under_way else 0.0

    async def check(self) -> None:
        """Raises `BrokerUnavailable` where a receipt is overdue."""
        if (seconds := self.waiting) > SECONDS_FOR_A_RECEIPT:
            topic, _ = next(iter(self._under_way.values()))
            raise BrokerUnavailable(f"{topic}: what was published {seconds:.0f} s ago has no receipt yet")

    async def close(self) -> None:
        """Flush and close all of them."""
        opened = [p for p in self._producers.values() if p.done() and not (p.cancelled() or p.exception())]
        self._producers.clear()
        ends = await asyncio.gather(*(p.result().close() for p in opened), return_exceptions=True)
        for error in ends:
            if isinstance(error, BaseException) and not isinstance(error, BrokerError):
                raise error

    async def _get(self, topic: str, batch: bool) -> Producer:
        if topic not in self._producers:
            self._producers[topic] = asyncio.ensure_future(self._broker.producer(topic, batch=batch))
        try:
            return await asyncio.shield(self._producers[topic])
        except BrokerError:
            self._producers.pop(topic, None)
            raise


class Outbox:
    """Everything durable before the answer, the answer before the response.

    An object that the model has just finished is published at once. Should this run die, no answer names
    what it published, and whoever reads the objects drops them.
    """

    def __init__(self, request: Request, flow: Flow, producers: Producers, entry: Entry) -> None:
        self._request = request
        self._flow = flow
        self._producers = producers
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._entry = entry
        self._trouble: BrokerError | None = None

    async def piece(self, prompt: PromptDefinition, piece: Piece) -> None:
        """Something that stands; a json value waits for `finish`, which sends it once.

        So does trouble with the broker, since the model is being paid. Nothing is streamed after it, and the
        last response has the rest of a text, or all objects.
        """
        objects = piece.objects if prompt.contract.format == "jsonl" else ()
        try:
            if self._flow.outputs.objects:
                await self._publish(prompt, objects)
            streamed = self._request.streaming and self._trouble is None
            if streamed and (text := piece.text + "".join(map(_line, objects))):
                await in_parts(text, self._tell)
        except BrokerError as error:
            self._trouble = error

    async def finish(self, prompt: PromptDefinition, outcome: Outcome) -> None:
        """Publish what is missing, then the answer, then respond. Raises `BrokerError`."""
        if self._trouble is not None:
            raise self._trouble
        outputs = self._flow.outputs
        ids = await self._publish(prompt, _objects(outcome)) if outputs.objects or outputs.answers else ()
        await asyncio.gather(*self._sending.values())
        if outputs.answers is not None:
            answer = Answer.of(self._request, self._flow.name, prompt.id, prompt.version, outcome, ids)
            await self._producers.send(outputs.answers, answer.encode(), key=self._request.id)
        await self.respond(outcome)

    async def respond(self, outcome: Outcome) -> None:
        """The last response to the request; an error where the outcome is of no use to the requester."""
        streaming, told = self._request.streaming, self._entry.told
        await self._send(_response(outcome, streaming=streaming, told=told))

    async def _tell(self, text: str) -> None:
        await self._send(wire.PromptResponse(text=text, end_of_stream=False))
        self._entry.begun = True
        self._entry.told += len(text)

    async def _send(self, response: wire.PromptResponse) -> None:
        await send_response(self._producers, self._flow, self._request.id, response)

    async def _publish(self, prompt: PromptDefinition, objects: Iterable[object]) -> tuple[str, ...]:
        """Send off those of the objects that are not on their way; the ids of all, each once."""
        id_of = object_ids(self._request.id, prompt.id)
        by_id = {id_of(value): value for value in objects}
        for id, value in by_id.items():
            topic = self._flow.outputs.topic_of(value, prompt.contract.discriminator)
            if topic is not None and id not in self._sending:
                if len(self._sending) % MAX_UNCONFIRMED == MAX_UNCONFIRMED - 1:
                    await asyncio.gather(*self._sending.values())
                self._send_off(prompt, topic, id, value)
        return tuple(by_id)

    def _send_off(self, prompt: PromptDefinition, topic: str, id: str, value: object) -> None:
        properties = {
            **self._request.source,
            "id": id,
            "request": self._request.id,
            "prompt": prompt.id,
            "version": prompt.version,
            "flow": self._flow.name,
            "workspace": self._flow.workspace,
        }
        sending = asyncio.create_task(
            self._producers.send(topic, wire.encode(value), key=id, properties=properties, batch=True)
        )
        sending.add_done_callback(_seen)
        self._sending[id] = sending


def refusal(flow: Flow, error: wire.Error) -> Response:
    """What says to a requester of the flow that there is no answer."""
    if flow.trustgraph and error.type not in TRUSTGRAPH_ERRORS:
        error = wire.Error("llm-error", error.message)
    if flow.input.kind == "text-completion":
        return wire.TextCompletionResponse(error, response=None)
    return wire.PromptResponse(error)


async def send_response(producers: Producers, flow: Flow, id: str, response: Response) -> None:
    """Put a response on the flow's response topic, where it has one, under the request's id.

    A last one that is too large leaves out the object that it also has as a text, and becomes the error
    `too-large` if that does not do. Raises `BrokerError`.
    """
    topic, properties = flow.outputs.response, {"id": id}
    if topic is None:
        return
    try:
        await producers.send(topic, response.encode(), properties=properties)
    except MessageTooLarge as error:
        if not response.end_of_stream:
            raise
        if isinstance(response, wire.PromptResponse) and response.text and response.object:
            await send_response(producers, flow, id, replace(response, object=None))
            return
        smaller = refusal(flow, wire.Error("too-large", str(error)))
        await producers.send(topic, smaller.encode(), properties=properties)


async def in_parts(text: str, tell: Callable[[str], Awaitable[None]]) -> None:
    """Tell a text, in as many parts as the broker's limit wants. Raises what `tell` raises."""
    try:
        await tell(text)
    except MessageTooLarge:
        if len(text) < 2:
            raise
        half = len(text) // 2
        await in_parts(text[:half], tell)
        await in_parts(text[half:], tell)


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


def _response(outcome: Outcome, *, streaming: bool, told: int) -> wire.PromptResponse:
    """The last response; `told` characters went out as they came.

    TrustGraph's client gives a caller that streams nothing but texts as they come, and takes a response to
    one that does not for an object where the text is empty.
    """
    last = outcome.calls[-1] if outcome.calls else None
    usage = outcome.usage
    facts: dict[str, Any] = {
        "in_token": usage.prompt_tokens,
        "out_token": usage.completion_tokens,
        "model": last.model if last else outcome.model,
        "finish_reason": last.finish_reason if last else None,
        "truncated": outcome.truncated,
        "stage": outcome.stage.name.lower(),
        "rejected": len(outcome.rejected),
    }
    if not is_served(outcome):
        return wire.PromptResponse(error=wire.Error("llm-error", outcome.explain()), **facts)
    if outcome.contract.format == "text":
        empty = '""' if not (streaming or outcome.value) else None
        return wire.PromptResponse(text=outcome.value[told:], object=empty, **facts)
    value = wire.encode(outcome.value).decode()
    if not streaming:
        return wire.PromptResponse(object=value, **facts)
    lines = "".join(map(_line, outcome.value)) if outcome.contract.format == "jsonl" else value
    if told and told >= len(lines):
        return wire.PromptResponse(text="", **facts)
    return wire.PromptResponse(text="" if told else lines, object=value, **facts)


def _line(value: object) -> str:
    return wire.encode(value).decode() + "\n"
