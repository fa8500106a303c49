"""Spans that stay in memory, for tests to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from trustgraph_prompt.worker.telemetry.spans import Spans

#: A trace and a span of somebody who publishes.
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class Traces:
    """The tracing of a worker, and all of its spans that have ended."""

    def __init__(self, *, content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Spans(self._provider, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    async def named(self, name: str, count: int = 1, seconds: float = 60) -> list[ReadableSpan]:
        """The spans whose name begins so, once there are so many."""
        async with asyncio.timeout(seconds):
            while len(found := [span for span in self.spans if span.name.startswith(name)]) < count:
                await asyncio.sleep(0.01)
        return found


def trace_of(span: ReadableSpan) -> str:
    return format_trace_id(_context(span).trace_id)


def id_of(span: ReadableSpan) -> str:
    return format_span_id(_context(span).span_id)


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else format_span_id(span.parent.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def trace_in(properties: Mapping[str, str]) -> str:
    """The trace that a message belongs to."""
    return properties["traceparent"].split("-")[1]


def _context(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context
