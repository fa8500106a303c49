"""What requesters hear: answers and errors as they are on response topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from trustgraph_prompt import wire
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.errors import MessageTooLarge
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow, Unusable
from trustgraph_prompt.worker.messages.answer import is_served

Response = wire.PromptResponse | wire.TextCompletionResponse

TRUSTGRAPH_ERRORS = ("llm-error", "no-configuration", "too-many-requests", "not-implemented")
"""The types of errors that TrustGraph's own services know."""


def refusal(flow: Flow, error: wire.Error) -> Response:
    """What says to a requester of the flow that there is no answer."""
    if flow.trustgraph and error.type not in TRUSTGRAPH_ERRORS:
        error = wire.Error("llm-error", error.message)
    if flow.input.kind == "text-completion":
        return wire.TextCompletionResponse(error, response=None)
    return wire.PromptResponse(error)


async def send_response(producers: ProducerPool, flow: Flow, id: str, response: Response) -> None:
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
    """RecordResult a text, in as many parts as the broker's limit wants. Raises what `tell` raises."""
    try:
        await tell(text)
    except MessageTooLarge:
        if len(text) < 2:
            raise
        half = len(text) // 2
        await in_parts(text[:half], tell)
        await in_parts(text[half:], tell)


def response_of(outcome: Outcome, *, unusable: Unusable, streaming: bool, told: int) -> wire.PromptResponse:
    """The last response; `told` characters went out as they came. `unusable` is the flow's.

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
        "escalated": outcome.escalated,
    }
    if not is_served(outcome, unusable):
        return wire.PromptResponse(error=wire.Error("llm-error", outcome.explain()), **facts)
    if outcome.contract.format == "text":
        empty = '""' if not (streaming or outcome.value) else None
        return wire.PromptResponse(text=outcome.value[told:], object=empty, **facts)
    value = wire.encode(outcome.value).decode()
    if not streaming:
        return wire.PromptResponse(object=value, **facts)
    lines = "".join(map(line_of, outcome.value)) if outcome.contract.format == "jsonl" else value
    if told and told >= len(lines):
        return wire.PromptResponse(text="", **facts)
    return wire.PromptResponse(text="" if told else lines, object=value, **facts)


def line_of(value: object) -> str:
    """An object as a line of jsonl."""
    return wire.encode(value).decode() + "\n"
