"""Traces of a worker, at its topics: from the publisher of a request to all that is published for it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, use_span

from tests.support.traces import (
    PARENT,
    TRACE,
    TRACEPARENT,
    Traces,
    attributes,
    id_of,
    parent_of,
    trace_in,
    trace_of,
)
from tests.support.workers import House
from trustgraph_prompt.ask import MemoryCache
from trustgraph_prompt.broker import Message, topics
from trustgraph_prompt.errors import ProviderInvalidModel, ProviderUnavailable
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Flow, Input, Outputs
from trustgraph_prompt.worker.flow import TopicChoice

CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'


@pytest.fixture
def traces() -> Traces:
    """The traces of the workers in the house."""
    return Traces()


async def ask(house: House, flow: Flow, prompt: str = "define", id: str = "r", **properties: str) -> None:
    data = PromptRequest.asking(prompt, {"text": "On chalk"}).encode()
    await house.put(flow.input.topic, data, {"id": id, **properties})


def nobody(call: Call) -> str:
    raise AssertionError("the flow has topics to ask")


def traces_of(messages: Iterable[Message]) -> set[str]:
    return {trace_in(message.properties) for message in messages}


async def test_a_trace_runs_from_the_publisher_over_the_model_to_what_is_published(
    house: House, traces: Traces
) -> None:
    flow = house.flow()
    heard = [await house.hear(house.topic(name)) for name in ("objects", "answers", "responses")]
    await house.work(flow, lambda call: CHALK, tracing=traces.tracing)

    await ask(house, flow, traceparent=TRACEPARENT, tracestate="vendor=1")

    for each in heard:
        [message] = await each.until(1)
        assert trace_in(message.properties) == TRACE
        assert message.properties["tracestate"] == "vendor=1"
    [request], [asking] = await traces.named("process"), await traces.named("ask define")
    assert (trace_of(request), parent_of(request), request.kind) == (TRACE, PARENT, SpanKind.CONSUMER)
    assert (trace_of(asking), parent_of(asking)) == (TRACE, id_of(request))
    told = attributes(request)
    assert told["messaging.destination.name"] == flow.input.topic
    assert (told["trustgraph_prompt.flow"], told["trustgraph_prompt.request.id"]) == ("f", "r")
    told = attributes(asking)
    assert told["trustgraph_prompt.prompt.id"] == "define"
    assert re.fullmatch("[0-9a-f]{64}", told["trustgraph_prompt.prompt.version"])
    assert told["trustgraph_prompt.reason"] == "success"
    assert (told["trustgraph_prompt.attempts"], told["trustgraph_prompt.objects"]) == (1, 1)


async def test_each_call_is_a_span_of_the_asking(house: House, traces: Traces) -> None:
    cut = f"{CHALK}\n{CHALK[:20]}"
    script = [ScriptedAnswer(cut, finish_reason="length"), ScriptedAnswer("[]")]
    flow = house.flow()
    await house.work(flow, ScriptedProvider(script), tracing=traces.tracing)

    await ask(house, flow)

    [asking] = await traces.named("ask define")
    calls = await traces.named("chat", 2)
    assert {parent_of(call) for call in calls} == {id_of(asking)}
    assert [attributes(call)["trustgraph_prompt.call.why"] for call in calls] == ["first", "continue"]
    assert [attributes(call)["gen_ai.response.finish_reasons"] for call in calls] == [("length",), ("stop",)]


async def test_a_trace_runs_on_over_the_topics_of_a_text_completion_worker(
    house: House, traces: Traces
) -> None:
    requests, responses = house.topic("completions"), house.topic("completed")
    completing = Flow("c", Input(requests, "c", kind="text-completion"), Outputs(response=responses))
    flow = house.flow(provider=TopicChoice(requests, responses, model="m"))
    await house.work(completing, lambda call: CHALK, tracing=traces.tracing)
    await house.work(flow, nobody, tracing=traces.tracing)

    await ask(house, flow, traceparent=TRACEPARENT)

    parent = PARENT
    for name in (f"process {flow.input.topic}", "ask define", "chat m", f"process {completing.input.topic}"):
        [span] = await traces.named(name)
        assert (trace_of(span), parent_of(span)) == (TRACE, parent)
        parent = id_of(span)
    [asking] = await traces.named("ask text-completion")
    assert (trace_of(asking), parent_of(asking)) == (TRACE, parent)


async def test_a_request_that_is_tried_again_stays_in_its_trace(house: House, traces: Traces) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    calls = 0

    def fail_at_first(call: Call) -> str | ScriptedAnswer:
        nonlocal calls
        calls += 1
        away = ProviderUnavailable("away", retry_after=0.01)
        return ScriptedAnswer("", error=away) if calls <= 3 else CHALK

    await house.work(flow, fail_at_first, tracing=traces.tracing)

    await ask(house, flow)

    await responses.until(1)
    first, second = await traces.named("process", 2)
    assert trace_of(second) == trace_of(first)
    assert parent_of(second) == id_of(first)
    assert attributes(first)["error.type"] == "provider_unavailable"
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert traces_of(await responses.all()) == {trace_of(first)}


async def test_a_dead_letter_carries_the_trace_in_which_it_died(house: House, traces: Traces) -> None:
    flow = house.flow()
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    gone = ScriptedAnswer("", error=ProviderInvalidModel("no such model"))
    await house.work(flow, lambda call: gone, tracing=traces.tracing)

    await ask(house, flow)
    await dead.until(1)
    await house.put(flow.input.topic, b"no request", {"id": "bad"})
    letters = await dead.until(2)

    requests = await traces.named("process", 2)
    assert [trace_in(letter.properties) for letter in letters] == [trace_of(span) for span in requests]
    assert [attributes(span)["error.type"] for span in requests] == ["provider_invalid_model", "RequestError"]


HOSTILE = [
    "",
    "00-0-0-00",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{TRACE.upper()}-{PARENT}-01",
    f"{TRACEPARENT}-" + "x" * 100_000,
    " " * 100_000 + TRACEPARENT,
    "00-\x00-\N{SNOWMAN}",
]


async def test_malformed_trace_headers_are_ignored(house: House, traces: Traces) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: CHALK, tracing=traces.tracing)

    for hostile in HOSTILE:
        await ask(house, flow, traceparent=hostile, tracestate="=" * 600)

    heard = await responses.until(len(HOSTILE))
    requests = await traces.named("process", len(HOSTILE))
    assert {request.parent for request in requests} == {None}
    traces_told = {trace_in(response.properties) for response in heard}
    assert traces_told == set(map(trace_of, requests))
    assert len(traces_told) == len(HOSTILE)
    assert TRACE not in traces_told
    assert not any("tracestate" in response.properties for response in heard)


async def test_a_trace_state_that_is_too_long_is_left_behind(house: House, traces: Traces) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: CHALK, tracing=traces.tracing)

    state = ",".join(f"vendor{n}={'x' * 200}" for n in range(3))
    await ask(house, flow, traceparent=TRACEPARENT, tracestate=state)

    [response] = await responses.until(1)
    assert trace_in(response.properties) == TRACE
    assert "tracestate" not in response.properties


async def test_requests_do_not_join_the_trace_in_which_the_worker_was_started(
    house: House, traces: Traces
) -> None:
    flow = house.flow()
    starting = NonRecordingSpan(SpanContext(int(TRACE, 16), int(PARENT, 16), is_remote=False))
    with use_span(starting):
        await house.work(flow, lambda call: CHALK, tracing=traces.tracing)

    await ask(house, flow)

    [request] = await traces.named("process")
    assert request.parent is None


async def test_cached_answer_is_an_ask_span_without_calls(house: House, traces: Traces) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: CHALK, tracing=traces.tracing, cache=MemoryCache())

    for id in ("one", "two"):
        await ask(house, flow, "recall", id)
        await responses.under(id)

    asked = await traces.named("ask recall", 2)
    assert [attributes(span)["trustgraph_prompt.cached"] for span in asked] == [False, True]
    assert [attributes(span)["trustgraph_prompt.calls"] for span in asked] == [1, 0]


async def test_without_tracing_messages_carry_what_they_always_did(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: CHALK)

    await ask(house, flow, traceparent=TRACEPARENT)

    [response] = await responses.until(1)
    assert response.properties == {"id": "r"}


@pytest.mark.parametrize(
    ("unusable", "request_failed"), [("dead-letter", StatusCode.ERROR), ("answer", StatusCode.UNSET)]
)
async def test_an_answer_without_use_is_no_success_of_the_model(
    house: House, traces: Traces, unusable: str, request_failed: StatusCode
) -> None:
    flow = house.flow(unusable=unusable)
    await house.work(flow, lambda call: "I'm sorry, I can't do that", tracing=traces.tracing)

    await ask(house, flow)

    [request], [asking] = await traces.named("process"), await traces.named("ask define")
    assert attributes(asking)["error.type"] == "extraction_failed"
    assert (request.status.status_code, asking.status.status_code) == (request_failed, StatusCode.ERROR)
