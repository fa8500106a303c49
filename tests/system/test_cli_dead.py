"""`dead` as a person types it, on a broker in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run
from trustgraph_prompt.broker import EmbeddedBroker, connect
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import flow as flows

FLOW = """
name: {name}
input: {{topic: "persistent://tg/flow/{name}-in"}}
outputs: {{response: "persistent://tg/flow/{name}-out"}}
"""

Letter = tuple[bytes, str, dict[str, str]]
REQUEST = PromptRequest.asking("define", {"text": "chalk", "n": 3}).encode()
UNKNOWN: Letter = (REQUEST, "there is no prompt `define`", {"error": "unknown-prompt", "prompt": "define"})
BROKEN: Letter = (b"{no json", "not JSON\n\x1b[2Jin many lines", {"error": "invalid-request"})
HUGE: Letter = (b"x" * 10, "too long", {"error": "invalid-request", "bytes": "6000000", "sha256": "ab"})
SUBSCRIPTIONS = "(subscriptions prompt--default--f--request, prompt--default--g--request)"


class Desk:
    """A folder with two flows, `f` and `g`, and a broker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "flows").mkdir()
        for name in "fg":
            (folder / "flows" / f"{name}.yaml").write_text(FLOW.format(name=name))
        self.url = f"embedded:{folder / 'broker.db'}"

    def bury(self, letters: Sequence[Letter], flow: str = "f") -> None:
        """These became dead letters of the flow; the requests are called a, b, c."""

        async def bury() -> None:
            served = flows.load(self.folder / "flows" / f"{flow}.yaml")[0].input
            async with await connect(self.url) as broker:
                producer = await broker.producer(served.topic)
                consumer = await broker.consumer(served.topic, served.subscription)
                for name, (data, reason, properties) in zip("abc", letters, strict=False):
                    await producer.send(data, properties={"id": name})
                    message = await consumer.receive()
                    assert message is not None
                    await consumer.bury(message, reason, {"flow": flow, **properties})

        asyncio.run(bury())

    def dead(
        self, *arguments: object, served: Sequence[object] = ("--flows", "flows")
    ) -> CompletedProcess[str]:
        return run("dead", *arguments, *served, "--broker", self.url, folder=self.folder)

    def listed(self, *arguments: object) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.dead("list", "--json", *arguments).stdout.splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_list_has_a_line_for_each_letter_and_says_how_many(desk: Desk) -> None:
    desk.bury([UNKNOWN, BROKEN, HUGE])

    result = desk.dead("list")

    assert (result.returncode, result.stderr) == (0, "3 dead letters of the flows f, g in flows\n")
    place, unknown, broken, huge = result.stdout.splitlines()
    assert place == "persistent://tg/flow/f-in, subscription prompt--default--f--request"
    assert "  unknown-prompt  define  1 delivery  " in unknown
    assert unknown.endswith(" B  there is no prompt `define`")
    assert broken.endswith("  invalid-request  -  1 delivery  8 B  not JSON…")
    assert "6,000,000 B (cut)" in huge


def test_a_list_for_programs_has_everything_but_the_payload(desk: Desk) -> None:
    data, reason, properties = UNKNOWN
    desk.bury([(data, reason, {**properties, "died": "1795255200000"})])

    [letter] = desk.listed()

    assert {name: letter[name] for name in letter if name not in ("id", "published")} == {
        "request": "a",
        "topic": "persistent://tg/flow/f-in",
        "subscription": "prompt--default--f--request",
        "flow": "f",
        "prompt": "define",
        "error": "unknown-prompt",
        "reason": "there is no prompt `define`",
        "deliveries": 1,
        "bytes": len(REQUEST),
        "cut": False,
        "died": "2026-11-21T10:00:00+00:00",
    }
    assert str(letter["published"]).endswith("+00:00")


def test_letters_are_chosen_by_flow_error_prompt_and_place(desk: Desk) -> None:
    desk.bury([UNKNOWN, BROKEN])
    desk.bury([UNKNOWN], flow="g")
    place = ("--topic", "flow:tg:g-in", "--subscription", "prompt--default--g--request")

    assert len(desk.listed()) == 3
    assert [letter["flow"] for letter in desk.listed("--flow", "g")] == ["g"]
    assert [letter["request"] for letter in desk.listed("--error", "invalid-request")] == ["b"]
    assert [letter["flow"] for letter in desk.listed("--prompt", "define")] == ["f", "g"]
    assert desk.listed("--id", "another") == []
    assert desk.dead("list", served=place).stderr == "1 dead letter of persistent://tg/flow/g-in\n"


def test_a_letter_is_shown_whole_and_harmless(desk: Desk) -> None:
    desk.bury([UNKNOWN, BROKEN])

    shown = desk.dead("show", "a")
    assert shown.returncode == 0
    assert 'properties   {"id": "a"' in shown.stdout
    assert '"text": "chalk",\n    "n": 3' in shown.stdout
    assert "\x1b" not in desk.dead("show", "b").stdout
    whole = json.loads(desk.dead("show", "b", "--json").stdout)
    assert (whole["reason"], whole["content"]) == (BROKEN[1], "{no json")
    assert json.loads(desk.dead("show", whole["id"], "--json").stdout) == whole
    missing = desk.dead("show", "nobody")
    assert (missing.returncode, missing.stderr) == (
        *(1, f"error: there is no dead letter nobody of the flows f, g in flows {SUBSCRIPTIONS}\n"),
    )


