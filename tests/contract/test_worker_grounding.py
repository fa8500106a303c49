"""What is published stands in the text that was asked about, and says where."""

from __future__ import annotations

import json

import pytest

from tests.support.workers import House
from trustgraph_prompt.wire import encode
from trustgraph_prompt.worker import Answer

ETNA = {"entity": "Etna", "definition": "a volcano"}
CHALK = {"entity": "chalk", "definition": "a soft white limestone"}
FLINT = {"entity": "flint", "definition": "a hard stone"}
ANSWER = b"\n".join(map(encode, (ETNA, CHALK, FLINT))).decode()


@pytest.mark.parametrize("streaming", [False, True])
async def test_ungrounded_objects_are_rejected_and_grounded_ones_say_where(
    house: House, streaming: bool
) -> None:
    flow = house.flow()
    answers = await house.hear(house.topic("answers"))
    objects = await house.hear(house.topic("objects"))
    working = await house.work(flow, lambda call: ANSWER)

    await house.send(flow, "vouch", text="On Chalk.", streaming=streaming)

    [record] = await answers.until(1)
    answer = Answer.decode(record.data)
    [published] = await objects.all()
    where = {"/entity": {"term": "text", "kind": "folded", "score": 1.0, "spans": [[3, 8]]}}
    assert json.loads(published.data) == CHALK
    assert json.loads(published.properties["grounding"]) == where
    assert answer.grounding == {answer.objects[0]: where}
    assert [one["issues"][0]["reason"] for one in answer.rejected] == ["ungrounded", "ungrounded"]
    await working.stop()
    metrics = working.worker.metrics.text().decode()
    assert 'objects_rejected_total{flow="f",prompt="vouch",reason="ungrounded"} 2.0' in metrics
    assert 'ungrounded_total{flow="f",key="entity",prompt="vouch"} 2.0' in metrics


async def test_the_same_objects_are_published_where_the_text_speaks_of_them(house: House) -> None:
    flow = house.flow()
    objects = await house.hear(house.topic("objects"))
    await house.work(flow, lambda call: ANSWER)

    await house.send(flow, "vouch", text="On chalk, flint and Etna.")

    published = [json.loads(one.data) for one in await objects.until(3)]
    assert sorted(published, key=str) == sorted([ETNA, CHALK, FLINT], key=str)


async def test_answer_with_only_ungrounded_objects_is_an_unusable_answer(house: House) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    answers = await house.hear(house.topic("answers"))
    await house.work(flow, lambda call: ANSWER)

    [response] = await responses.under(await house.send(flow, "vouch", text="On slate."))

    assert (response["error"]["type"], response["object"]) == ("unusable-answer", None)
    [record] = await answers.until(1)
    assert Answer.decode(record.data).reason == "ungrounded"
    assert "not in the passage" in Answer.decode(record.data).why


async def test_object_of_a_prompt_without_grounding_has_no_grounding_property(house: House) -> None:
    flow = house.flow()
    objects = await house.hear(house.topic("objects"))
    await house.work(flow, lambda call: ANSWER)

    await house.send(flow, "define", text="On slate.")

    assert all("grounding" not in one.properties for one in await objects.until(3))
