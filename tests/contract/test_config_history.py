"""The history of the config topic; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.support.workers import ENTRIES, House, entry
from trustgraph_prompt.broker import Broker, Producer
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.errors import BrokerUnavailable, ConfigError
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts.prompt_set import SYSTEM_KEY
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.config import apply, config_topic, history, versions
from trustgraph_prompt.worker.config.history import Author
from trustgraph_prompt.worker.config.versions import EntryVersions, Text

A, B, C = entry("A {{ text }}"), entry("B {{ text }}"), entry("C {{ text }}")
ANN, BOB = Author("ann", "better"), Author("bob", "shorter")
KEY = "template.say"


async def push(
    house: House, changes: dict[str, str], author: Author = ANN, broker: Broker | None = None
) -> str:
    topic = house.topic("config")
    return await history.push(broker or house.broker, "default", changes, author, topic=topic)


async def kept(house: House, files: Mapping[str, str] | None = None) -> EntryVersions:
    async def read(topic: str, workspace: str | None) -> Any:
        return await config_topic.messages(house.broker, workspace, topic=topic)

    return await versions.read(read, "default", files, topic=house.topic("config"))


def version(entries: dict[str, str], id: str = "say") -> str:
    return PromptSet.build({**history.bundled_system(), **entries}).prompts[id].version


async def test_every_change_is_kept_with_author_time_and_reason(house: House) -> None:
    await push(house, {KEY: A, "template.other": C})
    await push(house, {KEY: B, "template.other": C}, BOB)
    await push(house, {KEY: ""}, BOB)

    found = await kept(house)

    assert [
        (change.action, change.entry, change.version, change.replaced, change.by, change.why)
        for change in found.of_entry(KEY)
    ] == [
        ("push", A, version({KEY: A}), None, "ann", "better"),
        ("push", B, version({KEY: B}), version({KEY: A}), "bob", "shorter"),
        ("delete", "", None, version({KEY: B}), "bob", "shorter"),
    ]
    assert len(found.of_entry("template.other")) == 1  # the second push left it as it was
    assert all(change.published > 0 for change in found.changes)
    assert found.previous(KEY).entry == B


def system(text: str) -> str:
    return json.dumps({"dialect": "jinja", "prompt": text})


@pytest.mark.parametrize(
    "files",
    [{}, {"system": system("Be brief.")}, history.bundled_system()],
    ids=["no system message", "another one", "the bundled one"],
)
async def test_versions_are_those_of_a_worker_whatever_its_files_say(
    house: House, files: dict[str, str]
) -> None:
    """A push does not know the files, and the worker may have stopped when the history is read."""
    house.base = files
    worker = await house.work(house.flow(), lambda call: "", config=True)
    entries: dict[str, str] = {}
    served: list[str] = []
    for changes in ({KEY: A}, {KEY: B}, {"system": system("Be stern.")}, {KEY: C}, {"system": ""}, {KEY: A}):
        await push(house, changes)
        entries |= changes
        present = {**files, **{key: text for key, text in entries.items() if text}}
        served.append(PromptSet.build(present).prompts["say"].version)
    await worker.stop()

    found = await kept(house)
    made = found.of_entry(KEY)
    assert [change.version_of(KEY) for change in made] == served
    replaced = [change.replaced for change in made if change.key == KEY]
    assert replaced == [None, served[0], served[2], served[4]]
    assert found.text(KEY).version == found.find(KEY, served[0]).version == served[0] == served[-1]
    assert found.previous(KEY).version == served[4]


async def test_an_owner_who_applies_prompts_is_recorded(house: House) -> None:
    topic = house.topic("config")

    async def applied(wanted: dict[str, str]) -> None:
        async def read(topic: str) -> dict[str, bytes]:
            return await config_topic.entries(house.broker, "default", topic=topic)

        plan, _ = await apply.propose(read, "ns/r", wanted, topic=topic)
        await apply.carry_out(house.broker, "default", "ns/r", plan, topic=topic, author=BOB)

    await applied({KEY: A})
    await applied({KEY: A})
    await applied({})
    assert [(change.action, change.by) for change in (await kept(house)).changes] == [
        ("push", "bob"),
        ("delete", "bob"),
    ]


async def test_two_pushes_at_the_same_time_overwrite_no_record(house: House) -> None:
    texts = [entry(f"{number} {{{{ text }}}}") for number in range(8)]
    async with asyncio.TaskGroup() as pushing:
        for text in texts:
            pushing.create_task(push(house, {KEY: text}))
    found = await kept(house)
    assert sorted(change.entry for change in found.of_entry(KEY)) == sorted(texts)
    assert found.on_topic[KEY].entry == found.present[KEY]


class BrokerThatDiesAfterTheHistory(BrokerWrapper):
    def _producer(self, producer: Producer) -> Producer:
        if not producer.topic.endswith("-history"):

            async def refuse(*arguments: Any, **options: Any) -> str:
                raise BrokerUnavailable("gone")

            cast(Any, producer).send = refuse
        return producer


async def test_a_push_that_died_is_shown_as_such_and_never_rolled_back_to(house: House) -> None:
    await push(house, {KEY: A})
    with pytest.raises(BrokerUnavailable):
        await push(house, {KEY: B}, broker=BrokerThatDiesAfterTheHistory(house.broker))
    found = await kept(house)
    assert found.unpublished == [KEY]
    assert found.text(KEY).entry == A
    with pytest.raises(ConfigError, match="no version before the present one"):
        found.previous(KEY)

    await push(house, {KEY: C})
    assert (await kept(house)).unpublished == []


async def test_entry_published_without_a_history_is_recorded_when_it_is_replaced(house: House) -> None:
    await config_topic.push(house.broker, "default", {KEY: A}, topic=house.topic("config"))
    assert [change.action for change in (await kept(house)).of_entry(KEY)] == ["found"]
    await push(house, {KEY: B})
    found = await kept(house)
    assert [(change.action, change.entry) for change in found.of_entry(KEY)] == [("found", A), ("push", B)]
    assert found.previous(KEY).version == version({KEY: A})


async def test_entry_found_again_overwrites_no_record(house: House) -> None:
    for text in (B, C):
        await config_topic.push(house.broker, "default", {KEY: A}, topic=house.topic("config"))
        await push(house, {KEY: text})
    found = await kept(house)
    assert [(change.action, change.entry) for change in found.of_entry(KEY)] == [
        ("found", A),
        ("push", B),
        ("found", A),
        ("push", C),
    ]


async def test_a_new_system_message_is_in_the_history_of_the_prompts_that_use_it(house: House) -> None:
    brief, own = json.dumps("Be brief."), entry("Own {{ text }}", system="Mine.")
    await push(house, {KEY: A, "template.own": own})
    await push(house, {SYSTEM_KEY: brief}, BOB)
    found = await kept(house)

    now = version({KEY: A, SYSTEM_KEY: brief})
    assert [change.version_of(KEY) for change in found.of_entry(KEY)] == [version({KEY: A}), now]
    assert [change.key for change in found.of_entry("template.own")] == ["template.own"]
    assert found.find(KEY, now[:8]).system == brief
    assert found.previous(KEY) == found.find(KEY, version({KEY: A})[:8])
    assert found.text("template.own").system is None

    await push(house, {SYSTEM_KEY: ""})
    found = await kept(house)
    assert found.text(KEY).version == version({KEY: A})


async def test_the_version_of_an_answer_leads_to_the_text_that_made_it(house: House) -> None:
    house.base = {SYSTEM_KEY: ENTRIES[SYSTEM_KEY], "template.filed": entry("Filed {{ text }}")}
    await push(house, {KEY: A})
    await house.work(house.flow(), lambda call: call.messages[-1].text, config=True)
    answers = await house.hear(house.topic("answers"))
    await house.send(house.flow(), "say", text="x")
    await house.send(house.flow(), "filed", text="x")
    await answers.until(2)
    await push(house, {KEY: B})

    found = await kept(house, house.base)
    made = {answer.prompt: answer.version for answer in (Answer.decode(m.data) for m in answers.messages)}
    assert found.find(KEY, made["say"]) == Text(made["say"], A, ENTRIES[SYSTEM_KEY])
    assert found.find("template.filed", made["filed"][:12]).entry == house.base["template.filed"]


async def test_hostile_records_are_skipped(house: House) -> None:
    await push(house, {KEY: A})
    shapes: dict[str, bytes] = {
        f"default/{KEY}@1": b"no json",
        f"default/{KEY}@2": b"[" * 5000,
        f"default/{KEY}@3": b"[]",
        f"default/{KEY}@4": b'{"entry": 1}',
        f"default/{KEY}@5": b'{"versions": {"say": 1}}',
        f"default/{KEY}@6": b"\xff",
        f"default/{KEY}": b"{}",
        "default/@": b"{}",
    }
    for key, data in shapes.items():
        await house.put(house.topic("config-history"), data, key=key)
    await house.put(house.topic("config-history"), b'{"entry": "{"}', key=f"default/{KEY}@7")

    await push(house, {KEY: B})

    found = await kept(house)
    assert {f"default/{key}" for key in found.skipped} == shapes.keys()
    assert [change.entry for change in found.of_entry(KEY)] == [A, "{", B]
    assert found.previous(KEY).entry == A


async def test_unknown_prompt_or_version_error_names_the_known_ones(house: House) -> None:
    await push(house, {KEY: A})
    await push(house, {KEY: B})
    found = await kept(house)
    known = [version({KEY: A}), version({KEY: B})]

    with pytest.raises(ConfigError, match="no prompt 'sya', did you mean 'say'"):
        found.of_entry("template.sya")
    with pytest.raises(ConfigError, match=", expected " + ", ".join(each[:12] for each in known)):
        found.find(KEY, "x")
    with pytest.raises(ConfigError, match="several versions begin like this"):
        found.find(KEY, "")


async def test_an_empty_history_says_so(house: House) -> None:
    found = await kept(house)
    assert found.changes == []
    with pytest.raises(ConfigError, match="it is empty"):
        found.text(KEY)
