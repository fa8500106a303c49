"""A provider wrapper that makes each call a span with OpenTelemetry's GenAI attributes.

Needs the extra `tracing`; imported only where tracing is switched on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind, StatusCode, Tracer, use_span

from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import NUMBERS, Call, Delta, Identity, ImageBlock, Message, TextBlock

MAX_CONTENT = 64 * 1024
"""Bytes of a call's messages in its span, where content is recorded."""

_PORTS = {"http": 80, "https": 443}


@dataclass(eq=False, repr=False)
class Traced(ProviderWrapper):
    """Records one span for each call, until the end of its answer; HTTP spans become its children.

    `content` says whether spans record the messages.
    """

    tracer: Tracer
    content: bool = False

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer of the wrapped provider."""
        model = call.config.model or self.provider.identity.model
        span = self.tracer.start_span(f"chat {model}".rstrip(), kind=SpanKind.CLIENT)
        answer = DeltaAccumulator()
        try:
            if span.is_recording():
                span.set_attributes(_of_request(call, self.provider.identity, content=self.content))
            async with aclosing(self.provider.stream(call)) as deltas:
                while True:
                    # current only while the provider works: the consumer's work in between is not the call's
                    with use_span(span, record_exception=False, set_status_on_exception=False):
                        delta = await anext(deltas, None)
                    if delta is None:
                        break
                    answer.take(delta)
                    yield delta
        except Exception as error:
            category = error.category if isinstance(error, ProviderError) else type(error).__name__
            span.set_attribute("error.type", category)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.set_attributes(_of_answer(answer, content=self.content))
            span.end()


def _of_answer(answer: DeltaAccumulator, *, content: bool) -> dict[str, Any]:
    usage, reason, id = answer.usage, answer.finish_reason, answer.raw.get("id")
    attributes = {
        "gen_ai.response.model": answer.model,
        "gen_ai.response.id": id if isinstance(id, str) else None,
        "gen_ai.response.finish_reasons": reason and (reason,),
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_tokens,
    }
    if content:
        message = _message(Message("assistant", answer.text, answer.tool_calls))
        attributes["gen_ai.output.messages"] = _json([{**message, "finish_reason": reason}])
    return _without_none(attributes)


def _of_request(call: Call, identity: Identity, *, content: bool) -> dict[str, Any]:
    config, labels = call.config, call.labels
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": identity.system,
        "gen_ai.system": identity.system,  # the name before provider.name, which many tools still use
        "gen_ai.request.model": config.model or identity.model or None,
        **{f"gen_ai.request.{name}": getattr(config, name) for name in NUMBERS},
        "gen_ai.request.stop_sequences": config.stop_sequences,
        **_server(identity.place),
        "trustgraph_prompt.prompt.id": labels.get("prompt"),
        "trustgraph_prompt.call.number": int(labels["call"]) if "call" in labels else None,
        "trustgraph_prompt.call.why": labels.get("why"),
    }
    if content:
        attributes["gen_ai.input.messages"] = _json([_message(message) for message in call.messages])
    return _without_none(attributes)


def _server(place: str) -> dict[str, Any]:
    url = urlsplit(place)
    if url.scheme not in _PORTS:
        return {}
    return {"server.address": url.hostname, "server.port": url.port or _PORTS[url.scheme]}


def _message(message: Message) -> dict[str, Any]:
    """The message in the form of the GenAI conventions; images without their data."""
    blocks = (TextBlock(message.content),) if isinstance(message.content, str) else message.content
    text_type = "tool_call_response" if message.role == "tool" else "text"
    key = "response" if message.role == "tool" else "content"
    parts: list[dict[str, Any]] = [
        {"type": "image"} if isinstance(block, ImageBlock) else {"type": text_type, key: block.text}
        for block in blocks
    ]
    parts += (
        {"type": "tool_call", "id": tool.id, "name": tool.name, "arguments": tool.arguments}
        for tool in message.tool_calls
    )
    return {"role": message.role, "parts": parts}


def _json(messages: list[dict[str, Any]]) -> str:
    """Messages as JSON text, truncated to `MAX_CONTENT`."""
    text = json.dumps(messages, ensure_ascii=False, default=str)
    data = text.encode(errors="replace")
    if len(data) <= MAX_CONTENT:
        return data.decode()
    end = f"…[truncated, {len(data)} bytes total]"
    return data[: MAX_CONTENT - len(end.encode())].decode(errors="ignore") + end


def _without_none(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
