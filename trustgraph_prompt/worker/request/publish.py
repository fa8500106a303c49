"""What goes out for one request: pieces as they come, objects, the answer, the response. In this order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Piece
from trustgraph_prompt.broker.envelope import MAX_MESSAGE_SIZE
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.contract import Grounded, Grounding
from trustgraph_prompt.errors import BrokerError, MessageTooLarge
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.answer import Answer, object_ids, told, without
from trustgraph_prompt.worker.messages.request import Request
from trustgraph_prompt.worker.messages.response import in_parts, line_of, response_of, send_response
from trustgraph_prompt.worker.request.journal import Entry

log = logging.getLogger(__name__)

MAX_UNCONFIRMED = 500
"""Objects of one request on their way to the broker at a time."""

LARGE = 1_000_000
"""Bytes. The broker may refuse an object of more, as its properties and the broker's own limit count too."""


class Publisher:
    """Everything durable before the answer, the answer before the response.

    An object that the model has just finished is published at once. Should this run die, no answer names
    what it published, and whoever reads the objects drops them. An object of a jsonl answer that no message
    can carry is refused, and all others go out.
    """

    def __init__(self, request: Request, flow: Flow, producers: ProducerPool, entry: Entry) -> None:
        self._request = request
        self._flow = flow
        self._producers = producers
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, str] = {}
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
                ids = await self._publish(prompt, objects, piece.grounding)
                objects = tuple(
                    value for id, value in zip(ids, objects, strict=True) if id not in self._refused
                )
            streamed = self._request.streaming and self._trouble is None
            if streamed and (text := piece.text + "".join(map(line_of, objects))):
                await in_parts(text, self._tell)
        except BrokerError as error:
            self._trouble = error

    async def finish(self, prompt: PromptDefinition, outcome: Outcome) -> None:
        """Publish what is missing, then the answer, then respond. Raises `BrokerError`."""
        if self._trouble is not None:
            raise self._trouble
        outputs = self._flow.outputs
        objects, grounding = _objects(outcome) if outputs.objects or outputs.answers else ([], None)
        ids = await self._publish(prompt, objects, grounding)
        await asyncio.gather(*self._sending.values())
        outcome = self._sendable(prompt, outcome)
        self._entry.asked = prompt, outcome
        if outputs.answers is not None:
            named = tuple(dict.fromkeys(id for id in ids if id not in self._refused))
            by_id = dict(zip(ids, grounding or (), strict=False))
            answer = Answer.of(
                self._request, self._flow.name, prompt.id, prompt.version, outcome, named, by_id
            )
            await self._producers.send(outputs.answers, answer.encode(), key=self._request.id)
        await self.respond(outcome)

    async def respond(self, outcome: Outcome) -> None:
        """The last response to the request; an error where the outcome is of no use to the requester."""
        unusable, streaming, told = self._flow.unusable, self._request.streaming, self._entry.told
        await self._send(response_of(outcome, unusable=unusable, streaming=streaming, told=told))

    async def _tell(self, text: str) -> None:
        await self._send(wire.PromptResponse(text=text, end_of_stream=False))
        self._entry.begun = True
        self._entry.told += len(text)

    async def _send(self, response: wire.PromptResponse) -> None:
        await send_response(self._producers, self._flow, self._request.id, response)

    def _sendable(self, prompt: PromptDefinition, outcome: Outcome) -> Outcome:
        """The outcome without the objects of a jsonl answer that no message can carry, which are refused."""
        id_of = object_ids(self._request.id, prompt.id)
        responds = self._flow.outputs.response is not None
        in_one_response = responds and prompt.contract.format == "jsonl" and not self._request.streaming
        if in_one_response and len(wire.encode(outcome.value)) > MAX_MESSAGE_SIZE:
            for value in outcome.value:
                if why := _too_large(wire.encode(value)):
                    self._refuse(id_of(value), why)
        return without(outcome, lambda value: self._refused.get(id_of(value))) if self._refused else outcome

    async def _publish(
        self, prompt: PromptDefinition, objects: Sequence[object], grounding: Grounded | None
    ) -> list[str]:
        """Send off those of the objects that are not on their way; the ids of all."""
        ids = list(map(object_ids(self._request.id, prompt.id), objects))
        grounds = dict(zip(ids, grounding or (), strict=False))
        for id, value in dict(zip(ids, objects, strict=True)).items():
            topic = self._flow.outputs.topic_of(value, prompt.contract.discriminator)
            if topic is not None and id not in self._sending and id not in self._refused:
                if len(self._sending) % MAX_UNCONFIRMED == MAX_UNCONFIRMED - 1:
                    await asyncio.gather(*self._sending.values())
                await self._send_off(prompt, topic, id, value, grounds.get(id))
        return ids

    async def _send_off(
        self,
        prompt: PromptDefinition,
        topic: str,
        id: str,
        value: object,
        grounding: Mapping[str, Grounding | None] | None,
    ) -> None:
        """Put an object on its way; a large one has arrived or is refused before anything goes on."""
        data, refusable = wire.encode(value), prompt.contract.format == "jsonl"
        if refusable and (why := _too_large(data)):
            self._refuse(id, why)
            return
        properties = {
            **self._request.source,
            "id": id,
            "request": self._request.id,
            "prompt": prompt.id,
            "version": prompt.version,
            "flow": self._flow.name,
            "workspace": self._flow.workspace,
        }
        if grounding and (found := told(grounding)):
            properties["grounding"] = wire.encode(found).decode()
        sending = asyncio.create_task(self._deliver(topic, data, id, properties, refusable=refusable))
        sending.add_done_callback(_seen)
        self._sending[id] = sending
        if len(data) > LARGE:
            await sending

    async def _deliver(
        self, topic: str, data: bytes, id: str, properties: Mapping[str, str], *, refusable: bool
    ) -> None:
        """Publish an object. Raises `BrokerError`, but for one that the broker's own limit refuses."""
        try:
            await self._producers.send(topic, data, key=id, properties=properties, batch=True)
        except MessageTooLarge as error:
            if not refusable:
                raise
            self._refuse(id, str(error))

    def _refuse(self, id: str, why: str) -> None:
        log.warning("object %s is refused: %s", id, why)
        self._refused[id] = why


def _too_large(data: bytes) -> str | None:
    """Why no message can carry an object; None where one can."""
    if len(data) <= MAX_MESSAGE_SIZE:
        return None
    return f"an object of {len(data):,} bytes, at most {MAX_MESSAGE_SIZE:,} fit into a message"


def _seen(sending: asyncio.Task[None]) -> None:
    """Somebody looked: `finish` raises what went wrong, and where it is never reached nobody misses it."""
    if not sending.cancelled():
        sending.exception()


def _objects(outcome: Outcome) -> tuple[list[object], Grounded | None]:
    """What of an outcome is an object of its own: each of jsonl's, a json object, the members of an array.

    And where each stands, but of the members of an array that is itself the value.
    """
    if outcome.contract.format == "text" or (outcome.contract.format == "json" and not outcome.ok):
        return [], None
    values = outcome.value if isinstance(outcome.value, list) else [outcome.value]
    objects: list[object] = [value for value in values if isinstance(value, dict)]
    if outcome.grounding is None or len(values) != len(outcome.grounding):
        return objects, None
    pairs = zip(values, outcome.grounding, strict=True)
    return objects, tuple(found for value, found in pairs if isinstance(value, dict))
