"""A canary under load, and its commands as a person types them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.command import run
from tests.support.worker_processes import Site, Spawned
from tests.support.workers import DEFINITION, Working, entry, listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.llm import ScriptedProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer, Prompts, Service, flow_file
from trustgraph_prompt.worker.canary.record import CANARY, Canary
from trustgraph_prompt.worker.config import config_topic

FLOW = """
name: f
input: {{topic: "persistent://{space}/flow/in"}}
outputs:
  response: persistent://{space}/flow/out
  answers: persistent://{space}/flow/answers
  objects: persistent://{space}/flow/objects
concurrency: 8
"""
REQUESTS = 2_000
OBJECTS = 10
DEFINE = "template.define"
ANSWER = {
    "request": "k",
    "flow": "f",
    "prompt": "say",
    "version": "v",
    "reason": "success",
    "stage": "native",
    "truncated": False,
    "objects": [],
}
HOSTILE: list[dict[str, object]] = [
    {"rejected": [{}]},
    {"rejected": [{"issues": []}]},
    {"rejected_count": "many"},
    {"usage": []},
    {"usage": {"total_tokens": "many"}},
    {"cost": [1]},
    {"seconds": {}},
    {"seconds": "nan"},
    {"flow": "another"},
    {"flow": {}},
    {"prompt": ["say"]},
]


def define(words: str) -> str:
    return entry(f"{words}: {{{{ text }}}}", **{"response-type": "jsonl", "object-schema": DEFINITION})


def answer(refused: int) -> str:
    """Objects of which the last ones have no definition."""
    valid = [f'{{"entity": "e{n}", "definition": "d"}}' for n in range(OBJECTS - refused)]
    return "\n".join([*valid, *['{"entity": "e"}'] * refused])


async def test_a_canary_answers_its_share_under_load_and_kills_and_is_aborted_by_rule(
    place: tuple[Site, str], request: pytest.FixtureRequest
) -> None:
    site, space = place
    topic = site.config_topic or config_topic.TOPIC
    site.serves(FLOW.format(space=space), {"system": json.dumps("Be careful.")})
    site.answers(
        {"contains": "Better", "answer": answer(refused=4)},
        {"contains": "Define", "answer": answer(refused=2)},
    )
    canary = Canary("c", define("Better define"), 0.2)
    ids = [f"r{n}" for n in range(REQUESTS)]
    new = {id for id in ids if canary.answers(id)}
    where: list[object] = ["--broker", site.url, "--topic", topic, "--flows", site.folder / "flow.yaml"]
    if not site.url.startswith("embedded:"):
        where += ["--admin-url", request.getfixturevalue("pulsar").admin_url]
    async with (
        await connect(site.url) as broker,
        listening(broker, f"persistent://{space}/flow/out") as responses,
    ):
        await config_topic.push(broker, "default", {DEFINE: define("Define")}, topic=topic)
        await config_topic.push(broker, "default", {DEFINE: canary.encode()}, topic=topic + CANARY)
        workers = [await site.run() for _ in range(3)]
        producer = await broker.producer(f"persistent://{space}/flow/in")

        async def send(ids: list[str]) -> None:
            data = {id: PromptRequest.asking("define", {"text": id}).encode() for id in ids}
            await asyncio.gather(*(producer.send(data[id], properties={"id": id}) for id in ids))

        await send(ids[: REQUESTS // 2])
        await responses.until(REQUESTS // 4)
        workers[0].kill()
        await workers[0].wait()
        await send(ids[REQUESTS // 2 :])
        await site.begin()
        assert not await responses.missing(ids)
        async with listening(broker, f"persistent://{space}/flow/objects") as objects:
            table = await broker.table(f"persistent://{space}/flow/answers")
            answers = [Answer.decode(message.data) for message in table.entries.values()]
            await table.close()
            assert not await objects.missing([id for answer in answers for id in answer.objects])
            found = {m.properties["id"]: m.properties for m in objects.messages}
        told = await asyncio.to_thread(run, "config", "canary", "status", "define", *where, "--json")
        decided = await asyncio.to_thread(
            run, "config", "canary", "watch", "define", *where, "--promote-after", 500,
            "--abort-if", "refused > 1.5x", "--abort-if", "objects < 0.7x",
        )  # fmt: skip
        for worker in workers[1:]:
            await worker.says("the canary of prompt define of workspace default has ended")

    assert abs(len(new) / REQUESTS - 0.2) < 0.03
    assert {answer.request for answer in answers if answer.canary == "c"} == new
    versions = {
        side: {each.version for each in answers if (each.canary == "c") is side} for side in (True, False)
    }
    assert [len(each) for each in versions.values()] == [1, 1]
    assert {(o["request"] in new, o["version"]) for o in found.values()} == {
        (side, *version) for side, version in versions.items()
    }
    [status] = json.loads(told.stdout)
    counted = Counter(properties["version"] for properties in found.values())
    for side, name in ((True, "canary"), (False, "served")):
        [version] = versions[side]
        assert status[name]["objects"] == counted[version]
        assert status[name]["versions"] == {version: status[name]["answers"]}
    assert status["canary"]["answers"] == len(new)
    assert status["canary"]["refused"] == {"schema_missing_field": 4 * len(new)}
    assert status["ratios"]["refused"]["value"] == pytest.approx(2.0)
    assert decided.returncode == 1
    assert "aborted: refused > 1.5x, after 50 answers of the canary" in decided.stdout


class Desk:
    """A folder with two versions of a prompt and a flow, and a broker in a file without a worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"embedded:{folder / 'broker.db'}"
        (folder / "flow.yaml").write_text(FLOW.format(space="tg"))
        for name, text in {"old": "Say {{ text }}", "new": "Please say {{ text }}"}.items():
            self.prompt(name, text)
        assert self.config("push", "old").returncode == 0

    def prompt(self, folder: str, text: str, name: str = "say") -> None:
        (self.folder / folder).mkdir(exist_ok=True)
        path = self.folder / folder / f"{name}.yaml"
        path.write_text(f"dialect: jinja\nprompt: {json.dumps(text)}\n")

    def config(self, *arguments: object) -> CompletedProcess[str]:
        return run("config", *arguments, "--broker", self.url, folder=self.folder)

    def canary(self, command: str, *arguments: object) -> CompletedProcess[str]:
        flows = ("--flows", "flow.yaml") if command in ("status", "watch") else ()
        return self.config("canary", command, *arguments, *flows)

    def status(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self.canary("status", "--json").stdout)
        return told

    def history(self) -> list[dict[str, Any]]:
        """The changes, the newest first."""
        return [json.loads(line) for line in self.config("history", "say", "--json").stdout.splitlines()]

    def publish(self, *data: bytes) -> None:
        """Publish on the answers topic, whatever it is."""

        async def publish() -> None:
            async with await connect(self.url) as broker:
                producer = await broker.producer("persistent://tg/flow/answers")
                for number, each in enumerate(data):
                    await producer.send(each, key=f"k{number}")
                await producer.close()

        asyncio.run(publish())

    def keep(self, canary: str | None, count: int, **changes: Any) -> None:
        """Keep answers, as a worker does."""

        async def publish() -> None:
            async with await connect(self.url) as broker:
                producer = await broker.producer("persistent://tg/flow/answers")
                for number in range(count):
                    request = f"{canary}{number}"
                    record = Answer(
                        request, "f", "say", canary or "v", "success", "native", False, ("a", "b")
                    )
                    record = replace(record, canary=canary, **changes)
                    await producer.send(record.encode(), key=record.request)
                await producer.close()

        asyncio.run(publish())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_only_what_differs_becomes_a_canary_and_a_second_one_replaces_it(desk: Desk) -> None:
    same = desk.config("push", "old", "--canary", "10%")
    assert (same.returncode, same.stdout) == (0, "nothing differs from what is served\n")
    assert desk.status() == []

    first = desk.config("push", "new", "--canary", "10%")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "10 % of the requests in workspace default: say\n"
    assert first.stderr == ""
    [before] = desk.status()

    desk.prompt("both", "Say {{ text }}")
    desk.prompt("both", "Hear {{ text }}", "hear")
    desk.config("push", "both")
    desk.prompt("both", "Listen to {{ text }}", "hear")
    some = desk.config("push", "both", "--canary", "10%")
    assert (some.returncode, some.stderr) == (0, "left alone: 1 prompt as served\n")
    assert desk.canary("abort", "hear").returncode == 0

    second = desk.config("push", "new", "--canary", "0.25")
    assert "note: replaces the canary of say that began " in second.stderr
    [after] = desk.status()
    assert (before["share"], after["share"]) == (0.1, 0.25)
    assert before["id"] != after["id"]


