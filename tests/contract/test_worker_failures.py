"""What a worker does when the broker or the model fails it, and when a request comes again."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.flaky_broker import FlakyBroker
from tests.support.workers import CHALK, ENTRIES, Counted, House
from trustgraph_prompt.broker import topics
from trustgraph_prompt.errors import BrokerUnavailable, ProviderUnavailable
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker.flow import Input
from trustgraph_prompt.worker.telemetry import logs


@pytest.fixture
def broker_kind() -> str:
    """The broker's own behaviour is the matter of other tests; here it is told to fail."""
    return "memory"


@pytest.mark.parametrize("output", ["objects", "answers", "responses"])
async def test_an_answer_that_could_not_be_sent_out_is_sent_again_and_paid_once(
    house: House, flaky: FlakyBroker, output: str
) -> None:
    flow = house.flow(deliveries=1)  # a broker that is away uses up none
    responses = await house.hear(house.topic("responses"))
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    model = Counted()
    await house.work(flow, model)
    flaky.failures[house.topic(output)] = 2

    id = await house.send(flow, "define", text="x")

    [response] = await responses.under(id)
    assert json.loads(response["object"]) == [json.loads(CHALK)]
    assert model.calls == 1
    assert len({message.properties["id"] for message in await objects.until(1)}) == 1
    assert len({message.key for message in await answers.until(1)}) == 1


async def test_a_producer_that_was_closed_is_replaced(house: House, flaky: FlakyBroker) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    model = Counted()
    await house.work(flow, model)
    for n in range(3):
        flaky.closed |= {house.topic("objects"), house.topic("answers"), house.topic("responses")}
        [response] = await responses.under(await house.send(flow, "define", text=str(n)))
        assert response["error"] is None
    assert model.calls == 3


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_stream_whose_end_was_lost_is_not_repeated(
    house: House, flaky: FlakyBroker, persistent: bool
) -> None:
    flow = house.flow(persistent=persistent)
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: ScriptedAnswer("abcd", chunk=2))
    flaky.failures[house.topic("answers")] = 1

    pieces = await responses.under(await house.send(flow, "say", streaming=True, text="x"))

    assert "".join(piece["text"] for piece in pieces) == "abcd"


async def test_stream_cut_by_a_broker_error_is_completed_by_the_last_response(
    house: House, flaky: FlakyBroker, caplog: pytest.LogCaptureFixture
) -> None:
    responses = await house.hear(house.topic("responses"))
    flow, model = house.flow(deliveries=1), Counted("abcd")
    await house.work(flow, model)
    flaky.failures[house.topic("responses")] = 1

    pieces = await responses.under(await house.send(flow, "say", streaming=True, text="x"))

    assert "".join(piece["text"] for piece in pieces) == "abcd"
    assert model.calls == 1
    assert "retry in" not in caplog.text


async def test_lines_cut_by_a_broker_error_are_completed_by_the_last_response(
    house: House, flaky: FlakyBroker
) -> None:
    responses, topic = await house.hear(house.topic("responses")), house.topic("responses")
    flint = '{"entity": "flint", "definition": "a hard nodule"}'

    def answer(call: Call) -> Iterator[Delta]:
        yield Delta(text=f"{CHALK}\n")
        flaky.failures[topic] = 1
        yield Delta(text=flint, finish_reason="stop")

    flow = house.flow()
    await house.work(flow, answer)

    pieces = await responses.under(await house.send(flow, "define", streaming=True, text="x"))

    text = "".join(piece["text"] for piece in pieces)
    assert [json.loads(line) for line in text.splitlines()] == [json.loads(CHALK), json.loads(flint)]
    assert len(pieces) == 2


async def test_a_volatile_request_is_tried_again_in_memory(house: House) -> None:
    flow = house.flow(persistent=False)
    responses = await house.hear(house.topic("responses"))
    asked = 0

    def script(call: Call) -> str:
        nonlocal asked
        asked += 1
        if asked <= 3:  # more than one delivery tries by itself
            raise ProviderUnavailable("not yet")
        return "here"

    await house.work(flow, script)

    [response] = await responses.under(await house.send(flow, "say", text="x"))

    assert response["text"] == "here"


@pytest.mark.parametrize("persistent", [True, False])
async def test_outage_of_the_broker_that_leads_to_the_model_uses_up_no_delivery(
    house: House, persistent: bool
) -> None:
    flow = house.flow(persistent=persistent, deliveries=1)
    responses = await house.hear(house.topic("responses"))
    asked = 0

    def script(call: Call) -> str:
        nonlocal asked
        asked += 1
        if asked <= 3:  # more than one delivery tries by itself
            raise ProviderUnavailable("not yet") from BrokerUnavailable("nobody there")
        return "here"

    await house.work(flow, script)

    [response] = await responses.under(await house.send(flow, "say", text="x"))

    assert response["text"] == "here"


