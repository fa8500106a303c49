"""`dead` as a person types it, on a broker in a file."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run
from trustgraph_prompt.broker import EmbeddedBroker, connect
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import read
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer, flow_file
from trustgraph_prompt.worker.config import config_topic
from trustgraph_prompt.worker.messages.request import Request

FLOW = """
name: {name}
input: {{topic: "persistent://tg/flow/{name}-in"}}
outputs: {{response: "persistent://tg/flow/{name}-out"}}
"""

Letter = tuple[bytes, str, dict[str, str]]
REQUEST = PromptRequest.asking("define", {"text": "a soft rock\ncalled chalk", "n": 3}).encode()
UNKNOWN: Letter = (REQUEST, "there is no prompt `define`", {"error": "unknown-prompt", "prompt": "define"})
BROKEN: Letter = (b"{no json", "not JSON\n\x1b[2Jin many lines", {"error": "invalid-request"})
HUGE: Letter = (b"x" * 10, "too long", {"error": "invalid-request", "bytes": "6000000", "sha256": "ab"})
ENTRY = {
    "dialect": "jinja",
    "prompt": "Define {{ text }}",
    "response-type": "jsonl",
    "schema": {"type": "object", "properties": {"entity": {"type": "string"}}},
}
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
            served = flow_file.load(self.folder / "flows" / f"{flow}.yaml")[0].input
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
def services(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_list_has_a_line_for_each_letter_and_says_how_many(services: Desk) -> None:
    services.bury([UNKNOWN, BROKEN, HUGE])

    result = services.dead("list")

    assert (result.returncode, result.stderr) == (
        0,
        f"3 dead letters of the flows f, g in flows on {services.url}\n",
    )
    place, unknown, broken, huge = result.stdout.splitlines()
    assert place == "persistent://tg/flow/f-in, subscription prompt--default--f--request"
    assert "  unknown-prompt  define  1 delivery  " in unknown
    assert unknown.endswith(" B  there is no prompt `define`")
    assert broken.endswith("  invalid-request  -  1 delivery  8 B  not JSON…")
    assert "6,000,000 B (truncated)" in huge


def test_a_list_for_programs_has_everything_but_the_payload(services: Desk) -> None:
    data, reason, properties = UNKNOWN
    services.bury([(data, reason, {**properties, "died": "1795255200000"})])

    [letter] = services.listed()

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


def test_letters_are_chosen_by_flow_error_prompt_and_place(services: Desk) -> None:
    services.bury([UNKNOWN, BROKEN])
    services.bury([UNKNOWN], flow="g")
    place = ("--topic", "flow:tg:g-in", "--subscription", "prompt--default--g--request")

    assert len(services.listed()) == 3
    assert [letter["flow"] for letter in services.listed("--flow", "g")] == ["g"]
    assert [letter["request"] for letter in services.listed("--error", "invalid-request")] == ["b"]
    assert [letter["flow"] for letter in services.listed("--prompt", "define")] == ["f", "g"]
    assert services.listed("--id", "another") == []
    one = f"1 dead letter of persistent://tg/flow/g-in on {services.url}\n"
    assert services.dead("list", served=place).stderr == one


def test_a_letter_is_shown_whole_and_harmless(services: Desk) -> None:
    services.bury([UNKNOWN, BROKEN])

    shown = services.dead("show", "a")
    assert shown.returncode == 0
    assert 'properties   {"id": "a"' in shown.stdout
    [id] = [letter["id"] for letter in services.listed("--prompt", "define")]
    assert shown.stdout.startswith(
        "error        unknown-prompt\n"
        "reason       there is no prompt `define`\n"
        "advice       push the prompt; replay\n"
        f"then         dead replay {id}, with the same options\n"
    )
    assert shown.stdout.endswith(
        "\n\nid: define\nterms:\n  text:\n    a soft rock\n    called chalk\n  n: 3\nstreaming: false\n"
    )
    assert "\x1b" not in services.dead("show", "b").stdout
    whole = json.loads(services.dead("show", "b", "--json").stdout)
    assert (whole["reason"], whole["content"]) == (BROKEN[1], "{no json")
    assert json.loads(services.dead("show", whole["id"], "--json").stdout) == whole
    missing = services.dead("show", "nobody")
    assert (missing.returncode, missing.stderr) == (
        *(
            1,
            "error: there is no dead letter nobody of the flows f, g in flows on "
            f"{services.url} {SUBSCRIPTIONS}\n",
        ),
    )


def test_letter_of_an_unusable_answer_shows_refused_objects_and_their_rules(services: Desk) -> None:
    flow = FLOW.format(name="f").replace("outputs: {", 'outputs: {answers: "persistent://tg/flow/answers", ')
    (services.folder / "flows" / "f.yaml").write_text(flow)
    services.bury([(REQUEST, "schema_type_error: …", {"error": "llm-error", "prompt": "define"})])
    served = PromptDefinition.from_entry("define", ENTRY)
    outcome = read('{"entity": 5}', served.contract, finish_reason="stop")

    async def record() -> None:
        async with await connect(services.url) as broker:
            await config_topic.push(broker, "default", {"template.define": json.dumps(ENTRY)})
            producer = await broker.producer("persistent://tg/flow/answers")
            for request, version in (("another", "0"), ("a", served.version)):
                asked = Request(request, "define")
                answer = Answer.of(asked, "f", "define", version, outcome, ())
                await producer.send(answer.encode(), key=request)
            await producer.send(b"not a record", key="b")

    asyncio.run(record())

    shown = services.dead("show", "a")
    assert shown.returncode == 0
    assert shown.stdout.endswith(
        "refused object 1: /entity: expected string, found integer 5\n"
        '  | {"entity": 5}\n'
        "  |            ^\n"
        "  = breaks /schema/properties/entity\n"
        '  | {"type": "string"}\n'
        "  |  ^^^^^^^^^^^^^^^^\n"
    )
    [refused] = json.loads(services.dead("show", "a", "--json").stdout)["rejected"]
    assert refused["issues"][0]["rule"]["where"] == "/schema/properties/entity"


def test_replayed_letter_is_no_dead_letter_any_more(services: Desk) -> None:
    services.bury([UNKNOWN, BROKEN])

    result = services.dead("replay", "a")
    assert (result.returncode, result.stdout) == (0, "replayed 1 dead letter\n")
    assert result.stderr == "they wait until a worker serves them; `dead list` shows those that fail again\n"
    assert [letter["request"] for letter in services.listed()] == ["b"]
    again = services.dead("replay", "a", "b")
    assert (again.returncode, again.stdout) == (1, "replayed 1 dead letter\n")
    looked = f"of the flows f, g in flows on {services.url} {SUBSCRIPTIONS}\n"
    assert again.stderr.endswith(f"\nerror: there is no dead letter a {looked}")
    assert services.dead("list").stderr == f"no dead letters {looked}"
    nothing = services.dead("replay", "--all")
    assert (nothing.stdout, nothing.stderr) == (
        "replayed no dead letters\n",
        f"no dead letters {looked}",
    )


def test_records_that_a_flow_has_deleted_are_named(services: Desk) -> None:
    (services.folder / "flows" / "f.yaml").write_text(FLOW.format(name="f") + "keep-answers: 1d\n")
    yesterday, now = (str(round(time.time() - days * 86_400) * 1000) for days in (1.1, 0))
    failed = {"error": "unusable-answer", "prompt": "define"}
    services.bury([(REQUEST, "empty", {**failed, "died": died}) for died in (yesterday, now)])

    gone = "its answer record is gone: flow f deletes its answer records after 1 d (`keep-answers`)\n"
    assert services.dead("show", "a").stderr == gone
    assert services.dead("show", "b").stderr == ""
    replayed = services.dead("replay", "--all").stderr
    assert replayed.endswith("the flow has deleted the records of earlier answers to 1 of them\n")


@pytest.mark.parametrize("command", [["list"], ["replay", "--all"]])
@pytest.mark.parametrize("chosen", [["--error", "too-large"], ["--prompt", "other"]])
def test_a_filter_that_matches_no_dead_letter_says_how_many_are_there(
    services: Desk, command: list[str], chosen: list[str]
) -> None:
    services.bury([UNKNOWN, BROKEN])
    looked = f"of the flows f, g in flows on {services.url} {SUBSCRIPTIONS}"
    result = services.dead(*command, *chosen)
    assert result.returncode == 0
    assert result.stderr == f"2 dead letters {looked}; none of them matches\n"


def test_wrong_worker_id_shows_in_the_subscriptions_that_were_looked_at(services: Desk) -> None:
    services.bury([UNKNOWN])

    told = services.dead("list", "--flow", "f", "--id", "promt").stderr
    assert told.startswith(
        f"no dead letters of the flow f in flows on {services.url} "
        "(subscription promt--default--f--request)\n"
    )
    elsewhere = ("--topic", "persistent://tg/flow/f-in", "--subscription", "s")
    told = services.dead("list", served=elsewhere).stderr
    assert told.startswith(
        f"no dead letters of persistent://tg/flow/f-in on {services.url} (subscription s)\n"
    )


OF_F = (
    "persistent://tg/flow/f-in has such dead letters of the subscription prompt--default--f--request: give "
)


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "a"], ["replay", "a"], ["replay", "--all"], ["discard", "a"]]
)
def test_dead_letters_of_another_worker_id_are_named_with_the_option(
    services: Desk, arguments: list[str]
) -> None:
    services.bury([UNKNOWN])
    services.bury([BROKEN], flow="g")

    told = services.dead(*arguments, "--flow", "f", "--id", "kg").stderr
    assert told.splitlines()[-1] == f"{OF_F}--id prompt"
    elsewhere = ("--topic", "persistent://tg/flow/f-in", "--subscription", "s")
    told = services.dead(*arguments, served=elsewhere).stderr
    topic_and_name = "--topic persistent://tg/flow/f-in --subscription prompt--default--f--request"
    assert told.splitlines()[-1] == f"{OF_F}{topic_and_name}"


def test_letters_that_the_filter_does_not_choose_are_not_named_elsewhere(services: Desk) -> None:
    services.bury([UNKNOWN])
    for arguments in (["list", "--error", "too-large"], ["show", "b"], ["replay", "--all", "--prompt", "x"]):
        assert "has such dead letters" not in services.dead(*arguments, "--id", "kg").stderr


def test_the_worker_id_comes_from_the_environment(services: Desk) -> None:
    services.bury([UNKNOWN])
    looked = ("dead", "list", "--flows", "flows", "--broker", services.url)
    named = run(*looked, folder=services.folder, TRUSTGRAPH_PROMPT_ID="kg")
    assert "(subscriptions kg--default--f--request, kg--default--g--request)" in named.stderr
    overridden = run(*looked, "--id", "prompt", folder=services.folder, TRUSTGRAPH_PROMPT_ID="kg")
    assert overridden.stderr == f"1 dead letter of the flows f, g in flows on {services.url}\n"


def test_a_dead_letter_is_discarded_once_its_id_is_typed_again(services: Desk) -> None:
    services.bury([UNKNOWN, BROKEN, HUGE])

    def discard(*arguments: str, typed: str) -> CompletedProcess[str]:
        served = ("--flows", "flows", "--broker", services.url)
        return run("dead", "discard", *arguments, *served, folder=services.folder, input=typed)

    wrong = discard("a", typed="b\n")
    assert (wrong.returncode, wrong.stderr.splitlines()[-1].endswith("nothing was discarded")) == (1, True)
    assert discard("a", typed="").returncode == 1
    assert [letter["request"] for letter in services.listed()] == ["a", "b", "c"]

    right = discard("a", typed="a\n")
    line, said = right.stdout.splitlines()
    assert (right.returncode, "  unknown-prompt  define  " in line, said) == (
        0,
        True,
        "discarded 1 dead letter",
    )
    [*_, last] = services.listed()
    assert discard(str(last["id"]), "--yes", typed="").returncode == 0
    assert [letter["request"] for letter in services.listed()] == ["b"]


def test_id_of_dead_letters_of_two_flows_discards_neither(services: Desk) -> None:
    services.bury([UNKNOWN])
    services.bury([UNKNOWN], flow="g")

    result = services.dead("discard", "a", "--yes")
    assert result.returncode == 1
    assert "a is the id of several dead letters" in result.stderr
    assert len(services.listed()) == 2
    assert services.dead("discard", "a", "--flow", "g", "--yes").stdout.endswith("discarded 1 dead letter\n")
    assert [letter["flow"] for letter in services.listed()] == ["f"]


def test_a_mistyped_request_is_replayed_with_another_term(services: Desk) -> None:
    services.bury([(PromptRequest.asking("define", {"txt": "chalk"}).encode(), "no text", {}), BROKEN])

    result = services.dead("replay", "--all", "--term", "text=chalk")
    assert (result.returncode, result.stdout) == (0, "replayed 1 dead letter\n")
    assert "cannot be replayed: PromptRequest is not JSON" in result.stderr
    assert [letter["request"] for letter in services.listed()] == ["b"]


def test_term_that_the_prompt_does_not_have_is_refused(services: Desk) -> None:
    async def push() -> None:
        async with await connect(services.url) as broker:
            await config_topic.push(broker, "default", {"template.define": json.dumps(ENTRY)})

    services.bury([UNKNOWN, BROKEN])
    replay = "replay", "--all", "--term", "txt=chalk"
    assert services.dead(*replay, "--error", "invalid-request").returncode == 0, "of no known prompt"

    asyncio.run(push())
    refused = services.dead(*replay)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "error: --term: define has no such term (found 'txt', expected text)\n"
    assert services.dead("replay", "--all", "--term", "text=chalk").stdout == "replayed 1 dead letter\n"


def test_term_is_one_of_the_prompt_in_the_workspace_of_each_flow(services: Desk) -> None:
    async def push() -> None:
        async with await connect(services.url) as broker:
            for workspace, term in ("default", "text"), ("other", "txt"):
                entry = ENTRY | {"prompt": f"Define {{{{ {term} }}}}"}
                await config_topic.push(broker, workspace, {"template.define": json.dumps(entry)})

    (services.folder / "flows" / "g.yaml").write_text(f"{FLOW.format(name='g')}workspace: other\n")
    services.bury([UNKNOWN])
    services.bury([UNKNOWN], flow="g")
    asyncio.run(push())
    refused = services.dead("replay", "--all", "--term", "txt=chalk")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert services.dead("replay", "--all", "--flow", "g", "--term", "txt=chalk").returncode == 0


def test_replay_goes_on_after_letters_without_a_consumer(services: Desk) -> None:
    volatile = FLOW.replace("persistent://tg/flow/{name}-in", "non-persistent://tg/flow/{name}-in")
    (services.folder / "flows" / "f.yaml").write_text(volatile.format(name="f"))
    services.bury([UNKNOWN, BROKEN])
    services.bury([UNKNOWN], flow="g")

    result = services.dead("replay", "--all")
    assert (result.returncode, result.stdout) == (1, "replayed 1 dead letter\n")
    assert (
        "non-persistent://tg/flow/f-in: subscription prompt--default--f--request has no consumer"
        in result.stderr
    )
    assert "2 dead letters not replayed: the topic is not persistent" in result.stderr
    assert [letter["flow"] for letter in services.listed()] == ["f", "f"]


def test_truncated_letter_is_not_replayed_and_is_named(services: Desk) -> None:
    services.bury([UNKNOWN, HUGE])

    result = services.dead("replay", "--all")
    assert (result.returncode, result.stdout) == (0, "replayed 1 dead letter\n")
    assert "cannot be replayed: only 10 of its 6,000,000 bytes were kept" in result.stderr
    assert services.dead("replay", "b").returncode == 1
    assert [letter["request"] for letter in services.listed()] == ["b"]


@pytest.mark.parametrize(
    ("arguments", "served", "says"),
    [
        (["replay"], ["--flows", "flows"], "no dead letters are selected: give their ids, or --all"),
        (["replay", "a", "--all"], ["--flows", "flows"], "give either ids or --all, not both"),
        (
            ["list"],
            ["--flows", "flows", "--flow", "h"],
            "there is no such flow (found 'h', expected one of f, g)",
        ),
        (["list"], ["--topic", "flow:tg:x"], "--topic and --subscription must be given together"),
        (["list"], ["--topic", "x", "--subscription", "s"], "not a topic name"),
        (["list"], ["--topic", "x", "--subscription", "s", "--flow", "f"], "cannot be combined with --flows"),
        (["list", "--all"], ["--flows", "flows", "--flow", "f"], "cannot be combined with --flow or --topic"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    services: Desk, arguments: list[str], served: list[str], says: str
) -> None:
    services.bury([])
    result = services.dead(*arguments, served=served)
    assert result.returncode == 2
    assert says in result.stderr


def test_list_without_letters_names_the_flows_that_it_looked_at(services: Desk) -> None:
    services.bury([UNKNOWN, BROKEN])
    services.bury([UNKNOWN], flow="g")

    bundled = services.dead("list", served=())
    assert bundled.returncode == 0
    assert bundled.stderr.startswith(
        f"no dead letters of the bundled flows chunks, knowledge-graph, requests on {services.url}; "
        "use --flows for others "
    )
    both = ("--flows", "flows/f.yaml", "--flows", "flows/g.yaml")
    assert services.dead("list", served=both).stderr == (
        f"3 dead letters of the flows f, g in flows/f.yaml, flows/g.yaml on {services.url}\n"
    )
    everywhere = services.dead("list", "--all", served=())
    assert len([line for line in everywhere.stdout.splitlines() if line.startswith("  ")]) == 3
    assert everywhere.stderr == (
        "3 dead letters of the bundled flows chunks, knowledge-graph, requests, "
        f"and of all other dead-letter topics on {services.url}\n"
    )
    [id] = [letter["id"] for letter in services.listed("--flow", "g")]
    shown = json.loads(services.dead("show", id, "--all", "--json", served=()).stdout)
    assert (shown["topic"], shown["flow"]) == ("persistent://tg/flow/g-in", "g")


def test_the_environment_says_where_the_flows_are(services: Desk) -> None:
    services.bury([UNKNOWN])
    places = {"TRUSTGRAPH_PROMPT_FLOWS": "flows", "TRUSTGRAPH_PROMPT_BROKER": services.url}
    of_a_subscription = ("--topic", "persistent://tg/flow/f-in", "--subscription", "s")

    letters = run("dead", "list", folder=services.folder, **places)
    none = run("dead", "list", *of_a_subscription, folder=services.folder, **places)

    assert letters.stderr == f"1 dead letter of the flows f, g in flows on {services.url}\n"
    assert none.returncode == 0


def test_list_makes_no_topic_on_a_broker_in_a_file(services: Desk) -> None:
    async def topics() -> set[str]:
        async with await EmbeddedBroker.connect(str(services.folder / "broker.db")) as broker:
            return set(await broker.subscriptions())

    services.bury([UNKNOWN])
    before = asyncio.run(topics())
    broker = ("--broker", services.url)
    for served in (("--flows", "flows"), (), ("--all",)):
        services.dead("list", served=served)
        services.dead("show", "a", served=served)
    assert run("config", "list", *broker).returncode == 0
    assert run("config", "get", "system", *broker).returncode == 1
    assert asyncio.run(topics()) == before


def test_a_broker_file_that_is_not_there_is_not_made(services: Desk) -> None:
    result = services.dead("list")
    assert (result.returncode, "no such broker file" in result.stderr) == (1, True)
    assert not (services.folder / "broker.db").exists()