@pytest.mark.parametrize(
    ("text", "name", "share", "why"),
    [
        ("Say {{ text }}", "other", "10%", "template.other: workspace default has no such prompt"),
        ("Say {% if %}", "say", "10%", "say.yaml"),
        (
            "Be kind.",
            "system",
            "10%",
            "system: the system message of a workspace cannot have a canary: push it",
        ),
        ("New {{ text }}", "say", "0%", "--canary: the share is not valid (found '0%'"),
        ("New {{ text }}", "say", "100%", "--canary: the share is not valid"),
        ("New {{ text }}", "say", "much", "--canary: the share is not valid"),
    ],
)
def test_canary_that_cannot_be_served_is_an_error(
    desk: Desk, text: str, name: str, share: str, why: str
) -> None:
    desk.prompt("wrong", text, name)
    result = desk.config("push", "wrong", "--canary", share)
    assert result.returncode == 2
    assert why in result.stderr
    assert desk.status() == []


def test_canary_in_a_workspace_without_prompts_is_refused_with_the_reason(desk: Desk) -> None:
    result = desk.config("push", "new", "--canary", "10%", "--workspace", "other")
    assert result.returncode == 2
    assert "--canary: workspace other has no prompts on the config topic to compare with" in result.stderr
    assert "cannot have a canary, because its flows keep no answers" in result.stderr


