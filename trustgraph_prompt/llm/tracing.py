"""A provider around a provider whose calls are spans with OpenTelemetry's GenAI attributes.

Needs the extra `tracing`; nobody imports this unless traces are asked for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import context
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context

from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.provider import Provider, ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta, Identity, ImageBlock, Message, TextBlock

MAX_CONTENT = 64 * 1024
"""Bytes of the messages of a call that its span holds, where content is asked for at all."""

_SETTINGS = ("temperature", "max_tokens", "top_p", "seed", "frequency_penalty", "presence_penalty")

_PORTS = {"http": 80, "https": 443}


class Traced(ProviderWrapper):
    """One span a call, from its sending to the end of its answer; what is sent within belongs to it.

    `content` says whether spans hold what was asked and answered.
    """

    def __init__(self, provider: Provider, tracer: Tracer, *, content: bool = False) -> None:
        super().__init__(provider)
        self._tracer = tracer
        self._content = content

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer of the provider within."""
        model = call.config.model or self.provider.identity.model
        span = self._tracer.start_span(f"chat {model}".rstrip(), kind=SpanKind.CLIENT)
        # current only while the provider is at work: what the listener does is no part of the call
        here, heard = set_span_in_context(span), DeltaAccumulator()
        try:
            if span.is_recording():
                span.set_attributes(_of_request(call, self.provider.identity, content=self._content))
            async with aclosing(self.provider.stream(call)) as deltas:
                while True:
                    with _within(here):
                        try:
                            delta = await anext(deltas)
                        except StopAsyncIteration:
                            break
                    heard.take(delta)
                    yield delta
        except Exception as error:
            category = error.category if isinstance(error, ProviderError) else type(error).__name__
            span.set_attribute("error.type", category)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.set_attributes(_of_answer(heard, content=self._content))
            span.end()


def _of_answer(heard: DeltaAccumulator, *, content: bool) -> dict[str, Any]:
    usage, reason, id = heard.usage, heard.finish_reason, heard.raw.get("id")
    told = {
        "gen_ai.response.model": heard.model,
        "gen_ai.response.id": id if isinstance(id, str) else None,
        "gen_ai.response.finish_reasons": reason and (reason,),
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_tokens,
    }
    if content:
        answer = _message(Message("assistant", heard.text, heard.tool_calls))
        told["gen_ai.output.messages"] = _shown([{**answer, "finish_reason": reason}])
    return _said(told)


def _of_request(call: Call, identity: Identity, *, content: bool) -> dict[str, Any]:
    config, labels = call.config, call.labels
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": identity.system,
        "gen_ai.system": identity.system,  # its name before it was called provider; many still look for it
        "gen_ai.request.model": config.model or identity.model or None,
        **{f"gen_ai.request.{name}": getattr(config, name) for name in _SETTINGS},
        "gen_ai.request.stop_sequences": config.stop_sequences,
        **_server(identity.place),
        "trustgraph_prompt.prompt.id": labels.get("prompt"),
        "trustgraph_prompt.call.number": int(labels["call"]) if "call" in labels else None,
        "trustgraph_prompt.call.why": labels.get("why"),
    }
    if content:
        told["gen_ai.input.messages"] = _shown([_message(message) for message in call.messages])
    return _said(told)


def _server(place: str) -> dict[str, Any]:
    url = urlsplit(place)
    if url.scheme not in _PORTS:
        return {}
    return {"server.address": url.hostname, "server.port": url.port or _PORTS[url.scheme]}


def _message(message: Message) -> dict[str, Any]:
    """The message as GenAI's conventions write it; of an image, that there is one."""
    blocks = (TextBlock(message.content),) if isinstance(message.content, str) else message.content
    kind = "tool_call_response" if message.role == "tool" else "text"
    key = "response" if message.role == "tool" else "content"
    parts: list[dict[str, Any]] = [
        {"type": "image"} if isinstance(block, ImageBlock) else {"type": kind, key: block.text}
        for block in blocks
    ]
    parts += (
        {"type": "tool_call", "id": tool.id, "name": tool.name, "arguments": tool.arguments}
        for tool in message.tool_calls
    )
    return {"role": message.role, "parts": parts}


def _shown(messages: list[dict[str, Any]]) -> str:
    """Messages as JSON text; what is too long ends where it is cut, and says how long it was."""
    text = json.dumps(messages, ensure_ascii=False, default=str)
    data = text.encode(errors="replace")
    if len(data) <= MAX_CONTENT:
        return data.decode()
    end = f"…[truncated, {len(data)} bytes total]"
    return data[: MAX_CONTENT - len(end.encode())].decode(errors="ignore") + end


def _said(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}


@contextmanager
def _within(here: context.Context) -> Iterator[None]:
    token = context.attach(here)
    try:
        yield
    finally:
        context.detach(token)
