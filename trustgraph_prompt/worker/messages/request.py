"""Decodes requests from messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Message
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.worker.flow import Flow

MAX_ID = 512
"""Maximum characters of an id, which is in the journal, in the log and in the properties of every object."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `id` is the requester's, the same in redeliveries. `published` in seconds since the epoch.

    `source` names the origin of the text, and is published with each object. `chunk` is set for chunks only,
    `completion` for text completions only.
    """

    id: str
    prompt: str
    terms: Mapping[str, object] = field(default_factory=dict, repr=False)
    streaming: bool = False
    published: float | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    chunk: wire.Chunk | None = field(default=None, repr=False)
    completion: wire.TextCompletionRequest | None = field(default=None, repr=False)

    @property
    def direct(self) -> bool:
        """Whether the requester retries itself, and so gets exactly one call, unchanged."""
        return self.completion is not None and self.completion.direct

    def deadline(self, budget: Budget) -> float:
        """When the requester stops waiting, in seconds since the epoch."""
        if self.published is None:
            return inf
        seconds = inf if budget.seconds is None else budget.seconds
        if self.completion is not None and self.completion.seconds_left is not None:
            seconds = min(seconds, self.completion.seconds_left)
        return self.published + seconds


def request_id(message: Message) -> str | None:
    """The id to answer to, even if the rest of the message is invalid; None if there is no valid one."""
    id = message.properties.get("id", "")
    return id if 0 < len(id) <= MAX_ID else None


def decode(message: Message, flow: Flow) -> Request:
    """Decode a request. Raises `RequestError`; the message is not worth another delivery then."""
    match flow.input.kind:
        case "chunk":
            return _from_chunk(message, flow)
        case "text-completion":
            return _from_completion_request(message)
        case "prompt-request":
            return _from_prompt_request(message, flow)


def _required_id(message: Message) -> str:
    id = request_id(message)
    if id is None:
        raise RequestError(f"the message has no valid property `id`, expected 1 to {MAX_ID} characters")
    return id


def _from_completion_request(message: Message) -> Request:
    id, record = _required_id(message), wire.TextCompletionRequest.decode(message.data)
    return Request(
        id=id,
        prompt="text-completion",
        streaming=record.streaming,
        published=message.published,
        completion=record,
    )


def _from_prompt_request(message: Message, flow: Flow) -> Request:
    id = _required_id(message)
    record = wire.PromptRequest.decode(message.data)
    if not record.id:
        raise RequestError("PromptRequest/id is missing, expected the id of a prompt")
    return Request(
        id=id,
        prompt=record.id,
        terms={**flow.terms, **record.values()},
        streaming=record.streaming,
        published=message.published,
    )


def _from_chunk(message: Message, flow: Flow) -> Request:
    record = wire.Chunk.decode(message.data)
    if not record.chunk.strip():
        raise RequestError("Chunk/chunk is empty, expected text")
    if len(record.metadata.id) > MAX_ID or len(record.document_id) > MAX_ID:
        raise RequestError(f"Chunk/metadata/id and Chunk/document_id: expected at most {MAX_ID} characters")
    source = {
        "chunk": record.metadata.id or record.document_id,
        "document": record.document_id,
        "root": record.metadata.root,
        "collection": record.metadata.collection,
    }
    return Request(
        # The same id means the same chunk; without an id each message is its own request.
        id=request_id(message) or source["chunk"] or message.id,
        prompt=flow.prompt or "",
        terms={**flow.terms, "text": record.chunk},
        published=message.published,
        source={name: value for name, value in source.items() if value},
        chunk=record,
    )
