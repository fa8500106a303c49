"""A worker with a cache, at its topics: equal content is paid once, and each request has its own objects."""

from __future__ import annotations

import json

from tests.support.workers import House
from trustgraph_prompt.ask import MemoryCache
from trustgraph_prompt.broker import Message
from trustgraph_prompt.llm import Call
from trustgraph_prompt.worker import Answer

CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'
FLINT = '{"entity": "flint", "definition": "a hard stone found in chalk"}'


class Model:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, call: Call) -> str:
        self.calls += 1
        return f"{CHALK}\n{FLINT}\n"


async def test_equal_requests_are_paid_once_and_have_objects_of_their_own(
    house: House,
) -> None:
    flow, model = house.flow(), Model()
    responses = await house.hear(house.topic("responses"))
    objects = await house.hear(house.topic("objects"))
    answers = await house.hear(house.topic("answers"))
    working = await house.work(flow, model, cache=MemoryCache())

    first = await house.send(flow, "recall", text="On chalk")
    [answered] = await responses.under(first)
    again = await house.send(flow, "recall", text="On chalk")
    [recalled] = await responses.under(again)

    assert model.calls == 1
    assert recalled["object"] == answered["object"]
    assert (recalled["model"], recalled["in_token"], recalled["truncated"]) == ("scripted", None, False)
    published = await objects.until(4)
    ids = {message.properties["id"]: message.properties["request"] for message in published}
    assert sorted(ids.values()) == sorted([first, first, again, again])
    records = {answer.request: answer for answer in map(_answer, await answers.until(2))}
    assert (records[first].cached, records[again].cached) == (False, True)
    assert {ids[id] for id in records[again].objects} == {again}
    assert (records[again].calls, records[again].usage["total_tokens"]) == ((), None)
    text = working.worker.metrics.text().decode()
    for result in ("hit", "miss"):
        labels = f'flow="f",prompt="recall",result="{result}"'
        assert f"trustgraph_prompt_cache_lookups_total{{{labels}}} 1.0" in text


async def test_streamed_request_gets_a_cached_answer_in_lines(house: House) -> None:
    flow, model = house.flow(), Model()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, model, cache=MemoryCache())

    for _ in range(2):
        pieces = await responses.under(await house.send(flow, "recall", streaming=True, text="On chalk"))
        text = "".join(piece["text"] for piece in pieces)
        assert [json.loads(line) for line in text.splitlines()] == [json.loads(CHALK), json.loads(FLINT)]
        assert [piece["end_of_stream"] for piece in pieces][-2:] == [False, True]
    assert model.calls == 1


async def test_prompt_without_cache_is_asked_every_time(house: House) -> None:
    flow, model = house.flow(), Model()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, model, cache=MemoryCache())

    for _ in range(2):
        await responses.under(await house.send(flow, "define", text="On chalk"))

    assert model.calls == 2


async def test_redelivery_is_answered_by_the_journal_and_not_by_the_cache(house: House) -> None:
    flow, model = house.flow(), Model()
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, model, cache=MemoryCache())

    await house.send_twice(flow, "recall", id="twice", text="On chalk")
    await responses.until(2)

    assert model.calls == 1
    assert [_answer(message).cached for message in await answers.all()] == [False]


def _answer(message: Message) -> Answer:
    return Answer.decode(message.data)
