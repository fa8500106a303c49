"""Traces with OpenTelemetry (the extra `tracing`): spans, and the trace context in messages."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trustgraph_prompt import __version__
from trustgraph_prompt.broker import Broker, Consumer, Message, Producer
from trustgraph_prompt.broker.caller import TopicCaller
from trustgraph_prompt.broker.protocol import Caller
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.call_spans import Traced
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow, Unusable
from trustgraph_prompt.worker.messages.answer_record import is_served
from trustgraph_prompt.worker.messages.request import request_id
from trustgraph_prompt.worker.telemetry import logs
from trustgraph_prompt.worker.telemetry.tracing_interface import RecordResult, Tracing

SECONDS_TO_CLOSE: Final = 5.0
"""How long shutdown waits for an unavailable collector."""

MAX_TRACE_PROPERTY: Final = 512
"""Maximum characters of a trace property (W3C Trace Context, 3.3.1.5)."""

_TRACE_PROPERTIES: Final = ("traceparent", "tracestate")
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROPAGATOR: Final = TraceContextTextMapPropagator()

log = logging.getLogger(__name__)


class Spans(Tracing):
    """Creates spans. `content`: the spans of calls contain prompts and answers."""

    def __init__(self, provider: TracerProvider, *, content: bool = False) -> None:
        self._provider = provider
        self._content = content
        self._tracer = provider.get_tracer("trustgraph_prompt", __version__)

    def broker(self, broker: Broker) -> Broker:
        return _TracedBroker(broker)

    def provider(self, provider: Provider) -> Provider:
        return Traced(provider, self._tracer, content=self._content)

    @contextmanager
    def request(self, flow: Flow, message: Message) -> Iterator[RecordResult]:
        attributes: dict[str, str | int] = {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": message.topic,
            "messaging.message.id": message.id,
            "messaging.message.body.size": len(message.data),
            "trustgraph_prompt.flow": flow.name,
            "trustgraph_prompt.workspace": flow.workspace,
            "trustgraph_prompt.deliveries": message.deliveries,
        }
        properties = {name: message.properties.get(name, "") for name in _TRACE_PROPERTIES}
        received = {name: value for name, value in properties.items() if 0 < len(value) <= MAX_TRACE_PROPERTY}
        if id := request_id(message):
            attributes["trustgraph_prompt.request.id"] = id
        with (
            self._tracer.start_as_current_span(
                f"process {flow.input.topic}",
                context=_PROPAGATOR.extract(received),
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            logs.about(trace=format_trace_id(span.get_span_context().trace_id)),
        ):
            yield lambda result: _mark(span, result, flow.unusable)

    @contextmanager
    def asking(self, prompt: PromptDefinition) -> Iterator[RecordResult]:
        attributes = {
            "trustgraph_prompt.prompt.id": prompt.id,
            "trustgraph_prompt.prompt.version": prompt.version,
        }
        with self._tracer.start_as_current_span(
            f"ask {prompt.id}", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:

            def record(result: Outcome | Exception) -> None:
                _mark(span, result, "dead-letter")
                if isinstance(result, Outcome):
                    _describe(span, result)

            yield record

    async def close(self) -> None:
        closed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def close() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(closed.set)

        # a daemon thread, so that the process does not wait for it if the collector is down
        threading.Thread(target=close, daemon=True, name="last spans").start()
        try:
            async with asyncio.timeout(SECONDS_TO_CLOSE):
                await closed.wait()
        except TimeoutError:
            log.warning(
                "no answer from the trace collector within %g s, the last spans are lost", SECONDS_TO_CLOSE
            )


def start(exporters: Iterable[str], environment: Mapping[str, str]) -> Spans:
    """Set up spans for these exporters; everything else is as OpenTelemetry's variables say.

    Raises `ValueError` for some invalid variables; OpenTelemetry logs and ignores the others.
    """
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "trustgraph-prompt"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in exporters:
        provider.add_span_processor(BatchSpanProcessor(_EXPORTERS[name]()))
    asked = environment.get(_CONTENT, "").strip().lower()
    return Spans(provider, content=asked in ("true", "span_only", "span_and_event"))


def _trace_properties() -> dict[str, str]:
    """The trace context as message properties; empty outside a trace."""
    properties: dict[str, str] = {}
    _PROPAGATOR.inject(properties)
    return properties


def _otlp() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


_EXPORTERS: Final[Mapping[str, Callable[[], SpanExporter]]] = {"otlp": _otlp, "console": ConsoleSpanExporter}


def _mark(span: Span, result: Outcome | Exception, unusable: Unusable) -> None:
    """Mark a span as failed, with the kind of error only: messages may quote prompts or answers."""
    if isinstance(result, Outcome):
        if is_served(result, unusable):
            return
        failed = result.cause.category if isinstance(result.cause, ProviderError) else result.reason.value
    else:
        failed = type(result).__name__
    span.set_attribute("error.type", failed)
    span.set_status(StatusCode.ERROR)


def _describe(span: Span, outcome: Outcome) -> None:
    attributes = {
        "reason": outcome.reason.value,
        "stage": outcome.stage.name.lower(),
        "truncated": outcome.truncated,
        "cached": outcome.cached,
        "attempts": sum(call.why in ("first", "invalid", "repair") for call in outcome.calls),
        "calls": len(outcome.calls),
        "tokens": outcome.usage.total_tokens,
        "objects": len(outcome.value) if isinstance(outcome.value, list) else None,
        "rejected": len(outcome.rejected),
        "escalated": outcome.escalated,
    }
    for name, value in attributes.items():
        if value is not None:
            span.set_attribute(f"trustgraph_prompt.{name}", value)


class _TracedBroker(BrokerWrapper):
    """Adds the current trace context to messages that are published, retried or dead-lettered."""

    async def caller(self, request: str, response: str) -> Caller:
        return await TopicCaller.open(self, request, response)

    def _consumer(self, consumer: Consumer) -> Consumer:
        return _TracedConsumer(consumer)

    def _producer(self, producer: Producer) -> Producer:
        return _TracedProducer(producer)


class _TracedProducer:
    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.topic = producer.topic
        self.close = producer.close

    async def send(self, data: bytes, *, properties: Mapping[str, str] | None = None, **how: Any) -> str:
        traced = {**_trace_properties(), **(properties or {})}
        return await self._producer.send(data, properties=traced, **how)


class _TracedConsumer:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.topic = consumer.topic
        self.subscription = consumer.subscription
        self.receive = consumer.receive
        self.acknowledge = consumer.acknowledge
        self.check = consumer.check
        self.stop = consumer.stop
        self.close = consumer.close

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        await self._consumer.retry(message, after, {**_trace_properties(), **(properties or {})})

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        await self._consumer.bury(message, reason, {**_trace_properties(), **(properties or {})})