def test_what_is_replayed_is_no_dead_letter_any_more(desk: Desk) -> None:
    desk.bury([UNKNOWN, BROKEN])

    result = desk.dead("replay", "a")
    assert (result.returncode, result.stdout) == (0, "replayed 1 dead letter\n")
    assert result.stderr == "`dead list` shows what died again\n"
    assert [letter["request"] for letter in desk.listed()] == ["b"]
    again = desk.dead("replay", "a", "b")
    assert (again.returncode, again.stdout) == (1, "replayed 1 dead letter\n")
    looked = f"of the flows f, g in flows {SUBSCRIPTIONS}\n"
    assert again.stderr.endswith(f"\nerror: there is no dead letter a {looked}")
    assert desk.dead("list").stderr == f"no dead letters {looked}"
    nothing = desk.dead("replay", "--all")
    assert (nothing.stdout, nothing.stderr) == ("replayed no dead letters\n", f"looked at those {looked}")


def test_a_worker_id_that_is_wrong_shows_in_the_subscriptions_that_were_looked_at(desk: Desk) -> None:
    desk.bury([UNKNOWN])

    told = desk.dead("list", "--flow", "f", "--id", "promt").stderr
    assert told == "no dead letters of the flow f in flows (subscription promt--default--f--request)\n"
    elsewhere = ("--topic", "persistent://tg/flow/f-in", "--subscription", "s")
    told = desk.dead("list", served=elsewhere).stderr
    assert told == "no dead letters of persistent://tg/flow/f-in (subscription s)\n"


def test_letters_that_nobody_hears_stopped_the_replay_of_all_others(desk: Desk) -> None:
    volatile = FLOW.replace("persistent://tg/flow/{name}-in", "non-persistent://tg/flow/{name}-in")
    (desk.folder / "flows" / "f.yaml").write_text(volatile.format(name="f"))
    desk.bury([UNKNOWN, BROKEN])
    desk.bury([UNKNOWN], flow="g")

    result = desk.dead("replay", "--all")
    assert (result.returncode, result.stdout) == (1, "replayed 1 dead letter\n")
    assert (
        "non-persistent://tg/flow/f-in: nobody is subscribed as prompt--default--f--request" in result.stderr
    )
    assert "2 dead letters stay; replay while the worker runs" in result.stderr
    assert [letter["flow"] for letter in desk.listed()] == ["f", "f"]


def test_what_was_cut_stays_and_is_named(desk: Desk) -> None:
    desk.bury([UNKNOWN, HUGE])

    result = desk.dead("replay", "--all")
    assert (result.returncode, result.stdout) == (0, "replayed 1 dead letter\n")
    assert "cannot be replayed: only 10 of its 6,000,000 bytes were kept" in result.stderr
    assert desk.dead("replay", "b").returncode == 1
    assert [letter["request"] for letter in desk.listed()] == ["b"]


@pytest.mark.parametrize(
    ("arguments", "served", "says"),
    [
        (["replay"], ["--flows", "flows"], "which letters? name them, or say --all"),
        (["replay", "a", "--all"], ["--flows", "flows"], "ids and --all: say one of them"),
        (
            ["list"],
            ["--flows", "flows", "--flow", "h"],
            "there is no such flow (found 'h', expected one of f, g)",
        ),
        (["list"], ["--topic", "flow:tg:x"], "--topic and --subscription belong together"),
        (["list"], ["--topic", "x", "--subscription", "s"], "is no topic"),
        (["list"], ["--topic", "x", "--subscription", "s", "--flow", "f"], "say one of them"),
        (["list", "--all"], ["--flows", "flows", "--flow", "f"], "looks everywhere"),
    ],
)
def test_wrong_usage_is_told(desk: Desk, arguments: list[str], served: list[str], says: str) -> None:
    desk.bury([])
    result = desk.dead(*arguments, served=served)
    assert result.returncode == 2
    assert says in result.stderr


def test_no_dead_letters_was_said_while_two_lay_in_a_flow_that_was_not_looked_at(desk: Desk) -> None:
    desk.bury([UNKNOWN, BROKEN])
    desk.bury([UNKNOWN], flow="g")

    bundled = desk.dead("list", served=())
    assert bundled.returncode == 0
    assert bundled.stderr.startswith(
        "no dead letters of the bundled flows chunks, requests; --flows names others (subscriptions prompt--"
    )
    both = ("--flows", "flows/f.yaml", "--flows", "flows/g.yaml")
    assert desk.dead("list", served=both).stderr == (
        "3 dead letters of the flows f, g in flows/f.yaml, flows/g.yaml\n"
    )
    everywhere = desk.dead("list", "--all", served=())
    assert len([line for line in everywhere.stdout.splitlines() if line.startswith("  ")]) == 3
    assert everywhere.stderr == (
        "3 dead letters of the bundled flows chunks, requests, "
        f"and of all other dead-letter topics of {desk.url}\n"
    )
    [id] = [letter["id"] for letter in desk.listed("--flow", "g")]
    shown = json.loads(desk.dead("show", id, "--all", "--json", served=()).stdout)
    assert (shown["topic"], shown["flow"]) == ("persistent://tg/flow/g-in", "g")


def test_looking_makes_no_topic_on_a_broker_in_a_file(desk: Desk) -> None:
    async def topics() -> set[str]:
        async with await EmbeddedBroker.connect(str(desk.folder / "broker.db")) as broker:
            return set(await broker.subscriptions())

    desk.bury([UNKNOWN])
    before = asyncio.run(topics())
    broker = ("--broker", desk.url)
    for served in (("--flows", "flows"), (), ("--all",)):
        desk.dead("list", served=served)
        desk.dead("show", "a", served=served)
    assert run("config", "list", *broker).returncode == 0
    assert run("config", "get", "system", *broker).returncode == 1
    assert asyncio.run(topics()) == before


def test_a_broker_file_that_is_not_there_is_not_made(desk: Desk) -> None:
    result = desk.dead("list")
    assert (result.returncode, "no such broker file" in result.stderr) == (1, True)
    assert not (desk.folder / "broker.db").exists()