def test_a_promoted_canary_is_served_and_an_aborted_one_is_not(desk: Desk) -> None:
    desk.config("push", "new", "--canary", "10%", "--by", "ann")
    assert desk.canary("abort", "say").stdout == "ended the canary of say in workspace default\n"
    assert "Please" not in desk.config("get", "template.say").stdout
    canary, served = desk.history()
    assert (canary["action"], canary["by"], canary["current"]) == ("canary", "ann", False)
    assert canary["replaced"] == served["version"]
    assert "Please say" in desk.config("show", f"say@{canary['version'][:12]}").stdout

    desk.config("push", "new", "--canary", "10%", "-m", "politeness")
    assert desk.canary("promote", "say", "--by", "bob").returncode == 0
    assert "Please" in desk.config("get", "template.say").stdout
    newest = desk.history()[0]
    assert (newest["action"], newest["why"], newest["by"]) == ("push", "politeness", "bob")
    assert (newest["version"], newest["current"]) == (canary["version"], True)
    assert desk.status() == []
    for command in ("promote", "abort"):
        missing = desk.canary(command, "say")
        assert missing.returncode == 2
        assert "no prompt of workspace default with this id has a canary" in missing.stderr


def test_the_status_counts_answers_since_both_versions_are_as_they_are(desk: Desk) -> None:
    desk.keep(None, 5)
    desk.config("push", "new", "--canary", "10%")
    [trial] = desk.status()
    desk.keep(None, 30, seconds=1.0)
    desk.keep(trial["id"], 20, truncated=True, cost=0.5)
    desk.keep("an earlier canary", 7)
    desk.publish(b"[]", b"{", *(json.dumps({**ANSWER, **hostile}).encode() for hostile in HOSTILE))

    [trial] = desk.status()
    assert (trial["served"]["answers"], trial["canary"]["answers"]) == (30, 20)
    assert trial["ratios"]["objects"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert trial["ratios"]["truncated"]["low"] > 1
    assert trial["ratios"]["seconds"] is None
    assert trial["canary"]["rates"]["cost"] == 0.5
    shown = desk.canary("status", "say").stdout.splitlines()
    assert shown[0].startswith("say in workspace default: a canary for 10 % of the requests, begun ")
    assert "answers 30 20" in [" ".join(line.split()) for line in shown]

    desk.config("push", "old")
    [trial] = desk.status()
    assert (trial["served"]["answers"], trial["canary"]["answers"]) == (0, 0)


def test_a_rule_promotes_an_equal_version(desk: Desk) -> None:
    desk.config("push", "new", "--canary", "50%")
    [trial] = desk.status()
    desk.keep(None, 60)
    desk.keep(trial["id"], 60)

    watch = desk.canary("watch", "say", "--promote-after", 60, "--abort-if", "objects < 0.7x", "--min", 20)

    assert watch.returncode == 0
    assert "promoted: no rule has fired after 60 answers of the canary" in watch.stdout
    assert "after 20 answers of the canary (98.3 % intervals): objects < 0.7x: 1.00x" in watch.stdout
    assert "Please" in desk.config("get", "template.say").stdout
    assert desk.status() == []


@pytest.mark.parametrize("command", ["promote", "watch"])
def test_a_promotion_that_was_killed_half_way_is_completed(desk: Desk, command: str) -> None:
    desk.config("push", "new", "--canary", "10%")
    desk.config("push", "new")  # as far as the promotion came

    rules = ("--promote-after", 500, "--abort-if", "objects < 0.7x") if command == "watch" else ()
    again = desk.canary(command, "say", *rules)

    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "promoted say in workspace default")
    assert desk.status() == []


