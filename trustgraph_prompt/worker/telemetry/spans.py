"""Traces with OpenTelemetry (the extra `tracing`): a span for each request and each asking."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trustgraph_prompt import __version__
from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.tracing import Traced
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow, Unusable
from trustgraph_prompt.worker.messages.answer import is_served
from trustgraph_prompt.worker.messages.request import request_id
from trustgraph_prompt.worker.telemetry import logs
from trustgraph_prompt.worker.telemetry.traced_broker import TracedBroker
from trustgraph_prompt.worker.telemetry.tracing import Tell, Tracing

SECONDS_TO_CLOSE: Final = 5.0
"""What a collector that is away may cost at the end."""

MAX_CARRIED: Final = 512
"""Characters of a property that says which trace a message belongs to (W3C Trace Context, 3.3.1.5)."""

_CARRIED: Final = ("traceparent", "tracestate")
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROPAGATOR: Final = TraceContextTextMapPropagator()

log = logging.getLogger(__name__)


class Spans(Tracing):
    """`content` says whether the spans of calls hold what was asked and answered."""

    def __init__(self, provider: TracerProvider, *, content: bool = False) -> None:
        self._provider = provider
        self._content = content
        self._tracer = provider.get_tracer("trustgraph_prompt", __version__)

    def broker(self, broker: Broker) -> Broker:
        return TracedBroker(broker, carried)

    def provider(self, provider: Provider) -> Provider:
        return Traced(provider, self._tracer, content=self._content)

    @contextmanager
    def request(self, flow: Flow, message: Message) -> Iterator[Tell]:
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
        if id := request_id(message):
            attributes["trustgraph_prompt.request.id"] = id
        with (
            self._tracer.start_as_current_span(
                f"process {flow.input.topic}",
                context=_PROPAGATOR.extract(_readable(message.properties)),
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            logs.about(trace=format_trace_id(span.get_span_context().trace_id)),
        ):
            yield lambda result: _mark(span, result, flow.unusable)

    @contextmanager
    def asking(self, prompt: PromptDefinition) -> Iterator[Tell]:
        attributes = {
            "trustgraph_prompt.prompt.id": prompt.id,
            "trustgraph_prompt.prompt.version": prompt.version,
        }
        with self._tracer.start_as_current_span(
            f"ask {prompt.id}", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:

            def tell(result: Outcome | Exception) -> None:
                _mark(span, result, "dead-letter")
                if isinstance(result, Outcome):
                    _describe(span, result)

            yield tell

    async def close(self) -> None:
        closed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def close() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(closed.set)

        # a daemon: the process does not wait for a thread that waits for a collector
        threading.Thread(target=close, daemon=True, name="last spans").start()
        try:
            async with asyncio.timeout(SECONDS_TO_CLOSE):
                await closed.wait()
        except TimeoutError:
            log.warning("the collector of traces does not answer; the last spans are lost")


def start(exporters: Iterable[str], environment: Mapping[str, str]) -> Spans:
    """Spans that go to `exporters`; all else is as OpenTelemetry's variables say.

    Raises `ValueError` for some of those that it does not understand; others it logs and ignores.
    """
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "trustgraph-prompt"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in exporters:
        provider.add_span_processor(BatchSpanProcessor(_EXPORTERS[name]()))
    asked = environment.get(_CONTENT, "").strip().lower()
    return Spans(provider, content=asked in ("true", "span_only", "span_and_event"))


def carried() -> Mapping[str, str]:
    """The properties that say which trace a message belongs to: none where it is none's."""
    properties: dict[str, str] = {}
    _PROPAGATOR.inject(properties)
    return properties


def _otlp() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


_EXPORTERS: Final[Mapping[str, Callable[[], SpanExporter]]] = {"otlp": _otlp, "console": ConsoleSpanExporter}


def _readable(properties: Mapping[str, str]) -> dict[str, str]:
    """What strangers wrote about the trace, unless it is too long to be that."""
    found = {name: properties.get(name, "") for name in _CARRIED}
    return {name: value for name, value in found.items() if 0 < len(value) <= MAX_CARRIED}


def _mark(span: Span, result: Outcome | Exception, unusable: Unusable) -> None:
    """Say of a span that it failed, and as what. Not in words, which may quote what was asked or answered."""
    if isinstance(result, Outcome):
        if is_served(result, unusable):
            return
        failed = result.cause.category if isinstance(result.cause, ProviderError) else result.reason.value
    else:
        failed = type(result).__name__
    span.set_attribute("error.type", failed)
    span.set_status(StatusCode.ERROR)


def _describe(span: Span, outcome: Outcome) -> None:
    told = {
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
    for name, value in told.items():
        if value is not None:
            span.set_attribute(f"trustgraph_prompt.{name}", value)
