"""What was pushed is listed, compared and rolled back, from the command line."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from tests.support.command import environment, run
from tests.support.config_changes import Judge
from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.trustgraph_services import config_service
from tests.support.worker_processes import Site
from tests.support.workers import entry, listening
from trustgraph_prompt import package_data
from trustgraph_prompt.broker import connect
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.config import config_topic

Config = Callable[..., CompletedProcess[str]]


@pytest.fixture
def broker(tmp_path: Path) -> str:
    (tmp_path / "broker.db").touch()
    return f"embedded:{tmp_path / 'broker.db'}"


@pytest.fixture
def config(tmp_path: Path, broker: str) -> Config:
    return lambda *arguments: run("config", *arguments, "--broker", broker, folder=tmp_path)


@pytest.fixture
def push(tmp_path: Path, config: Config) -> Callable[..., None]:
    def push(text: str, *options: str, name: str = "hello", **more: object) -> None:
        entry = {"dialect": "jinja", "prompt": text, **more}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(entry))
        pushed = config("push", f"{name}.yaml", *options)
        assert (pushed.returncode, pushed.stderr) == (0, "")

    return push


def test_a_bad_push_is_seen_compared_and_rolled_back(
    tmp_path: Path, config: Config, push: Callable[..., None]
) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    push("Hello.\n\n{{ name }}\n", "-m", "first", name="hello")
    push("Hullo.\n\n{{ name }}\n", "--by", "ann", **{"response-type": "json", "schema": schema})

    bad, good = (json.loads(line) for line in config("history", "hello", "--json").stdout.splitlines())
    assert (bad["by"], bad["replaced"], bad["current"]) == ("ann", good["version"], True)
    assert (good["why"], good["entry"]["prompt"], good["current"]) == (
        "first",
        "Hello.\n\n{{ name }}\n",
        False,
    )
    listed = config("history").stdout.splitlines()
    assert [line[0] for line in listed] == ["*", " "]
    assert f"  {good['version'][:12]}  push      template.hello  " in listed[1]

    difference = config("diff", "hello").stdout.splitlines()
    assert difference[:2] == [f"--- hello@{good['version'][:12]}", f"+++ hello@{bad['version'][:12]}"]
    assert {"-  Hello.", "+  Hullo.", '+response-type: "json"', "+schema: {"} <= {*difference}
    assert config("diff", "hello", good["version"][:6], bad["version"]).stdout.splitlines() == difference

    back = config("rollback", "hello", "-m", "Hullo is wrong")
    assert (back.returncode, back.stderr) == (0, "")
    assert json.loads(config("get", "template.hello").stdout) == good["entry"]
    newest = json.loads(config("history", "hello", "--json").stdout.splitlines()[0])
    assert (newest["action"], newest["why"], newest["version"]) == (
        "rollback",
        "Hullo is wrong",
        good["version"],
    )

    config("delete", "template.hello")
    assert "it is deleted; its versions are" in config("show", "hello").stderr
    assert config("rollback", "hello", "--to", bad["version"][:8]).returncode == 0
    assert json.loads(config("get", "template.hello").stdout) == bad["entry"]


def test_a_push_that_changes_no_version_says_why(config: Config, push: Callable[..., None]) -> None:
    push("Hello.")
    push("Hello.", "-m", "a second name", aliases=["hi"])

    same = "only parts that affect no answer differ, such as aliases"
    newest, first = config("history", "hello").stdout.splitlines()
    assert newest.endswith(f"  a second name  (same version: {same})")
    assert same not in first
    compared = config("diff", "hello")
    assert '+  "hi"' in compared.stdout
    assert compared.stderr.endswith(f": {same}\n")


@pytest.mark.parametrize(
    "command",
    [
        ("history",),
        ("history", "gone"),
        ("show", "gone"),
        ("show", "hello@0123abcd"),
        ("diff", "hello", "0123abcd"),
        ("rollback", "hello", "--to", "0123abcd"),
        ("get", "gone"),
        ("delete", "gone"),
        ("list", "--workspace", "empty"),
        ("canary", "status"),
        ("canary", "promote", "hello"),
    ],
)
def test_error_about_missing_entries_names_the_broker(
    config: Config, push: Callable[..., None], broker: str, command: tuple[str, ...]
) -> None:
    push("Hello.")
    elsewhere = ("--workspace", "empty") if command == ("history",) else ()
    assert broker in config(*command, *elsewhere).stderr


def test_one_change_of_a_prompt_is_current_after_a_new_system_message(
    config: Config, push: Callable[..., None]
) -> None:
    push("Hello {{ name }}")
    push("Be brief.", name="system")
    changes = [json.loads(line) for line in config("history", "hello", "--json").stdout.splitlines()]
    assert [change["current"] for change in changes] == [True, False]


def test_a_version_is_shown_as_a_file_that_can_be_pushed(
    tmp_path: Path, config: Config, push: Callable[..., None]
) -> None:
    text = "  first\n\ttab\n\n{{ x }}  \n\n"
    push(text, name="odd", terms={"a: b": "c\n d", "#": ["\x1b", "\u2028"]}, description="- x\n# y")
    got = json.loads(config("get", "template.odd").stdout)
    shown = config("show", "odd").stdout
    assert yaml.safe_load(shown) == got
    assert "\x1b" not in shown
    assert "# The system message of the workspace:\n#   You are a careful assistant." in shown
    version = json.loads(config("show", "odd", "--json").stdout)["version"]
    (tmp_path / "odd.yaml").write_text(config("show", f"odd@{version[:10]}").stdout)
    assert config("push", "odd.yaml").returncode == 0
    assert len(config("history", "odd").stdout.splitlines()) == 1  # nothing has changed


def test_the_version_of_a_bundled_prompt_is_shown(config: Config, push: Callable[..., None]) -> None:
    push("Be brief.", name="system")
    entries = {
        **files.load(package_data.templates()),
        "system": json.dumps({"dialect": "jinja", "prompt": "Be brief."}),
    }
    version = PromptSet.build(entries).prompts["extract-topics"].version
    shown = config("show", f"extract-topics@{version[:12]}").stdout
    assert shown.startswith(f"# template.extract-topics {version}\n")
    assert shown.endswith("# The system message of the workspace:\n#   Be brief.\n")


def test_rollback_under_another_system_message_is_warned_of(
    tmp_path: Path, config: Config, push: Callable[..., None]
) -> None:
    push("Hello.")
    push("Hullo.")
    applied = config("apply", "hello.yaml", "--owner", "shop")
    assert applied.returncode == 0
    push("Be brief.", name="system")
    alone = config("rollback", "hello")
    assert alone.returncode == 2
    assert "only the system message was another" in alone.stderr
    assert "expected `config rollback system`" in alone.stderr

    first = json.loads(config("history", "hello", "--json").stdout.splitlines()[-1])["version"]
    back = config("rollback", "hello", "--to", first)
    assert back.returncode == 0
    assert f"the text is that of {first[:12]}, but the system message is another one" in back.stderr
    again = config("apply", "hello.yaml", "--owner", "shop")
    assert "left alone template.hello: another client changed it since it was last applied" in again.stderr
    now = json.loads(config("history", "hello", "--json").stdout.splitlines()[0])["version"]
    assert "the config topic has this version" in config("rollback", "hello", "--to", now).stderr


def test_prompts_of_trustgraphs_config_service_are_shown_and_not_rolled_back(
    broker: str, config: Config
) -> None:
    async def shown() -> list[CompletedProcess[str]]:
        async with await connect(broker) as connected, config_service(connected) as service:
            await service.set("prompt", "default", "template.hello", json.dumps({"prompt": "Hello."}))
            await service.set("prompt", "default", "template-index", json.dumps(["hello"]))
            asked = (["history"], ["show", "hello"], ["rollback", "hello"])
            return [await asyncio.to_thread(config, *each, "--trustgraph") for each in asked]

    listed, got, back = asyncio.run(shown())
    assert listed.stdout.split()[:1] == ["*"]
    assert "found     template.hello" in listed.stdout
    assert listed.stderr == "TrustGraph's config service keeps no history: these are its present prompts\n"
    assert 'prompt: "Hello."\n# The system message of the workspace:\n#   Be helpful.\n' in got.stdout
    assert back.returncode == 2
    assert "No such option: --trustgraph" in back.stderr


class EchoingJudge(Judge):
    """Answers with what it was asked."""

    def reply(self, body: dict[str, object]) -> Reply:
        super().reply(body)
        return Reply(streamed(str(body["messages"])))


FLOW = """
name: f
input: {{topic: "persistent://{space}/flow/in"}}
outputs: {{response: "persistent://{space}/flow/out", answers: "persistent://{space}/flow/answers"}}
concurrency: 4
"""


async def test_no_request_under_load_sees_a_mixture_of_what_is_rolled_back(
    place: tuple[Site, str], server: ModelServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    site, space = place
    judge = EchoingJudge()
    server.reply = judge.reply
    site.serves(FLOW.format(space=space), {"template.other": entry("Other.")})
    site.asks(server.url)
    topic = site.config_topic or config_topic.TOPIC
    is_embedded = site.url.startswith("embedded:")
    admin = [] if is_embedded else ["--admin-url", request.getfixturevalue("pulsar").admin_url]

    async def config(*arguments: object, look: bool = False) -> str:
        where = ("--broker", site.url, "--topic", topic, *(admin if look else ()))
        done = await asyncio.to_thread(run, "config", *arguments, *where, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for generation in range(2):
        said = f"generation {generation} of hot:"
        (tmp_path / "hot.yaml").write_text(
            json.dumps({"dialect": "jinja", "system": said, "prompt": f"{said} {{{{ text }}}}"})
        )
        await config("push", "hot.yaml")
    newer = json.loads((await config("history", "hot", "--json", look=True)).splitlines()[0])["version"]
    async with (
        await connect(site.url) as broker,
        listening(broker, f"persistent://{space}/flow/out") as responses,
        listening(broker, f"persistent://{space}/flow/answers") as answers,
    ):
        worker = await site.run()
        producer = await broker.producer(f"persistent://{space}/flow/in")
        sent: list[str] = []

        async def ask_until(over: asyncio.Event) -> None:
            while not over.is_set():
                sent.append(id := f"r{len(sent)}")
                asked = PromptRequest.asking("hot", {"text": id})
                await producer.send(asked.encode(), properties={"id": id})
                await responses.until(len(sent) - 8)

        async with asyncio.TaskGroup() as asking:
            asking.create_task(ask_until(over := asyncio.Event()))
            for to in ([], ["--to", newer], []):
                await config("rollback", "hot", *to, "--wait", 60)
            over.set()
        assert not await responses.missing(sent)
        made = [Answer.decode(message.data) for message in await answers.until(len(sent))]

    assert not judge.mixed
    assert judge.generations == {0, 1}
    logged = {json.loads(line).get("version") for line in worker.log} - {None}
    assert logged == {answer.version[:12] for answer in made}
    for version in {answer.version for answer in made}:
        shown = await config("show", f"hot@{version[:10]}", look=True)
        said = yaml.safe_load(shown)["system"]
        assert all(said in str(answer.value) for answer in made if answer.version == version)
    changes = [
        json.loads(line) for line in (await config("history", "hot", "--json", look=True)).split("\n")[:-1]
    ]
    assert [each["action"] for each in changes] == ["rollback"] * 3 + ["push"] * 2
    assert len({each["version"] for each in changes}) == 2
    assert "-system:" in await config("diff", "hot", changes[0]["version"], newer, look=True)


DYING = """
import os, signal
from trustgraph_prompt.worker.config import config_topic

async def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

config_topic.push = die
from trustgraph_prompt.cli import main
main()
"""


def test_killed_push_changes_nothing_and_history_warns_of_it(
    tmp_path: Path, broker: str, config: Config, push: Callable[..., None]
) -> None:
    push("Hello.")
    (tmp_path / "hello.yaml").write_text(json.dumps({"dialect": "jinja", "prompt": "Hullo."}))
    arguments = (sys.executable, "-c", DYING, "config", "push", "hello.yaml", "--broker", broker)
    killed = subprocess.run(arguments, cwd=tmp_path, env=environment(), check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL

    listed = config("history", "hello")
    assert [line[0] for line in listed.stdout.splitlines()] == [" ", "*"]
    assert "warning: template.hello: the config topic does not have the newest change" in listed.stderr
    assert "Hello." in config("get", "template.hello").stdout
    assert "there is no version before the present one" in config("rollback", "hello").stderr
    push("Hullo.")
    assert config("history", "hello").stderr == ""
