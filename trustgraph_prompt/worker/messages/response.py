"""Responses to requesters: answers and errors on response topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from trustgraph_prompt import wire
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import MessageTooLarge, Reason
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.answer_record import failure_type, is_served

Response = wire.PromptResponse | wire.TextCompletionResponse

TRUSTGRAPH_ERRORS = ("llm-error", "no-configuration", "too-many-requests", "not-implemented")
"""The error types of TrustGraph's own services."""


def error_response(flow: Flow, error: wire.Error) -> Response:
    """The response of a flow that reports an error."""
    error = _as_named(flow, error)
    if flow.input.kind == "text-completion":
        return wire.TextCompletionResponse(error, response=None)
    return wire.PromptResponse(error)


def _as_named(flow: Flow, error: wire.Error) -> wire.Error:
    """The error under a name that clients of the flow know."""
    known = not flow.trustgraph or error.type in TRUSTGRAPH_ERRORS
    return error if known else wire.Error("llm-error", error.message)


async def send_response(producers: ProducerPool, flow: Flow, id: str, response: Response) -> None:
    """Publish a response on the flow's response topic, if it has one, under the request's id.

    A last response that is too large is sent without the object if its text has that too, or else as the
    error `too-large`. Raises `BrokerError`.
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
        smaller = error_response(flow, wire.Error("too-large", str(error)))
        await producers.send(topic, smaller.encode(), properties=properties)


async def send_split(text: str, send: Callable[[str], Awaitable[None]]) -> None:
    """Send a text, in as many parts as the broker's size limit requires. Raises what `send` raises."""
    try:
        await send(text)
    except MessageTooLarge:
        if len(text) < 2:
            raise
        half = len(text) // 2
        await send_split(text[:half], send)
        await send_split(text[half:], send)


def last_response(
    outcome: Outcome, flow: Flow, *, streaming: bool, streamed_characters: int
) -> wire.PromptResponse:
    """The last response of a flow, after `streamed_characters` were streamed.

    TrustGraph's client passes on nothing but text to callers that stream, so the lines that were not streamed
    follow in the text. Without streaming, it takes a response for an object if the text is empty.
    """
    last = outcome.calls[-1] if outcome.calls else None
    usage = outcome.usage
    details: dict[str, Any] = {
        "in_token": usage.prompt_tokens,
        "out_token": usage.completion_tokens,
        "model": last.model if last else outcome.model,
        "finish_reason": last.finish_reason if last else None,
        "truncated": outcome.truncated,
        "stage": outcome.stage.name.lower(),
        "rejected": len(outcome.rejected),
        "escalated": outcome.escalated,
    }
    if not is_served(outcome, flow.unusable):
        error = _as_named(flow, wire.Error(failure_type(outcome), outcome.explain()))
        return wire.PromptResponse(error, **details)
    if outcome.contract.format == "text":
        empty = '""' if not (streaming or outcome.value) else None
        return wire.PromptResponse(text=outcome.value[streamed_characters:], object=empty, **details)
    value = wire.encode(outcome.value).decode()
    if not streaming:
        return wire.PromptResponse(object=value, **details)
    lines = "".join(map(jsonl_line, outcome.value)) if outcome.contract.format == "jsonl" else value
    if streamed_characters and streamed_characters >= len(lines):
        return wire.PromptResponse(text="", **details)
    if streamed_characters and _has_lost_objects(outcome):
        return wire.PromptResponse(text="", object=value, **details)
    return wire.PromptResponse(text=lines[streamed_characters:], object=value, **details)


def _has_lost_objects(outcome: Outcome) -> bool:
    """Whether objects may have been streamed that are not in the value: then its lines do not begin so."""
    too_large = (issue.reason is Reason.TOO_LARGE for each in outcome.rejected for issue in each.issues)
    return bool(outcome.retracted) or any(too_large)


def jsonl_line(value: object) -> str:
    """An object as a line of JSON Lines."""
    return wire.encode(value).decode() + "\n"
