"""Publishes the results of one request: streamed pieces, objects, the answer record, the response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Listen, Piece
from trustgraph_prompt.broker.retry_and_dead_letters import MAX_MESSAGE_SIZE
from trustgraph_prompt.contract import Grounded, Grounding
from trustgraph_prompt.errors import BrokerError, MessageTooLarge
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.around.journal import AskResult
from trustgraph_prompt.worker.messages.answer_record import (
    Answer,
    bounded_grounding,
    object_ids,
    reject_objects,
)
from trustgraph_prompt.worker.messages.response import (
    Response,
    jsonl_line,
    last_response,
    send_response,
    send_split,
)
from trustgraph_prompt.worker.publish_graph import MAX_OBJECT_SIZE, MAX_UNCONFIRMED, publish_graph
from trustgraph_prompt.worker.services import RequestContext

log = logging.getLogger(__name__)

T = TypeVar("T")

LARGE = 1_000_000
"""Bytes. The broker may reject a larger object: properties count too, and its own limit may be lower."""


class Responder:
    """Responds to the requester, piece by piece if the request wants that.

    A broker error ends the streaming, and not the call, which is paid for: the last response has the rest.
    """

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._streams = context.request.streaming

    async def _stream(self, text: str, piece: Callable[[str], Response], *, is_answer: bool = True) -> bool:
        """Stream a text in as many pieces as fit into messages; returns whether all were sent."""

        async def send(part: str) -> None:
            await self._context.entry.stream(self._respond(piece(part)), len(part) if is_answer else 0)

        if self._streams and text:
            try:
                await send_split(text, send)
            except BrokerError:
                self._streams = False
        return self._streams

    async def _respond(self, response: Response) -> None:
        """Send a response. Raises `BrokerError`."""
        context = self._context
        await send_response(context.services.producers, context.flow, context.request.id, response)


class Publisher(Responder):
    """Publishes what came of one request: objects before the answer record, the record before the response.

    An object is published as soon as the model has finished it. If the worker crashes then, no answer record
    names the object, and readers drop it. An object of a jsonl answer that is too large for a message is
    rejected, and all others are published.
    """

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context)
        self._request, self._flow, self._entry = context.request, context.flow, context.entry
        self._producers = context.services.producers
        self._ids: dict[int, tuple[str, object]] = {}  # by `id()`, unique while the object is held here
        self._id_of: Callable[[object], str] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, str] = {}
        self._limit = MAX_OBJECT_SIZE if context.flow.outputs.has_graph else MAX_MESSAGE_SIZE

    def listener(self, prompt: PromptDefinition) -> Listen | None:
        """What publishes the pieces of an answer as they come; None if the flow waits for its end."""
        return partial(self.piece, prompt) if self._flow.outputs.objects or self._streams else None

    async def piece(self, prompt: PromptDefinition, piece: Piece) -> None:
        """Publish and stream a piece of the answer; a json value waits for `send`, and so do errors."""
        objects = piece.objects if prompt.contract.format == "jsonl" else ()
        if self._flow.outputs.objects:
            try:
                ids = await self._publish(prompt, objects, piece.grounding)
            except BrokerError:
                # `send` raises it again; the next try publishes everything anew, under the same ids
                self._streams = False
                return
            if self._refused:
                known = zip(ids, objects, strict=True)
                objects = tuple(value for id, value in known if id not in self._refused)
        if self._streams:
            text = piece.text + "".join(jsonl_line(self._published(prompt, value)) for value in objects)
            await self._stream(text, lambda part: wire.PromptResponse(text=part, end_of_stream=False))

    async def send(self) -> None:
        """Publish the remaining objects and the answer record, then respond. Raises `BrokerError`.

        If an earlier delivery sent everything, only the response is repeated. Of a jsonl answer that was
        streamed, all objects are sent already; only confirmations are awaited.
        """
        assert self._entry.result is not None
        if not self._entry.answered:
            await self._finish(*self._entry.result)
        if self._flow.outputs.response is not None:
            response = last_response(
                self._published_outcome(),
                self._flow,
                streaming=self._request.streaming,
                streamed_characters=self._entry.streamed_characters,
            )
            await self._respond(response)

    def _published_outcome(self) -> Outcome:
        """The outcome with its objects as they are published."""
        if self._flow.outputs.quotes == "keep":
            return self._context.outcome
        assert self._entry.result is not None
        prompt, outcome = self._entry.result
        return replace(outcome, value=self._published(prompt, outcome.value))

    async def _finish(self, prompt: PromptDefinition, outcome: Outcome) -> None:
        """Publish the remaining objects and the answer record; all are durable on return."""
        outputs = self._flow.outputs
        ids: list[str] = []
        grounding = None
        if outputs.objects or outputs.answers:
            objects, grounding = _objects(outcome)
            ids = await self._publish(prompt, objects, grounding)
            await asyncio.gather(*self._sending.values())
        outcome = self._sendable(prompt, outcome)
        self._entry.result = AskResult(prompt, outcome)
        if outputs.has_graph:
            await publish_graph(prompt, *_objects(outcome), self._request, self._flow, self._producers)
        if outputs.answers is not None:
            named = tuple(dict.fromkeys(id for id in ids if id not in self._refused))
            by_id = _first(ids, grounding or ())
            answer = Answer.of(
                self._request,
                self._flow.name,
                prompt.id,
                prompt.version,
                outcome,
                named,
                by_id,
                seconds=self._entry.seconds,
                canary=prompt.canary,
            )
            await self._producers.send(outputs.answers, answer.encode(), key=self._request.id)

    def _sendable(self, prompt: PromptDefinition, outcome: Outcome) -> Outcome:
        """The outcome, with the objects of a jsonl answer rejected that are too large for a message."""
        responds = self._flow.outputs.response is not None
        in_one_response = responds and not self._request.streaming
        concerned = prompt.contract.format == "jsonl" and (in_one_response or self._flow.outputs.has_graph)
        is_long = concerned and len(wire.encode(outcome.value)) > self._limit
        if not (is_long or self._refused):
            return outcome
        for value in outcome.value if is_long else ():
            if len(data := wire.encode(value)) > self._limit:
                self._refuse_large(self._id(prompt, value), data)
        return reject_objects(outcome, lambda value: self._refused.get(self._id(prompt, value)))

    def _id(self, prompt: PromptDefinition, value: object) -> str:
        """The id of an object, made once: the answer record names what was published piece by piece."""
        known = self._ids.get(id(value))
        if known is None:
            if self._id_of is None:
                self._id_of = object_ids(self._request.id, prompt.id, prompt.contract.identity)
            known = self._ids[id(value)] = self._id_of(value), value
        return known[0]

    def _published(self, prompt: PromptDefinition, value: object) -> object:
        """An object as it is published: with its quotes, or without them."""
        return value if self._flow.outputs.quotes == "keep" else prompt.contract.without_quotes(value)

    async def _publish(
        self, prompt: PromptDefinition, objects: Sequence[object], grounding: Grounded | None
    ) -> list[str]:
        """Publish the objects that are not published yet; returns the ids of all.

        They are sent in the background; only a large one is waited for.
        """
        ids = [self._id(prompt, value) for value in objects]
        grounds = _first(ids, grounding or ())
        can_reject = prompt.contract.format == "jsonl"
        for id, value in _first(ids, objects).items():
            if id in self._sending or id in self._refused:
                continue
            topic = self._flow.outputs.topic_of(value, prompt.contract.discriminator)
            if topic is None:
                continue
            if len(self._sending) % MAX_UNCONFIRMED == MAX_UNCONFIRMED - 1:
                await asyncio.gather(*self._sending.values())
            data = wire.encode(self._published(prompt, value))
            if can_reject and len(data) > self._limit:
                self._refuse_large(id, data)
                continue
            properties = self._properties(prompt, id, grounds.get(id))
            sending = asyncio.create_task(self._deliver(topic, data, id, properties, can_reject=can_reject))
            sending.add_done_callback(_retrieve_exception)
            self._sending[id] = sending
            if len(data) > LARGE:
                await sending
        return ids

    def _properties(
        self, prompt: PromptDefinition, id: str, grounding: Mapping[str, Grounding | None] | None
    ) -> dict[str, str]:
        """The properties of an object's message."""
        properties = {
            **self._request.source,
            "id": id,
            "request": self._request.id,
            "prompt": prompt.id,
            "version": prompt.version,
            "flow": self._flow.name,
            "workspace": self._flow.workspace,
        }
        if grounding and (found := bounded_grounding(grounding)):
            properties["grounding"] = wire.encode(found).decode()
        return properties

    async def _deliver(
        self, topic: str, data: bytes, id: str, properties: Mapping[str, str], *, can_reject: bool
    ) -> None:
        """Publish an object, or reject it if the broker's own limit is lower. Raises `BrokerError`."""
        try:
            await self._producers.send(topic, data, key=id, properties=properties, batch=True)
        except MessageTooLarge as error:
            if not can_reject:
                raise
            self._refuse(id, str(error))

    def _refuse_large(self, id: str, data: bytes) -> None:
        self._refuse(id, f"an object of {len(data):,} bytes, at most {self._limit:,} fit into a message")

    def _refuse(self, id: str, why: str) -> None:
        log.warning("object %s rejected: %s", id, why)
        self._refused[id] = why


def _first(ids: Sequence[str], parts: Sequence[T]) -> dict[str, T]:
    """The parts by id. Of objects that differ only in their quotes, which have one id, the first counts."""
    found: dict[str, T] = {}
    for id, part in zip(ids, parts, strict=False):
        found.setdefault(id, part)
    return found


def _retrieve_exception(sending: asyncio.Task[None]) -> None:
    """Keep asyncio from logging an exception: `send` raises it, and may never be called."""
    if not sending.cancelled():
        sending.exception()


def _objects(outcome: Outcome) -> tuple[list[object], Grounded | None]:
    """The objects to publish, and their grounding: jsonl objects, a json object, or the members of an array.

    Members of an array have no grounding of their own.
    """
    if outcome.contract.format == "text" or (outcome.contract.format == "json" and not outcome.ok):
        return [], None
    values = outcome.value if isinstance(outcome.value, list) else [outcome.value]
    objects: list[object] = [value for value in values if isinstance(value, dict)]
    if outcome.grounding is None or len(values) != len(outcome.grounding):
        return objects, None
    pairs = zip(values, outcome.grounding, strict=True)
    return objects, tuple(found for value, found in pairs if isinstance(value, dict))
