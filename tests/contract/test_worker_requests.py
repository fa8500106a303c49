"""What the worker does about a request, at its topics; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace

import pytest

from tests.support.workers import House
from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import ProviderPaused, ProviderRateLimit, ProviderUnavailable
from trustgraph_prompt.llm import Call, Completer, Delta, Identity, ScriptedAnswer
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.flow import Input, Outputs

CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'
FLINT = '{"entity": "flint", "definition": "a hard stone found in chalk"}'


class Counting(Completer):
    """A model that knows how many ask it at the same time."""

    identity = Identity("test")
    prefill = False

    def __init__(self) -> None:
        self.now = self.most = 0

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.05)
        self.now -= 1
        yield Delta("done", finish_reason="stop")

    async def close(self) -> None: ...


def asked(call: Call) -> str:
    """The question, without what the template put in front of it."""
    return call.messages[-1].text.split(": ", 1)[-1]


async def test_an_answer_comes_with_its_objects_and_a_record_that_names_them(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    objects = await house.hear(house.topic("objects"))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: f"Here you are:\n{CHALK}\n{FLINT}\n")

    id = await house.send(flow, "define", text="On chalk")

    [response] = await responses.under(id)
    assert json.loads(response["object"]) == [json.loads(CHALK), json.loads(FLINT)]
    assert response["text"] is None
    assert response["error"] is None
    assert response["in_token"] > 0
    assert response["model"] == "scripted"
    published = await objects.until(2)
    assert {message.properties["request"] for message in published} == {id}
    assert {message.properties["prompt"] for message in published} == {"define"}
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert record.key == id
    assert await objects.objects(answer.objects) == [json.loads(CHALK), json.loads(FLINT)]
    assert (answer.reason, answer.stage, answer.truncated) == ("success", "extracted", False)


async def test_text_prompt_is_answered_with_text_and_json_prompt_with_an_object(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: "hello" if "Say" in call.messages[-1].text else '{"choice": 3}')

    said, picked = await house.send(flow, "say", text="hello"), await house.send(flow, "pick", text="1 to 3")

    [text] = await responses.under(said)
    assert (text["text"], text["object"]) == ("hello", None)
    [value] = await responses.under(picked)
    assert (value["text"], json.loads(value["object"])) == (None, {"choice": 3})


async def test_a_stream_carries_text_as_it_comes_and_each_object_as_a_line(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))

    def script(call: Call) -> Iterator[Delta]:
        words = [CHALK + "\n", FLINT[:9], FLINT[9:]] if "Define" in call.messages[-1].text else ["a", "b"]
        yield from map(Delta, words)
        yield Delta(finish_reason="stop")

    await house.work(flow, script)

    text = await responses.under(await house.send(flow, "say", streaming=True, text="ab"))
    lines = await responses.under(await house.send(flow, "define", streaming=True, text="chalk"))

    assert [piece["text"] for piece in text] == ["a", "b", ""]
    assert [json.loads(piece["text"]) for piece in lines[:-1]] == [json.loads(CHALK), json.loads(FLINT)]
    assert lines[-1]["text"] == ""
    assert [piece["end_of_stream"] for piece in text + lines] == [False, False, True] * 2


async def test_streamed_json_value_is_sent_as_text_and_as_object(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(
        flow, lambda call: '```json\n{"choice": 1}\n```' if "Pick" in call.messages[-1].text else "[]"
    )

    [value] = await responses.under(await house.send(flow, "pick", streaming=True, text="x"))
    [none] = await responses.under(await house.send(flow, "define", streaming=True, text="x"))

    assert json.loads(value["text"]) == json.loads(value["object"]) == {"choice": 1}
    assert (none["text"], none["object"]) == ("", "[]")


async def test_large_streamed_json_value_is_sent_whole_as_text_only(house: House) -> None:
    flow = house.flow(budget=Budget(characters=None))
    flow = replace(flow, outputs=replace(flow.outputs, answers=None, objects={}))
    responses = await house.hear(house.topic("responses"))
    most = '{"choice": 1' + " " * 10 + ', "padding": "' + "x" * 3_000_000 + '"}'
    await house.work(flow, lambda call: most)

    [value] = await responses.under(await house.send(flow, "pick", streaming=True, text="x"))

    assert json.loads(value["text"]) == json.loads(most)
    assert (value["object"], value["error"]) == (None, None)


async def test_empty_text_has_an_object_that_trustgraphs_client_can_decode(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: "")

    [response] = await responses.under(await house.send(flow, "say", text="x"))
    [end] = await responses.under(await house.send(flow, "say", streaming=True, text="x"))

    # which decodes the object of whatever has no text, except at the end of a stream
    assert (response["error"], response["text"], response["object"]) == (None, "", '""')
    assert (end["error"], end["text"], end["object"]) == (None, "", None)


async def test_objects_of_a_mixed_extraction_go_to_the_topic_of_their_type(house: House) -> None:
    outputs = Outputs(
        answers=house.topic("answers"),
        response=house.topic("responses"),
        objects={"definition": house.topic("definitions"), "": house.topic("rest")},
    )
    flow = house.flow(outputs=outputs)
    definitions, rest = await house.hear(house.topic("definitions")), await house.hear(house.topic("rest"))
    await house.work(
        flow,
        lambda call: '{"type": "definition", "name": "d"}\n{"type": "relationship", "name": "r"}\n',
    )

    await house.send(flow, "mix", text="x")

    assert json.loads((await definitions.until(1))[0].data)["name"] == "d"
    assert json.loads((await rest.until(1))[0].data)["name"] == "r"


async def test_objects_of_a_chunk_name_the_chunk_and_its_collection(house: House) -> None:
    flow = house.flow(
        input=Input(house.topic("chunks"), "prompt--default--f--request", kind="chunk"),
        outputs=Outputs(answers=house.topic("answers"), objects={"": house.topic("objects")}),
        prompt="define",
    )
    objects, answers = await house.hear(house.topic("objects")), await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: CHALK)

    await house.put(flow.input.topic, Chunk(Metadata("urn:c", "urn:d", "docs"), "On chalk", "urn:c").encode())

    [published] = await objects.until(1)
    assert published.properties["chunk"] == "urn:c"
    assert published.properties["collection"] == "docs"
    [record] = await answers.until(1)
    assert Answer.decode(record.data).source["root"] == "urn:d"


BAD = {
    "not JSON": (b"hello", "not JSON"),
    "no object": (b"[1, 2]", "expected an object"),
    "nested without end": (b"[" * 100_000, "not JSON"),
    "wrong field types": (b'{"id": 1}', "PromptRequest/id"),
    "a term that is no JSON": (b'{"id": "say", "terms": {"text": "oops"}}', "terms/text"),
    "a term that is no string": (b'{"id": "say", "terms": {"text": 1}}', "terms/text"),
    "no prompt named": (b'{"terms": {}}', "PromptRequest/id is missing"),
    "an unknown prompt": (b'{"id": "nope", "terms": {}}', "nope"),
}


async def test_a_bad_message_is_answered_and_buried_with_its_reason_and_stops_nothing(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    await house.work(flow, lambda call: asked(call))

    for id, (data, _) in BAD.items():
        await house.put(flow.input.topic, data, {"id": id})
    await house.put(flow.input.topic, b'{"id": "say", "terms": {}}')  # no id: nobody could match an answer
    good = await house.send(flow, "say", text="ok")

    [answer] = await responses.under(good)
    assert answer["text"] == "Say ok"
    for id, (_, says) in BAD.items():
        [response] = await responses.under(id)
        assert says in response["error"]["message"], id
    letters = {message.properties.get("id"): message for message in await dead.until(len(BAD) + 1)}
    assert letters.keys() == {*BAD, None}
    assert all(message.properties["reason"] for message in letters.values())
    assert letters["not JSON"].data == b"hello"
    assert "no valid property `id`" in letters[None].properties["reason"]


async def test_a_provider_that_is_away_for_now_is_asked_again(house: House) -> None:
    flow = house.flow(deliveries=3)
    responses = await house.hear(house.topic("responses"))
    calls = 0

    def script(call: Call) -> str:
        nonlocal calls
        calls += 1
        if calls <= 4:
            raise ProviderUnavailable("not yet")
        return "here"

    await house.work(flow, script)

    [response] = await responses.under(await house.send(flow, "say", text="x"))

    assert response["text"] == "here"


async def test_a_provider_that_stays_away_ends_in_an_error_and_a_dead_letter(house: House) -> None:
    flow = house.flow(deliveries=2)
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))

    def script(call: Call) -> str:
        raise ProviderRateLimit("slow down", retry_after=0.01)

    await house.work(flow, script)
    id = await house.send(flow, "say", text="x")

    [response] = await responses.under(id)
    assert response["error"]["type"] == "llm-error"
    assert "slow down" in response["error"]["message"]
    [letter] = await dead.until(1)
    assert letter.properties["prompt"] == "say"
    assert "slow down" in letter.properties["reason"]
    [record] = await answers.until(1)
    assert Answer.decode(record.data).reason == "provider_error"


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_call_that_was_never_made_uses_up_no_delivery(house: House, persistent: bool) -> None:
    flow = house.flow(persistent=persistent, deliveries=1)
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    tries = 0

    def script(call: Call) -> str:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise ProviderPaused("no calls for now", retry_after=0.01)
        return "here"

    await house.work(flow, script)

    [response] = await responses.under(await house.send(flow, "say", text="x"))

    assert response["text"] == "here"
    [record] = await answers.until(1)
    assert len(Answer.decode(record.data).calls) == 1


async def test_rate_limit_pause_beyond_the_budget_is_an_error_at_once(house: House) -> None:
    flow = house.flow(budget=Budget(seconds=7))
    responses = await house.hear(house.topic("responses"))
    calls = 0

    def script(call: Call) -> str:
        nonlocal calls
        calls += 1
        raise ProviderRateLimit("slow down", retry_after=1e9)

    await house.work(flow, script)

    [response] = await responses.under(await house.send(flow, "say", text="x"))

    assert "asked for a pause of" in response["error"]["message"]
    assert calls == 1


async def test_a_request_that_comes_twice_is_answered_twice_and_paid_once(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    calls = 0

    def script(call: Call) -> str:
        nonlocal calls
        calls += 1
        return CHALK

    await house.work(flow, script)

    await house.send_twice(flow, "define", id="the-same", text="x")
    messages = await responses.until(2)

    assert [message.properties["id"] for message in messages] == ["the-same"] * 2
    assert messages[0].data == messages[1].data
    assert calls == 1


async def test_two_requests_with_the_same_content_are_two_requests(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    texts = iter(["first", "second"])
    await house.work(flow, lambda call: next(texts))

    ids = [await house.send(flow, "say", text="x") for _ in range(2)]

    assert {(await responses.under(id))[0]["text"] for id in ids} == {"first", "second"}


async def test_no_more_requests_are_in_work_than_the_flow_allows(house: House) -> None:
    flow = house.flow(concurrency=2)
    responses = await house.hear(house.topic("responses"))
    model = Counting()
    await house.work(flow, model)
    for n in range(8):
        await house.send(flow, "say", text=str(n))
    await responses.until(8)

    assert model.most == 2


@pytest.mark.parametrize("persistent", [True, False])
async def test_stopping_under_load_loses_nothing_that_was_received(house: House, persistent: bool) -> None:
    flow = house.flow(persistent=persistent, concurrency=4)
    responses = await house.hear(house.topic("responses"))
    first = await house.work(flow, lambda call: asked(call))

    ids = [await house.send(flow, "say", text=str(n)) for n in range(30)]
    await first.stop()
    if persistent:
        await house.work(flow, lambda call: asked(call))
    await responses.until(30)

    assert sorted(message.properties["id"] for message in await responses.all()) == sorted(ids)


async def test_requests_beyond_the_drain_are_left_to_others_or_answered_with_an_error(house: House) -> None:
    started = asyncio.Event()

    def stuck(call: Call) -> ScriptedAnswer:
        started.set()
        return ScriptedAnswer("late", delay=3600)

    persistent, volatile = house.flow(concurrency=2), house.flow(persistent=False, concurrency=2, name="v")
    responses = await house.hear(house.topic("responses"))
    for flow in (persistent, volatile):
        started.clear()
        working = await house.work(flow, stuck, drain_timeout=0.1)
        ids = [await house.send(flow, "say", text=str(n)) for n in range(5)]
        await started.wait()
        await working.stop()
        if flow is volatile:
            for id in ids:
                [response] = await responses.under(id)
                assert response["error"]["type"] == "shutting-down"
    assert len(await responses.all()) == 5

    await house.work(persistent, lambda call: asked(call))
    await responses.until(10)
