"""Traces of a real worker process, as they reach a collector over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.command import run
from tests.support.traces import PARENT, TRACE, TRACEPARENT
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry, listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest

REQUESTS, OBJECTS = "persistent://tg/flow/in", "persistent://tg/flow/objects"
SECONDS = 100.0

FLOW = f"""
name: f
input: {{topic: "{REQUESTS}"}}
outputs: {{response: "persistent://tg/flow/out", objects: "{OBJECTS}"}}
"""


class Collector:
    """Takes in traces as OTLP has them: protobuf over HTTP."""

    def __init__(self) -> None:
        self.spans: dict[str, Span] = {}
        self.services: set[str] = set()
        self.headers: dict[str, str] = {}
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.headers = dict(request.headers)
        exported = ExportTraceServiceRequest.FromString(await request.read())
        for of_resource in exported.resource_spans:
            named = {each.key: each.value.string_value for each in of_resource.resource.attributes}
            self.services.add(named["service.name"])
            for of_scope in of_resource.scope_spans:
                self.spans |= {span.name: span for span in of_scope.spans}
        return web.Response(content_type="application/x-protobuf")


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield collector
    await runner.cleanup()


@pytest.fixture
def site(site: Site) -> Site:
    define = entry("Define {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION})
    answer = json.dumps({"entity": "chalk", "definition": "a stone"})
    site.serves(FLOW, {"template.define": define})
    site.answers({"answer": answer, "model": "m-1"})
    return site


async def serve_one(site: Site, **variables: str) -> None:
    """A worker that serves one request of a trace, then stops in order."""
    async with await connect(site.url) as broker, listening(broker, OBJECTS) as objects:
        producer = await broker.producer(REQUESTS)
        data = PromptRequest.asking("define", {"text": "chalk"}).encode()
        await producer.send(data, properties={"id": "r", "traceparent": TRACEPARENT})
        worker = await site.run(**variables)
        await objects.until(1)
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
        await producer.close()


async def test_a_trace_reaches_the_collector_whole_also_the_last_of_it(
    site: Site, collector: Collector
) -> None:
    await serve_one(
        site,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_HEADERS="x-team=chalk",
        OTEL_BSP_SCHEDULE_DELAY="60000",  # so that all of them are sent at the end
    )

    spans = collector.spans
    request, asking, call = spans[f"process {REQUESTS}"], spans["ask define"], spans["chat"]
    assert request.parent_span_id.hex() == PARENT
    assert asking.parent_span_id == request.span_id
    assert call.parent_span_id == asking.span_id
    assert {span.trace_id.hex() for span in (request, asking, call)} == {TRACE}
    told = {each.key: each.value.string_value for each in call.attributes}
    assert (told["gen_ai.response.model"], told["trustgraph_prompt.prompt.id"]) == ("m-1", "define")
    assert collector.services == {"trustgraph-prompt"}
    assert collector.headers["x-team"] == "chalk"


async def test_the_service_is_called_as_the_environment_says(site: Site, collector: Collector) -> None:
    await serve_one(site, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="chalk-prompts")

    assert collector.services == {"chalk-prompts"}


async def test_a_collector_that_is_away_holds_up_neither_requests_nor_the_end(site: Site) -> None:
    async with asyncio.timeout(SECONDS):
        await serve_one(
            site, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_EXPORTER_OTLP_TIMEOUT="600"
        )


def test_unknown_tracing_variables_are_a_config_error(site: Site) -> None:
    ended = run(*site.arguments, OTEL_TRACES_EXPORTER="jaeger")

    assert ended.returncode == 2
    assert "OTEL_TRACES_EXPORTER" in ended.stderr
    assert "expected otlp, console or none" in ended.stderr