async def test_a_dead_letter_that_is_replayed_is_asked_anew(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    model = Counted("no json")
    await house.work(flow, model)
    id = await house.send(flow, "pick", text="x")
    [refused] = await responses.under(id)
    assert refused["error"]["type"] == "unusable-answer"
    dead = topics.dead_letter_topic(flow.input.topic, flow.input.subscription)
    letters = await house.broker.consumer(dead, topics.DEAD_LETTER_SUBSCRIPTION)
    letter = await letters.receive()
    assert letter is not None

    model.text = '{"choice": 1}'
    await house.put(flow.input.topic, letter.data, letter.properties)

    messages = await responses.until(2)
    assert json.loads(json.loads(messages[1].data)["object"]) == {"choice": 1}


async def test_one_id_for_two_questions_gets_two_answers(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: call.messages[-1].text)

    for text in ("one", "two"):
        await house.send(flow, "say", id="1", text=text)

    texts = {json.loads(message.data)["text"] for message in await responses.until(2)}
    assert texts == {"Say one", "Say two"}


async def test_request_with_a_too_long_id_is_buried_without_a_call(house: House) -> None:
    flow = house.flow()
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    model = Counted()
    await house.work(flow, model)

    await house.send(flow, "say", id="x" * 100_000, text="x")

    [letter] = await dead.until(1)
    assert "512 characters" in letter.properties["reason"]
    assert model.calls == 0


async def test_the_log_says_what_was_wrong_and_nothing_of_the_content(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: '{"choose": "Jane Doe has it"}')

    with caplog.at_level("INFO"):
        await responses.under(await house.send(flow, "pick", text="about Jane Doe"))
        dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
        await dead.until(1)

    assert "schema_missing_field" in caplog.text
    assert "Jane" not in caplog.text


async def test_the_log_and_the_notes_say_why_a_provider_failed_without_its_words(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow(deliveries=1)
    why = "http://model/v1: HTTP 503"
    down = ProviderUnavailable(f"{why}: no room for Jane", loggable=why)
    answers = [ScriptedAnswer("", error=down), ScriptedAnswer(CHALK)]
    responses = await house.hear(house.topic("responses"))
    model = ScriptedProvider(lambda call: answers[0] if "Jane" in call.messages[-1].text else answers[1])
    working = await house.work(flow, model)

    await responses.under(await house.send(flow, "define", text="Jane"))
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    await dead.until(1)

    assert f"provider_unavailable: {why}" in caplog.text
    assert "Jane" not in caplog.text
    notes = working.worker.health.notes()
    assert notes == {f"provider of flow {flow.name}": f"provider_unavailable: {why}"}

    await responses.under(await house.send(flow, "define", text="chalk"))
    await working.stop()
    assert working.worker.health.notes() == {}


async def test_the_log_names_a_chunk_as_its_record_does(
    house: House, root_log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = house.flow(persistent=False, prompt="define")
    flow = replace(
        flow, input=replace(flow.input, kind="chunk"), outputs=replace(flow.outputs, response=None)
    )
    answers = await house.hear(house.topic("answers"))
    asked = asyncio.Event()

    def model(call: Call) -> ScriptedAnswer:
        if "flint" not in call.messages[-1].text:
            return ScriptedAnswer("I am sorry.")
        asked.set()
        return ScriptedAnswer(CHALK, delay=600)

    working = await house.work(flow, model, drain_timeout=0.1)
    logs.configure()
    await house.put(flow.input.topic, Chunk(Metadata("document/1"), "On chalk").encode())
    [record] = await answers.until(1)
    await house.put(flow.input.topic, Chunk(Metadata("document/2"), "On flint").encode())
    await asked.wait()
    await working.stop()

    assert record.key == "document/1"
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    failures = [(line["request"], line["prompt"]) for line in lines if line["level"] == "error"]
    assert failures == [("document/1", "define"), ("document/2", "define")]


async def test_missing_term_is_refused_without_a_call_or_logged(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.base = {**ENTRIES, "template.theirs": json.dumps({"prompt": "Say {{ text }}"})}
    model = Counted()
    flow = house.flow()
    await house.work(flow, model, config=True)
    responses = await house.hear(house.topic("responses"))

    [response] = await responses.under(await house.send(flow, "define", txt="chalk"))
    assert response["error"]["type"] == "missing-term"
    assert "text" in response["error"]["message"]
    assert model.calls == 0

    [response] = await responses.under(await house.send(flow, "theirs", txt="chalk"))
    assert response["error"] is None
    assert "prompt theirs: the request has no value for: text" in caplog.text


class Panic(BaseException):
    """As native code raises it."""


async def test_a_panic_is_an_internal_error_of_one_request(house: House) -> None:
    flow = house.flow(deliveries=1)
    responses = await house.hear(house.topic("responses"))

    def model(call: Call) -> str:
        if "panic" in call.messages[-1].text:
            raise Panic
        return "calm"

    await house.work(flow, model)

    [response] = await responses.under(await house.send(flow, "say", text="panic"))
    assert response["error"]["type"] == "internal-error"
    [response] = await responses.under(await house.send(flow, "say", text="x"))
    assert response["text"] == "calm"


async def test_a_flow_whose_prompt_is_not_there_is_noted(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow(input=Input(house.topic("chunks"), "s", kind="chunk"), prompt="nosuch")

    working = await house.work(flow, Counted())

    note = "there is no prompt `nosuch`; its messages wait until it is pushed"
    assert working.worker.health.notes() == {"flow f": note}
    told = f"flow f: {note}"
    assert told in caplog.messages
