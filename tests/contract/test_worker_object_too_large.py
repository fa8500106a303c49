"""One object that no message can carry, among others that go out; over every broker."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.workers import House
from trustgraph_prompt import wire
from trustgraph_prompt.broker.retry_and_dead_letters import MAX_MESSAGE_SIZE
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.llm import Call, Delta
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.flow import Outputs

GOOD = [{"entity": f"stone {number}", "definition": "hard"} for number in range(101)]
LONG = Budget(characters=None)
LARGE = {"entity": "sand", "definition": "fine " * (6_000_000 // 5)}
ALL = [*GOOD[:50], LARGE, *GOOD[50:]]


def lines(*objects: object) -> list[Delta]:
    return [Delta("\n".join(map(json.dumps, objects)), finish_reason="stop")]


def brim() -> dict[str, str]:
    """An object that fills a message, which leaves no room for properties."""
    bare = {"entity": "sand", "definition": ""}
    return bare | {"definition": "x" * (MAX_MESSAGE_SIZE - len(wire.encode(bare)))}


def everything(call: Call) -> list[Delta]:
    return lines(*ALL)


async def test_too_large_object_is_refused_and_the_rest_is_published(
    house: House,
) -> None:
    flow = house.flow(budget=LONG)
    responses = await house.hear(house.topic("responses"))
    objects = await house.hear(house.topic("objects"))
    answers = await house.hear(house.topic("answers"))
    asked: list[Call] = []

    def model(call: Call) -> list[Delta]:
        asked.append(call)
        return everything(call)

    await house.work(flow, model)
    id = await house.send(flow, "define", text="On stones")

    [response] = await responses.under(id)
    assert response["error"] is None
    assert json.loads(response["object"]) == GOOD
    assert response["rejected"] == 1
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    published = await objects.until(101)
    assert set(answer.objects) == {message.properties["id"] for message in published}
    assert (answer.reason, answer.rejected_count, len(answer.objects)) == ("success", 1, 101)
    [refused] = answer.rejected
    assert (refused["index"], refused["issues"][0]["reason"]) == (50, "too_large")
    assert refused["issues"][0]["message"].endswith(f"bytes, at most {MAX_MESSAGE_SIZE:,} fit into a message")
    assert refused["raw"].startswith('{"entity":"sand"')

    await house.send(flow, "define", id=id, text="On stones")  # delivered again: it is not paid again
    [_, again] = [json.loads(message.data) for message in await responses.until(2)]
    assert json.loads(again["object"]) == GOOD
    assert len(asked) == 1


async def test_a_stream_leaves_out_the_object_that_is_refused(house: House) -> None:
    flow = house.flow(budget=LONG)
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, everything)

    told = await responses.under(await house.send(flow, "define", streaming=True, text="On stones"))

    assert [response["error"] for response in told] == [None] * len(told)
    text = "".join(response["text"] or "" for response in told)
    assert [json.loads(line) for line in text.splitlines()] == GOOD
    assert told[-1]["rejected"] == 1


async def test_response_leaves_out_a_too_large_object_where_no_objects_are_published(house: House) -> None:
    outputs = Outputs(response=house.topic("responses"), answers=house.topic("answers"))
    flow = house.flow(budget=LONG, outputs=outputs)
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, everything)

    [response] = await responses.under(await house.send(flow, "define", text="On stones"))

    assert (response["error"], response["rejected"]) == (None, 1)
    assert json.loads(response["object"]) == GOOD
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (len(answer.objects), answer.rejected_count) == (101, 1)


async def test_large_object_is_accepted_where_no_message_has_to_carry_it(house: House) -> None:
    flow = house.flow(budget=LONG, outputs=Outputs(answers=house.topic("answers")))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, everything)

    await house.send(flow, "define", text="On stones")

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (len(answer.objects), answer.rejected_count) == (102, 0)


async def test_object_that_its_properties_make_too_large_is_refused(house: House) -> None:
    flow = house.flow(budget=LONG)
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: lines(*GOOD, brim()))

    [response] = await responses.under(await house.send(flow, "define", text="On stones"))

    assert json.loads(response["object"]) == GOOD
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (len(answer.objects), answer.rejected_count) == (101, 1)
    assert "a message of" in answer.rejected[0]["issues"][0]["message"]


async def test_stream_leaves_out_an_object_that_its_properties_make_too_large(house: House) -> None:
    flow = house.flow(budget=LONG)
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: lines(*GOOD[:50], brim(), *GOOD[50:]))

    told = await responses.under(await house.send(flow, "define", streaming=True, text="On stones"))

    assert [response["error"] for response in told] == [None] * len(told)
    text = "".join(response["text"] or "" for response in told)
    assert [json.loads(line) for line in text.splitlines()] == GOOD
    assert told[-1]["rejected"] == 1


async def test_trustgraphs_clients_get_the_rest(house: House) -> None:
    flow = replace(
        house.flow(budget=LONG, outputs=Outputs(response=house.topic("responses"))), trustgraph=True
    )
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, everything)

    [response] = await responses.under(await house.send(flow, "define", text="On stones"))

    assert response["error"] is None
    assert json.loads(response["object"]) == GOOD


async def test_answer_with_only_a_too_large_object_has_that_as_its_reason(house: House) -> None:
    flow = house.flow(budget=LONG)
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: lines(LARGE))

    [response] = await responses.under(await house.send(flow, "define", text="On stones"))

    assert (response["error"], response["object"], response["rejected"]) == (None, "[]", 1)
    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    assert (answer.reason, answer.objects, answer.rejected_count) == ("too_large", (), 1)


async def test_a_single_value_that_is_too_large_is_an_error_of_the_request(house: House) -> None:
    flow = house.flow(budget=LONG)
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: lines({"choice": LARGE}))

    [response] = await responses.under(await house.send(flow, "pick", text="one"))

    assert response["error"]["type"] == "too-large"
