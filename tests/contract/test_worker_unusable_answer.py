"""An answer that has no object, and does not say that there is none, does not look like success."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.support.workers import Heard, House
from trustgraph_prompt.broker import topics
from trustgraph_prompt.llm import Call
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker import Answer, Flow
from trustgraph_prompt.worker.messages.answer_record import AnswerFilter, search

SORRY = "I'm sorry, I can't do that"
CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'


def letters(flow: Flow) -> str:
    return topics.dead_letter_topic(flow.input.topic, flow.input.subscription)


async def all_of(house: House, flow: Flow) -> list[Heard]:
    """Its responses, answer records and dead letters."""
    return [
        await house.hear(each) for each in (house.topic("responses"), house.topic("answers"), letters(flow))
    ]


@pytest.mark.parametrize(
    ("answer", "reason", "told"),
    [
        (SORRY, "extraction_failed", "no object in the answer"),
        ("", "empty", "the answer is empty"),
        ('{"entity": "chalk"}', "schema_missing_field", '"definition" is missing'),
    ],
)
async def test_unusable_answer_is_an_error_and_a_dead_letter_after_its_attempts(
    house: House, answer: str, reason: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow()
    responses, answers, dead = await all_of(house, flow)
    working = await house.work(flow, lambda call: answer)

    [response] = await responses.under(await house.send(flow, "insist", text="rocks"))

    assert (response["error"]["type"], response["object"]) == ("unusable-answer", None)
    assert told in response["error"]["message"]
    [record] = await answers.until(1)
    kept = Answer.decode(record.data)
    assert (kept.reason, [call["why"] for call in kept.calls]) == (reason, ["first", "invalid"])
    assert kept.gave_nothing
    assert told in kept.why
    [letter] = await dead.until(1)
    assert letter.properties["error"] == "unusable-answer"
    assert letter.properties["reason"].startswith(f"{reason}: ")
    assert f"{reason}: the answer has no valid object" in " ".join(
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    )
    await working.stop()
    metrics = working.worker.metrics.text().decode()
    assert f'trustgraph_prompt_outcomes_total{{flow="f",prompt="insist",reason="{reason}"}} 1.0' in metrics
    assert 'trustgraph_prompt_dead_letters_total{error="unusable-answer",flow="f"} 1.0' in metrics


@pytest.mark.parametrize("answer", [SORRY, "", '{"entity": "chalk"}'])
async def test_unusable_answer_is_an_empty_list_where_the_flow_says_so(
    house: House, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow(unusable="answer")
    responses, answers, dead = await all_of(house, flow)
    working = await house.work(flow, lambda call: answer)

    [response] = await responses.under(await house.send(flow, "insist", text="rocks"))

    assert (response["error"], response["object"]) == (None, "[]")
    [record] = await answers.until(1)
    assert Answer.decode(record.data).reason != "success"
    assert len(Answer.decode(record.data).calls) == 2
    assert any("has no valid object" in record.getMessage() for record in caplog.records)
    await working.stop()
    assert await dead.all() == []


@pytest.mark.parametrize("answer", ["[]", "```json\n[]\n```", '{"items": []}', "There is none:\n\n[]"])
async def test_a_model_that_says_that_there_is_nothing_has_answered(
    house: House, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    flow = house.flow()
    responses, answers, dead = await all_of(house, flow)
    working = await house.work(flow, lambda call: answer)

    [response] = await responses.under(await house.send(flow, "insist", text="rocks"))

    assert (response["error"], response["object"]) == (None, "[]")
    [record] = await answers.until(1)
    assert (Answer.decode(record.data).reason, Answer.decode(record.data).why) == ("success", "")
    await working.stop()
    assert await dead.all() == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_usable_second_attempt_is_the_answer(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    await house.work(flow, lambda call: SORRY if call.labels["call"] == "1" else "[]")

    [response] = await responses.under(await house.send(flow, "insist", text="rocks"))

    assert (response["error"], response["object"]) == (None, "[]")


async def test_chunk_with_an_unusable_answer_is_a_dead_letter(house: House) -> None:
    flow = house.flow()
    flow = replace(
        flow,
        input=replace(flow.input, kind="chunk"),
        prompt="define",
        outputs=replace(flow.outputs, response=None),
    )
    answers = await house.hear(house.topic("answers"))
    objects = await house.hear(house.topic("objects"))
    dead = await house.hear(letters(flow))

    def model(call: Call) -> str:
        return CHALK if "chalk" in call.messages[-1].text else SORRY

    await house.work(flow, model)
    for name in ("chalk", "flint"):
        chunk = Chunk(Metadata(id=name, root="d"), f"On {name}", document_id=name)
        await house.put(flow.input.topic, chunk.encode())

    await answers.until(2)
    [letter] = await dead.until(1)
    assert letter.properties["reason"] == "extraction_failed: no object in the answer"
    assert len(await objects.all()) == 1


async def test_records_of_unusable_answers_are_found(house: House) -> None:
    flow = house.flow()
    answers = await house.hear(house.topic("answers"))
    said = {"chalk": CHALK, "flint": SORRY, "slate": "[]", "sand": ""}
    await house.work(flow, lambda call: said[call.messages[-1].text.split("\n")[0].rpartition(" ")[2]])
    for number, text in enumerate(said, 1):
        await house.send(flow, "define", id=text, text=text)
        await answers.until(number)

    async def found(choice: AnswerFilter) -> list[tuple[str, str]]:
        records = await search(house.broker, house.topic("answers"), choice)
        return [(answer.request, answer.reason) for _, answer in records]

    assert await found(AnswerFilter("f")) == [
        ("flint", "extraction_failed"),
        ("slate", "success"),
        ("sand", "empty"),
    ]
    assert await found(AnswerFilter("f", reason="empty")) == [("sand", "empty")]
    assert await found(AnswerFilter("f", prompt="say")) == await found(AnswerFilter("g")) == []
