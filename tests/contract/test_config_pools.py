"""Pools of examples on the config topic, in whatever order they and their prompts come; over every broker."""

from __future__ import annotations

import json

from tests.support import pools
from tests.support.workers import House
from trustgraph_prompt.llm import Call
from trustgraph_prompt.worker.config import config_topic, history
from trustgraph_prompt.worker.config.history import NOBODY
from trustgraph_prompt.worker.config.source import MORE
from trustgraph_prompt.worker.messages.answer_record import Answer

PASSAGE = "Stalker is a film by Andrei Tarkovsky."


class Model:
    """Answers with one film, and remembers what it was shown."""

    def __init__(self, answer: str = '{"film": "Stalker", "by": "Andrei Tarkovsky"}') -> None:
        self.answer = answer
        self.calls: list[Call] = []

    def __call__(self, call: Call) -> str:
        self.calls.append(call)
        return self.answer

    @property
    def shown(self) -> list[str]:
        return [message.text for message in self.calls[-1].messages if message.is_example][::2]


async def push(house: House, **changes: str) -> None:
    await config_topic.push(house.broker, "default", changes, topic=house.topic("config"))


async def asked(house: House, text: str = PASSAGE) -> Answer:
    answers = await house.hear(house.topic("answers"))
    await house.send(house.flow(), "films", text=text)
    return Answer.decode((await answers.until(1))[0].data)


async def test_worker_shows_the_nearest_texts_and_its_record_names_them(house: House) -> None:
    model = Model()
    await push(house, **pools.entries())
    working = await house.work(house.flow(), model, config=True)
    record = await asked(house)

    definition = working.worker.prompts["default"].prompts["films"]
    assert model.shown == [pools.FILMS[3][0], pools.FILMS[1][0]]
    assert record.examples == tuple(turn.id for turn in definition.chooser.nearest({"text": PASSAGE}))


async def test_worker_shows_no_passage_to_itself(house: House) -> None:
    model = Model("[]")
    await push(house, **pools.entries(show=4))
    await house.work(house.flow(), model, config=True)
    await asked(house, pools.FILMS[1][0])
    assert model.shown == [pools.FILMS[3][0]]


async def test_prompt_that_comes_before_its_pool_is_refused_until_the_pool_comes(house: House) -> None:
    key, prompt = pools.entries().items()
    reports = await house.hear_refusals()
    working = await house.work(house.flow(), Model(), config=True)

    await push(house, **dict([prompt]))
    [report] = await reports.until(1)
    assert report.key == "default/template.films"
    said = json.loads(report.data)
    assert said["message"] == "its pool of examples is not there"
    assert key[0] in said["expected"]

    await push(house, **dict([key]))
    mended = (await reports.until(2))[1]
    assert (mended.key, mended.data) == ("default/template.films", b"")
    assert working.worker.prompts["default"].prompts["films"].pool


async def test_prompt_is_served_after_a_restart_though_its_pool_comes_later_on_the_topic(
    house: House,
) -> None:
    key, prompt = pools.entries().items()
    for change in (prompt, key):
        await push(house, **dict([change]))
    working = await house.work(house.flow(), Model(), config=True)
    assert not working.worker.health.notes()
    assert (await asked(house)).examples


async def test_pool_is_published_before_its_prompt_and_once(house: House) -> None:
    topic = house.topic("config")
    key, template = pools.entries()
    there = []
    for show in (1, 2):
        turned = dict(reversed(pools.entries(show=show).items()))
        await history.push(house.broker, "default", turned, NOBODY, topic=topic)
        there.append(await config_topic.messages(house.broker, "default", topic=topic))
    assert MORE in there[0][key].properties
    assert MORE not in there[0][template].properties
    assert there[0][key].id == there[1][key].id
    assert there[0][template].id != there[1][template].id
    records = await house.published(f"config{history.HISTORY}")
    assert all((each.key or "").startswith("default/template.films@") for each in records)
    versions = [json.loads(each.data)["version"] for each in records]
    assert len(set(versions)) == 2
    assert versions[1] == pools.prompts(show=2).prompts["films"].version


async def test_echo_of_a_nearest_example_is_refused_where_one_end_is_shared(house: House) -> None:
    model = Model('{"film": "Solaris", "by": "Andrei Tarkovsky"}')
    await push(house, **pools.entries())
    await house.work(house.flow(), model, config=True)
    record = await asked(house)
    assert not record.objects
    assert record.rejected[0]["issues"][0]["reason"] == "echoed"


async def test_pool_that_is_not_valid_costs_its_prompt_and_no_other(house: House) -> None:
    reports = await house.hear_refusals()
    given = pools.entries()
    key = next(iter(given))
    given["template.other"] = json.dumps({"dialect": "jinja", "prompt": "Say A"})
    await push(house, **{**given, key: '{"term":"text","texts":[]}'})
    working = await house.work(house.flow(), Model(), config=True)
    [report] = await reports.until(1)
    assert "another hash than its key" in json.loads(report.data)["message"]
    assert list(working.worker.prompts["default"].prompts) == ["other"]