async def test_a_watcher_that_was_killed_is_started_again_and_ends_with_the_canary(
    desk: Desk, site: Site
) -> None:
    await asyncio.to_thread(desk.config, "push", "new", "--canary", "50%")
    [trial] = await asyncio.to_thread(desk.status)
    await asyncio.to_thread(desk.keep, None, 60)
    arguments = ("config", "canary", "watch", "say", "--promote-after", "500", "--abort-if", "objects < 0.7x")
    where = ("--broker", desk.url, "--flows", str(desk.folder / "flow.yaml"))

    async def begin() -> Spawned:
        watch = await site.spawn(*arguments, *where, stderr=asyncio.subprocess.PIPE)
        assert watch.stderr is not None
        assert b"50, 100, 200, 400, 500" in await watch.stderr.readline()
        return watch

    first = await begin()
    first.kill()
    await first.wait()
    await asyncio.to_thread(desk.keep, trial["id"], 60)
    second = await begin()
    await asyncio.to_thread(desk.canary, "abort", "say")
    assert second.stderr is not None
    assert b"the canary of say has been ended by another client" in await second.stderr.readline()
    assert await second.wait() == 1


def test_a_record_that_cannot_be_read_is_named_and_can_be_aborted(desk: Desk) -> None:
    async def publish() -> None:
        async with await connect(desk.url) as broker:
            topic = config_topic.TOPIC + CANARY
            await config_topic.push(broker, "default", {"template.say": '{"share": 7}'}, topic=topic)

    asyncio.run(publish())
    shown = desk.canary("status")
    assert (shown.returncode, shown.stdout.strip()) == (0, "")
    assert "warning: ignored default/template.say" in shown.stderr
    assert desk.canary("promote", "say").returncode == 2
    assert desk.canary("abort", "say").returncode == 0
    none = f"no prompt of workspace default on {desk.url} has a canary\n"
    assert desk.canary("status").stderr == none


async def test_push_that_waits_prints_why_workers_refuse_a_canary(desk: Desk) -> None:
    [flow] = flow_file.load(desk.folder / "flow.yaml")
    flow = replace(flow, outputs=replace(flow.outputs, answers=None))
    async with (
        await connect(desk.url) as broker,
        listening(broker, f"{config_topic.TOPIC}-report") as reports,
    ):
        provider = ScriptedProvider(lambda call: "said")
        working = Working(Service(broker, [flow], Prompts(), lambda _: provider))
        await working.ready()
        await reports.until(1)  # the worker announces itself
        push = await asyncio.to_thread(desk.config, "push", "new", "--canary", "10%", "--wait", 60)
        await working.stop()
    assert push.returncode == 1
    assert "refused canary:default/template.say\n" in push.stderr
    assert "no flow that uses the prompt keeps its answers, by which a canary is judged" in push.stderr


def test_watch_refuses_invalid_rules_limits_and_prompts(desk: Desk) -> None:
    desk.config("push", "new", "--canary", "50%")
    wrong = desk.canary("watch", "say", "--promote-after", 500, "--abort-if", "refusals > 2x")
    assert (wrong.returncode, "the rule is not valid (found 'refusals > 2x'" in wrong.stderr) == (2, True)
    few = desk.canary("watch", "say", "--promote-after", 30, "--abort-if", "refused > 2x")
    assert (few.returncode, "--promote-after: this is less than --min" in few.stderr) == (2, True)
    none = desk.canary("watch", "other", "--promote-after", 500, "--abort-if", "refused > 2x")
    assert (none.returncode, "found 'other'" in none.stderr) == (2, True)
