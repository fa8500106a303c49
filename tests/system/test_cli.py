"""The commands as processes: what they print, where, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command import DOCUMENT, PROGRAM, ROOT, SCRIPTED, environment, run, started
from trustgraph_prompt.broker import connect

COMMANDS = [
    ["extract"],
    ["ask"],
    ["read"],
    ["render"],
    ["check"],
    ["format"],
    ["run"],
    ["complete"],
    ["config", "push"],
    ["config", "apply"],
    ["config", "list"],
    ["config", "get"],
    ["config", "delete"],
    ["config", "watch"],
    ["dead", "list"],
    ["dead", "show"],
    ["dead", "replay"],
    ["answers", "list"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example_and_no_types_of_python(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.returncode == 0
    assert re.search("<(bool|int|str)", result.stdout.partition("\nOptions:\n")[2]) is None
    assert f"Example:  trustgraph-prompt {' '.join(command)}" in result.stdout


def test_version() -> None:
    assert run("--version").stdout.startswith("trustgraph-prompt 0.")


def test_completion_knows_the_commands() -> None:
    result = run(
        _TRUSTGRAPH_PROMPT_COMPLETE="complete_bash", COMP_WORDS="trustgraph-prompt ex", COMP_CWORD="1"
    )
    assert result.stdout.split() == ["extract"]


class TestRender:
    def test_prints_system_text_and_question(self) -> None:
        result = run("render", "extract-definitions", "--term", "text=Chalk is soft.")
        assert result.returncode == 0
        assert result.stdout.startswith("[system]\n")
        assert "Chalk is soft." in result.stdout.partition("[prompt]\n")[2]

    def test_takes_terms_from_files_and_as_json(self, tmp_path: Path) -> None:
        (tmp_path / "note.txt").write_text("words\n")
        (tmp_path / "prompts").mkdir()
        (tmp_path / "prompts" / "list.yaml").write_text(
            "dialect: jinja\nprompt: '{{ text }}{% for n in numbers %}[{{ n }}]{% endfor %}'\n"
        )
        terms = ["--term", "text=@note.txt", "--term", "numbers:=[1, 2]"]
        result = run("render", "list", "--templates", "prompts", *terms, "--json", folder=tmp_path)
        assert json.loads(result.stdout)["prompt"] == "words\n[1][2]"

    def test_warns_of_terms_that_are_missing_and_of_those_nobody_asked_for(self) -> None:
        result = run("render", "extract-topics", "--term", "txt=Chalk.")
        assert result.returncode == 0
        assert "does not use the term txt; its terms: text" in result.stderr
        assert "--term text=" in result.stderr
        assert run("render", "extract-topics", "--term", "text=Chalk.").stderr == ""


@pytest.mark.parametrize(
    "arguments", [["read", "-", "--format", "jsonl"], ["render", "question", "--term", "question=why?"]]
)
def test_a_full_disk_is_an_error_of_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [str(PROGRAM), *arguments],
            env=environment(),
            input=b'{"a": 1}\n',
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=100,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr == b"error: No space left on device\n"


class TestAsk:
    def test_prints_objects_a_line(self) -> None:
        result = run("ask", "extract-definitions", "--term", f"text=@{DOCUMENT}", "--provider", SCRIPTED)
        assert result.returncode == 0
        assert json.loads(result.stdout.splitlines()[0])["entity"] == "chalk"

    def test_gives_calls_and_tokens_as_json(self) -> None:
        result = run(
            "ask", "extract-definitions", "-t", f"text=@{DOCUMENT}", "--provider", SCRIPTED, "--json"
        )
        outcome = json.loads(result.stdout)
        assert outcome["reason"] == "success"
        assert [call["why"] for call in outcome["calls"]] == ["first"]
        assert outcome["usage"]["total_tokens"] > 0

    def test_ends_with_1_where_nobody_answers(self) -> None:
        server = ["--base-url", "http://127.0.0.1:9/v1", "--model", "none"]
        result = run("ask", "question", "--term", "question=why?", *server)
        assert result.returncode == 1
        assert result.stdout == ""
        assert "127.0.0.1:9" in result.stderr
        assert "Traceback" not in result.stderr


SAY = 'prompt say: "x"\n    example:\n        answer: "y"\n        reads: "y"\n'
SAY += SAY.replace("say", "tell")
LIST = """\
prompt list expecting any[]: "List."
    example "one":
        answer: '[{"name": "a"}]'
        reads: [{name: "PLACE"}]
"""


class TestCheck:
    def test_the_bundled_prompts_and_flows_are_good(self) -> None:
        result = run("check", ROOT / "templates", ROOT / "flows")
        assert result.returncode == 0
        assert result.stderr == ""
        assert "extract-definitions.prompt (prompt, 4 examples)" in result.stdout
        assert "requests.yaml (flow)" in result.stdout

    def test_says_file_key_found_and_expected_of_everything_that_is_wrong(self, tmp_path: Path) -> None:
        (tmp_path / "flow.yaml").write_text(
            "name: f\ninput: {topic: 'persistent://a/b/c'}\noutputs: {response: r}\n"
        )
        (tmp_path / "good.yaml").write_text("dialect: jinja\nprompt: hello\n")
        (tmp_path / "loop.yaml").write_text("dialect: jinja\nprompt: '{% for x %}'\n")
        (tmp_path / "typo.yaml").write_text("dialect: jinja\nprompt: hello\nresponse-typ: json\n")
        result = run("check", tmp_path)
        assert result.returncode == 2
        assert "good.yaml" in result.stdout
        assert "flow.yaml /outputs/response" in result.stderr
        assert "loop.yaml /prompt" in result.stderr
        assert "typo.yaml /response-typ" in result.stderr
        assert "did you mean" in result.stderr
        assert "Traceback" not in result.stderr

    @pytest.mark.parametrize(
        ("keys", "misspelt", "meant"),
        [
            (["inptu", "name", "outputs"], "inptu", "input"),
            (["inptu", "name", "outptus"], "inptu", "input"),
            (["inptu", "nmae", "outptus"], "inptu", "input"),
            (["inptu", "name", "prompt"], "inptu", "input"),
            (["promt", "dialect"], "promt", "prompt"),
            (["promt", "dialct"], "promt", "prompt"),
        ],
    )
    def test_tells_a_flow_from_a_prompt_whichever_key_is_misspelt(
        self, keys: list[str], misspelt: str, meant: str, tmp_path: Path
    ) -> None:
        values = {"inptu": {"topic": "persistent://a/b/c"}, "outputs": {"response": "persistent://a/b/d"}}
        file = tmp_path / "misspelt.yaml"
        file.write_text(json.dumps({key: values.get(key, "jinja") for key in keys}))
        result = run("check", file)
        assert f"{file} /{misspelt}: unknown key, did you mean '{meant}'?" in result.stderr.splitlines()[0]
        if meant == "input":
            assert "`prompt`" not in result.stderr

    def test_recording_is_checked_as_one_whichever_key_is_misspelt(self, tmp_path: Path) -> None:
        file = tmp_path / "recording.jsonl"
        file.write_text('{"prompt": "p", "answer": "x"}\n{"answr": "x"}\n{"prompt": "p", "match": "["}\n')
        result = run("check", file)
        assert result.returncode == 2
        assert f"error  {file}:2 /answr: unknown key, did you mean 'answer'?" in result.stderr
        assert f"error  {file}:3" in result.stderr
        file.write_text('{"prompt": "p", "answer": "x"}\n')
        assert run("check", file).stdout == f"OK     {file} (recording, 1 answer)\n"
        file.write_text('{"tems": {"text": "x"}, "objects": []}\n')
        assert "/tems: unknown key, did you mean 'terms'?" in run("check", file).stderr

    def test_file_of_objects_is_no_recording(self, tmp_path: Path) -> None:
        file = tmp_path / "out.jsonl"
        origin = {"prompt": "p", "file": "a.txt", "sha256": "0", "chunk": 1, "start": 0}
        file.write_text(json.dumps({**origin, "object": {"n": 1}}) + "\n")
        result = run("check", file)
        assert result.returncode == 2
        assert result.stderr == (
            f"error  {file}: cannot be checked (found 'a file of objects, written by `extract`', "
            "expected a recording, or a gold file, which `eval --from` makes of it)\n"
        )

    @pytest.mark.parametrize("wrong", ["", '{"answr": "x"}'])
    def test_recording_names_unknown_prompts_beside_its_errors(self, wrong: str, tmp_path: Path) -> None:
        file = tmp_path / "recording.jsonl"
        lines = [{"prompt": id, "answer": "x"} for id in ("nope", "extract-topics", "nope")]
        file.write_text("\n".join([*map(json.dumps, lines), wrong]))
        result = run("check", file)
        assert result.returncode == (2 if wrong else 0)
        warning = f"warning: {file}: not compared with the prompt nope, which is not among the files"
        assert result.stderr.splitlines()[-1:] == [warning]
        assert result.stderr.count("not compared") == 1

    def test_error_in_a_gold_file_hides_no_unknown_prompt(self, tmp_path: Path) -> None:
        file = tmp_path / "gold.jsonl"
        file.write_text('{"prompt": "nope", "terms": {}, "objects": []}\n{"terms": {}, "objcts": []}\n')
        result = run("check", file)
        assert f"error  {file}:2 /objcts: unknown key" in result.stderr
        assert f"warning: {file}: not compared with the prompt nope, which is not" in result.stderr

    def test_error_in_a_recording_hides_no_error_of_a_gold_file(self, tmp_path: Path) -> None:
        gold, recording = tmp_path / "gold.jsonl", tmp_path / "recording.jsonl"
        line = {"prompt": "extract-definitions", "terms": {"text": "x"}, "objects": [{"q": 1}]}
        gold.write_text(json.dumps(line) + "\n")
        recording.write_text('{"answr": "x"}\n')
        result = run("check", recording, gold)
        assert f"error  {recording}:1 /answr: unknown key" in result.stderr
        assert f"error  {gold}:1 /objects/0: the key `entity` is missing" in result.stderr

    def test_a_named_pipe_that_nobody_writes_to_is_refused_at_once(self, tmp_path: Path) -> None:
        for name in ("greet.prompt", "flow.yaml", "export.json", "lines.jsonl"):
            os.mkfifo(tmp_path / name)
            result = run("check", tmp_path / name)
            assert result.returncode == 2
            assert f"{tmp_path / name}: a pipe that nobody writes to" in result.stderr

    def test_finds_two_flows_of_one_name(self, tmp_path: Path) -> None:
        flow = "name: f\ninput: {topic: 'persistent://a/b/c'}\noutputs: {response: 'persistent://a/b/d'}\n"
        (tmp_path / "one.yaml").write_text(flow)
        (tmp_path / "two.yaml").write_text(flow)
        result = run("check", tmp_path)
        assert result.returncode == 2
        assert "two.yaml /name: two flows have the same name" in result.stderr

    def test_judges_each_entry_of_an_export(self, tmp_path: Path) -> None:
        entries = {
            "system": json.dumps("Be brief."),
            "template.good": json.dumps({"prompt": "Say {{text}}"}),
            "template.bad": json.dumps({"prompt": "Say {{text"}),
        }
        export = tmp_path / "export.json"
        export.write_text(json.dumps({"prompt": entries}))
        result = run("check", export, "--json")
        verdicts = {verdict["place"]: verdict["ok"] for verdict in json.loads(result.stdout)}
        assert result.returncode == 2
        assert verdicts == {
            f"{export} system": True,
            f"{export} template.good": True,
            f"{export} template.bad": False,
        }

    def test_a_path_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        result = run("check", tmp_path / "nowhere.yaml")
        assert result.returncode == 2
        assert "nowhere.yaml" in result.stderr

    def test_tries_the_examples_of_prompts_and_says_what_was_read_instead(self, tmp_path: Path) -> None:
        (tmp_path / "say.prompt").write_text(SAY)
        (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "a"))
        result = run("check", tmp_path)
        assert result.returncode == 0
        assert "list.prompt (prompt, 1 example)" in result.stdout
        assert "say.prompt (2 prompts, 2 examples)" in result.stdout
        (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "b"))
        result = run("check", tmp_path)
        assert result.returncode == 2
        assert "say.prompt" in result.stdout
        assert "list.prompt:4:24 /reads/0/name: list: one: the value differs" in result.stderr
        assert "found 'a', expected \"b\"" in result.stderr

    def test_counts_prompts_and_examples_for_programs(self, tmp_path: Path) -> None:
        (tmp_path / "say.prompt").write_text(SAY)
        (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "b"))
        result = run("check", tmp_path, "--json")
        bad, good = json.loads(result.stdout)
        assert result.returncode == 2
        assert (good["ok"], good["prompts"], good["examples"]) == (True, 2, 2)
        assert (bad["ok"], bad["prompts"], bad["examples"]) == (False, 1, 1)
        assert bad["error"]["where"] == f"{tmp_path / 'list.prompt'}:4:24"
        assert (bad["error"]["path"], bad["error"]["found"]) == ("/reads/0/name", "a")

    def test_examples_are_asked_under_the_system_message_of_their_folder(self, tmp_path: Path) -> None:
        (tmp_path / "a.prompt").write_text(SAY.replace("answer:", "terms: {a: 1}\n        answer:"))
        (tmp_path / "system.prompt").write_text('system: "{{ b }}"\n')
        result = run("check", tmp_path)
        assert result.returncode == 2
        assert (
            "a.prompt:3:16 /terms: say: an example: terms are missing (found ['a'], expected b)"
            in result.stderr
        )

    def test_warns_of_a_flow_without_its_prompt_or_without_a_graph(self, tmp_path: Path) -> None:
        flow = tmp_path / "graph.yaml"
        flow.write_text(
            "name: g\ninput: {topic: 'persistent://a/b/c', kind: chunk}\nprompt: mine\n"
            "outputs: {triples: 'persistent://a/b/d'}\n"
        )
        prompt = tmp_path / "mine.prompt"
        prompt.write_text(
            'schema V:\n    name: string\n\nprompt mine expecting V[] as jsonl: "{{ text }} name"\n'
        )
        export = tmp_path / "export.json"
        export.write_text(json.dumps({"template.mine": {"prompt": "?"}}))
        no_graph = (
            f"warning: {flow}: prompt `mine` has no clause `graph`: no triples are made of its objects\n"
        )

        alone = run("check", flow)

        assert (alone.returncode, alone.stdout) == (0, f"OK     {flow} (flow)\n")
        assert alone.stderr.startswith(f"warning: {flow}: there is no prompt `mine`; ")
        assert run("check", flow, prompt).stderr == no_graph
        assert run("check", flow, export).stderr == no_graph
        flow.write_text(flow.read_text().replace("mine", "extract-topics"))
        assert run("check", flow).stderr == ""

    def test_says_where_a_prompt_is_there_twice(self, tmp_path: Path) -> None:
        (tmp_path / "a.prompt").write_text(LIST.replace("PLACE", "a"))
        (tmp_path / "list.yaml").write_text("dialect: jinja\nprompt: hello\n")
        result = run("check", tmp_path)
        assert result.returncode == 2
        assert "list.yaml: the prompt is defined twice" in result.stderr
        assert "a.prompt:1:8" in result.stderr


class TestFormat:
    def test_lays_out_what_it_can_read_and_leaves_the_rest(self, tmp_path: Path) -> None:
        file = tmp_path / "a.prompt"
        file.write_bytes(b"# why\r\nprompt a :  'x'\r\n   attempts:  2\r\n")
        result = run("format", tmp_path, "--check")
        assert (result.returncode, result.stdout) == (1, f"would change {file}\n")
        assert file.read_bytes().startswith(b"# why\r\n")
        assert run("format", file).returncode == 0
        assert file.read_bytes() == b'# why\nprompt a: "x"\n    attempts: 2\n'
        result = run("format", tmp_path, "--check")
        assert (result.returncode, result.stdout) == (0, "")

    def test_changes_nothing_where_one_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "a.prompt").write_text("prompt a :  'x'\n")
        (tmp_path / "b.prompt").write_text("prompt b using\n")
        result = run("format", tmp_path)
        assert result.returncode == 2
        assert "b.prompt:1:15" in result.stderr
        assert (tmp_path / "a.prompt").read_text() == "prompt a :  'x'\n"

    def test_a_folder_without_files_of_the_language_is_an_error(self, tmp_path: Path) -> None:
        assert "no files to format" in run("format", tmp_path).stderr


class TestConfig:
    @pytest.fixture
    def broker(self, tmp_path: Path) -> list[str]:
        return ["--broker", f"embedded:{tmp_path / 'broker.db'}"]

    def test_escapes_in_keys_reached_the_terminal(self, tmp_path: Path, broker: list[str]) -> None:
        topic, key = "persistent://tg/config/prompt", "default/template.\x1b]0;owned\x07\x9b2J"

        async def publish(topic: str, data: bytes = b'"\x1b[2J"') -> None:
            async with await connect(broker[1]) as connected:
                await (await connected.producer(topic)).send(data, key=key)

        asyncio.run(publish(topic))
        shown = "default/template.\\u001b]0;owned\\u0007\\u009b2J"
        assert run("config", "list", *broker).stdout == f"{shown}\n"
        assert not {"\x1b", "\x9b"} & set(run("config", "list", "--json", *broker).stdout)
        with started("config", "watch", *broker) as watch:
            assert watch.stderr is not None
            assert watch.stdout is not None
            assert watch.stderr.readline() == f"watching {topic} on {broker[1]}\n"
            assert "prompt-report does not exist yet" in watch.stderr.readline()
            asyncio.run(publish(f"{topic}-report"))
            assert watch.stdout.readline() == f'refused {shown} "\\u001b[2J"\n'
            record = {"message": "it is too small", "where": "T W/template.x", "path": "/attempts"}
            whole = json.dumps({**record, "found": "0", "expected": "at least 1"}).encode()
            asyncio.run(publish(f"{topic}-report", whole))
            said = "T W/template.x /attempts: it is too small (found '0', expected at least 1)"
            assert watch.stdout.readline() == f"refused {said}\n"
            watch.send_signal(signal.SIGINT)
            assert watch.wait(60) == 0

    def test_what_is_pushed_is_listed_got_and_deleted(self, tmp_path: Path, broker: list[str]) -> None:
        (tmp_path / "prompts").mkdir()
        (tmp_path / "prompts" / "hello.yaml").write_text("dialect: jinja\nprompt: hello {{ name }}\n")
        (tmp_path / "prompts" / "bye.yaml").write_text("dialect: jinja\nprompt: bye\n")
        assert run("config", "push", tmp_path / "prompts", *broker).returncode == 0
        listed = run("config", "list", *broker).stdout.split()
        assert listed == ["default/template.bye", "default/template.hello"]
        got = json.loads(run("config", "get", "template.hello", *broker).stdout)
        assert got == {"dialect": "jinja", "prompt": "hello {{ name }}"}
        assert run("config", "delete", "template.bye", *broker).returncode == 0
        entries = json.loads(run("config", "list", "--json", *broker).stdout)
        assert list(entries) == ["default/template.hello"]
        export = tmp_path / "export.json"
        export.write_text(run("config", "list", "--json", "-w", "default", *broker).stdout)
        assert run("check", export).returncode == 0

    def test_nothing_is_made_by_who_only_looks(self, tmp_path: Path, broker: list[str]) -> None:
        for look in (["list"], ["get", "system"], ["delete", "system"], ["watch"]):
            result = run("config", *look, *broker)
            assert result.returncode == 1
            assert "no such broker file" in result.stderr
        assert list(tmp_path.iterdir()) == []

    def test_workspaces_are_apart(self, tmp_path: Path, broker: list[str]) -> None:
        (tmp_path / "hello.yaml").write_text("dialect: jinja\nprompt: hello\n")
        run("config", "push", tmp_path / "hello.yaml", "--workspace", "other", *broker)
        assert run("config", "get", "template.hello", *broker).returncode == 1
        assert run("config", "get", "template.hello", "-w", "other", *broker).returncode == 0
        [listed] = run("config", "list", *broker).stdout.split()
        assert run("config", "get", listed, *broker).returncode == 0
        assert run("config", "delete", listed, "-w", "other", *broker).returncode == 0

    def test_nothing_is_pushed_where_a_workspace_would_have_too_many_prompts(
        self, tmp_path: Path, broker: list[str]
    ) -> None:
        def folder(name: str, count: int) -> Path:
            prompts = "".join(f"prompt {name}{number}: 'a'\n" for number in range(count))
            (tmp_path / f"{name}.prompt").write_text(prompts)
            return tmp_path / f"{name}.prompt"

        full = run("config", "push", folder("a", 990), *broker)
        assert full.returncode == 0
        assert "a workspace has at most 1,000" in full.stderr
        assert run("config", "push", folder("a", 990), *broker).returncode == 0
        result = run("config", "push", folder("b", 11), *broker)
        assert result.returncode == 2
        assert (
            "workspace default would have too many prompts (found '1,001', expected at most" in result.stderr
        )
        assert len(run("config", "list", *broker).stdout.split()) == 990

    def test_what_a_push_brings_about_with_what_is_there_is_warned_of(
        self, tmp_path: Path, broker: list[str]
    ) -> None:
        def push(name: str, text: str) -> str:
            (tmp_path / name).write_text(f"dialect: jinja\nprompt: {text}\n")
            result = run("config", "push", tmp_path / name, *broker)
            assert result.returncode == 0
            return result.stderr

        def warning(count: int, prompts: str) -> str:
            do = "does" if count == 1 else "do"
            return (
                f"warning: system needs the term `name`; {count} of {count} prompts {do} not mention it, "
                f"and requests without it fail with missing-term ({prompts})\n"
            )

        assert push("hello.yaml", "hello").startswith(f"{broker[1]} is a new broker: ")
        assert push("system.yaml", "'Hello {{ name }}, be brief.'") == warning(1, "hello")
        assert push("bye.yaml", "bye") == warning(2, "bye, hello")
        assert push("bye.yaml", "good bye") == ""
        assert push("a.yaml", "a\naliases: [b]").startswith("warning: system needs")
        told = push("c.yaml", "c\naliases: [b]")
        assert "warning: workers will refuse template.c /aliases: the alias `b` is that of another" in told

    def test_a_canary_makes_no_broker(self, tmp_path: Path, broker: list[str]) -> None:
        result = run("config", "push", ROOT / "templates", "--canary", "10%", *broker)
        assert (result.returncode, result.stdout) == (1, "")
        assert "no such broker file" in result.stderr
        assert not Path(broker[1].removeprefix("embedded:")).exists()

    def test_nothing_is_pushed_where_one_prompt_is_wrong(self, tmp_path: Path, broker: list[str]) -> None:
        (tmp_path / "prompts").mkdir()
        (tmp_path / "prompts" / "a.yaml").write_text("dialect: jinja\nprompt: a\n")
        (tmp_path / "prompts" / "b.yaml").write_text("dialect: jinja\nprompt: '{{'\n")
        result = run("config", "push", tmp_path / "prompts", *broker)
        assert result.returncode == 2
        assert "b.yaml /prompt" in result.stderr
        assert not (tmp_path / "broker.db").exists()

    def test_nothing_is_pushed_where_an_example_fails(self, tmp_path: Path, broker: list[str]) -> None:
        (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "b"))
        result = run("config", "push", tmp_path, *broker)
        assert result.returncode == 2
        assert "list.prompt:4:24 /reads/0/name: list: one: the value differs" in result.stderr
        assert result.stderr.endswith("\nnothing was pushed\n")
        assert not (tmp_path / "broker.db").exists()
        (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "a"))
        assert run("config", "push", tmp_path, *broker).returncode == 0
        got = json.loads(run("config", "get", "template.list", *broker).stdout)
        assert got == {"dialect": "jinja", "response-type": "json", "many": True, "prompt": "List."}

    def test_of_several_errors_the_first_was_told_as_if_it_were_all(
        self, tmp_path: Path, broker: list[str]
    ) -> None:
        for name in ("one", "two"):
            text = LIST.replace("PLACE", "b").replace("prompt list", f"prompt {name}")
            (tmp_path / f"{name}.prompt").write_text(text)
        pushed = run("config", "push", tmp_path, *broker)
        assert pushed.stderr.endswith("\nnothing was pushed; `trustgraph-prompt check` shows 1 more error\n")

        export = tmp_path / "export.json"
        export.write_text(json.dumps({f"template.{name}": {"dialect": "tex"} for name in "abc"}))
        served = run("run", "--templates", export, "--provider", SCRIPTED, *broker)
        assert served.returncode == 2
        assert served.stderr.endswith("\n`trustgraph-prompt check` shows 5 more errors\n")

    def test_nothing_is_deleted_where_one_key_is_unknown(self, tmp_path: Path, broker: list[str]) -> None:
        (tmp_path / "hello.yaml").write_text("dialect: jinja\nprompt: hello\n")
        run("config", "push", tmp_path / "hello.yaml", *broker)
        result = run("config", "delete", "template.hello", "template.hullo", *broker)
        assert result.returncode == 1
        assert "template.hullo" in result.stderr
        result = run("config", "delete", "hello", *broker)
        assert "a prompt's key is template.hello" in result.stderr
        assert run("config", "list", *broker).stdout.split() == ["default/template.hello"]


WRONG: dict[str, tuple[list[str], str]] = {
    "an unknown command": (["exttract"], "exttract"),
    "an unknown option": (["render", "x", "--colour"], "--colour"),
    "no file": (["extract"], "FILE"),
    "no provider": (["ask", "question"], "--base-url"),
    "an unknown provider": (["ask", "question", "--provider", "magic:x"], "scripted:PATH"),
    "a recording that is not there": (["ask", "question", "--provider", "scripted:none.jsonl"], "none.jsonl"),
    "an unknown prompt": (["render", "extract-definition"], "did you mean extract-definitions"),
    "a prompt like no other": (["render", "x"], "the prompts are agent-kg-extract"),
    "a term given twice": (["render", "question", "-t", "query=x", "-t", "query=y"], "twice"),
    "the chunk as a term": (["extract", __file__, "-t", "text=x"], "--term text"),
    "two who answer": (
        ["ask", "question", "--provider", "scripted:x", "--model", "x"],
        "--model: has no effect with --provider",
    ),
    "no topic": (["config", "list", "--topic", "foo"], "--topic"),
    "a workspace without a name": (["config", "list", "-w", ""], "--workspace"),
    "a workspace with a slash": (["config", "push", "x", "-w", "a/b"], "--workspace"),
    "a broker in memory": (["config", "list", "--broker", "embedded:"], "embedded:PATH"),
    "a term without a value": (["render", "question", "--term", "query"], "--term"),
    "a term from a file that is not there": (["render", "question", "-t", "query=@none"], "none"),
    "a term that is no JSON": (["render", "question", "-t", "query:={"], "query"),
    "templates that are not there": (["render", "question", "--templates", "none"], "none"),
    "a broker that is none": (["config", "list", "--broker", "kafka:x"], "pulsar://"),
    "an answer that is not there": (["read", "none.txt", "--format", "json"], "none.txt"),
    "an unknown format": (["read", "none.txt", "--format", "xml"], "jsonl"),
    "flows that are not there": (["run", "--flows", "none"], "none"),
    "a broker in a folder that is not there": (
        ["run", "--broker", "embedded:nodir/c.db", "--provider", SCRIPTED],
        "embedded:nodir/c.db: no such directory",
    ),
    "in TrustGraph's place, a server without a model": (
        ["run", "--trustgraph", "--broker", "embedded:", "--base-url", "http://127.0.0.1:9/v1"],
        "--model NAME",
    ),
    "in TrustGraph's place, a config topic of ours": (
        ["run", "--trustgraph", "--topic", "persistent://tg/config/other"],
        "--topic: has no effect with --trustgraph: TrustGraph's config service has the prompts",
    ),
    "an extractor that TrustGraph has not": (
        ["run", "--trustgraph", "--broker", "embedded:", "--extractor", "kg-extract-definition"],
        "--extractor: there is no such extractor, did you mean 'kg-extract-definitions'?",
    ),
    "an extractor of nobody": (
        ["run", "--broker", "embedded:", "--extractor", "kg-extract-definitions"],
        "--extractor: has no effect without --trustgraph",
    ),
    "beside nobody": (["run", "--trustgraph", "--broker", "embedded:", "--into", "trial"], "--into: "),
    "beside, under a name that is none": (
        ["run", "--trustgraph", "--extractor", "kg-extract-definitions", "--into", "a/b"],
        "--into: not a topic name",
    ),
    "beside, under no name": (
        ["run", "--trustgraph", "--extractor", "kg-extract-definitions", "--into", ""],
        "--into: is empty",
    ),
    "a space of nobody": (["run", "--space", "x", "--broker", "embedded:"], "--space: "),
    "a space that is none": (["run", "--trustgraph", "--space", "a/b"], "--space: "),
    "topics in a space of nobody": (["topics", "check", "--space", "x"], "--space: "),
    "an error that is none": (
        ["dead", "list", "--error", "unknown-promt"],
        "--error: there is no such error, did you mean 'unknown-prompt'?",
    ),
    "an error like no other": (["dead", "replay", "--all", "--error", "nonsense"], "one of broker-error"),
    "a port without a host": (
        ["run", "--broker", "embedded:", "--http", "8000", "--provider", SCRIPTED],
        "HOST:PORT",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(case: str, tmp_path: Path) -> None:
    arguments, told = WRONG[case]
    result = run(*arguments, folder=tmp_path)
    assert result.returncode == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_check_tells_all_that_is_wrong_with_a_file_and_which_forms_a_key_may_have(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("dialect: jinja\nprompt: a\ncache: 1h\nattempts: 99\nrepair: maybe\n")
    result = run("check", tmp_path / "a.yaml")
    assert result.returncode == 2
    assert "/cache: it has none of the allowed forms" in result.stderr
    assert "expected true or false; or the key seconds)" in result.stderr
    assert "/attempts: it is too large (found 99, expected at most 10)" in result.stderr
    assert "/repair" in result.stderr
    assert result.stderr.count("error  ") == 3


@pytest.mark.parametrize("place", [[], ["--trustgraph"]], ids=["ours", "in-TrustGraphs-place"])
def test_an_entry_of_an_export_that_is_wrong_is_said_before_a_worker_begins(
    tmp_path: Path, place: list[str]
) -> None:
    (tmp_path / "export.json").write_text(json.dumps({"template.a": json.dumps({"prompt": "{{"})}))
    worker = ["run", *place, "--broker", "embedded:", "--provider", SCRIPTED, "--templates", "export.json"]
    result = run(*worker, folder=tmp_path)
    assert result.returncode == 2
    assert "template.a /prompt" in result.stderr


def test_a_schema_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "objct"}')
    result = run("read", "-", "--format", "json", "--schema", "schema.json", folder=tmp_path, input="{}")
    assert result.returncode == 2
    assert "schema.json /type" in result.stderr


def test_a_file_for_the_key_that_is_empty_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    server = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]
    result = run(
        "ask", "question", "-t", "question=why?", *server, folder=tmp_path, OPENAI_API_KEY_FILE="key"
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: key: the file is empty")


def test_who_names_no_broker_is_told_how_to(tmp_path: Path) -> None:
    result = run("config", "list", folder=tmp_path)
    if result.returncode == 0:
        pytest.skip("there is a Pulsar on this machine")
    assert result.returncode == 1
    assert "--broker embedded:PATH" in result.stderr


def test_a_broker_that_is_away_ends_with_1(tmp_path: Path) -> None:
    result = run("config", "list", "--broker", f"embedded:{tmp_path}/no/such/folder/broker.db")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert "no such" in result.stderr
    assert "Traceback" not in result.stderr


def test_check_says_where_a_question_ends_with_what_its_answer_must_be_and_render_shows_it(
    tmp_path: Path,
) -> None:
    schema = 'schema Peak:\n    name: string\n    height: float  "In metres."\n\n'
    (tmp_path / "peaks.prompt").write_text(
        f'{schema}prompt peaks expecting Peak[] as jsonl:\n    text: "Which?"\n'
    )
    entry = {"dialect": "jinja", "prompt": "Which?", "response-type": "json", "schema": {"required": ["a"]}}
    (tmp_path / "export.json").write_text(json.dumps({"template.a": entry}))
    checked = run("check", tmp_path / "peaks.prompt", tmp_path / "export.json")
    assert checked.returncode == 0
    says = "does not say that the answer has the"
    assert f"peaks.prompt:6:11: the text of peaks {says} keys `name`, `height`, so" in checked.stderr
    assert f"export.json template.a: the text of a {says} key `a`, so" in checked.stderr
    assert checked.stdout.count("OK ") == 2
    (verdict,) = json.loads(run("check", tmp_path / "peaks.prompt", "--json").stdout)
    assert verdict["ok"]
    assert "{{ answer_format }}" in verdict["warnings"][0]

    shown = run("render", "peaks", "--templates", tmp_path / "peaks.prompt").stdout
    assert "\nWhich?\n\nAnswer with JSON objects" in shown
    assert '\n- "height" (number): In metres.\n' in shown


def test_check_names_the_numbers_and_dates_that_are_not_looked_up(tmp_path: Path) -> None:
    schema = "schema Person:\n    name: string @from(text)\n    born: date\n    year: int?\n\n"
    prompt = (
        'prompt people expecting Person[] as jsonl:\n    terms: {text: ""}\n    text: "Who? {{ text }}"\n'
    )
    (tmp_path / "people.prompt").write_text(schema + prompt)
    checked = run("check", tmp_path / "people.prompt")
    assert checked.returncode == 0
    assert "people does not look up the keys `born`, `year` in the text" in checked.stderr


def test_check_names_keys_of_things_in_the_graph_that_are_not_looked_up(tmp_path: Path) -> None:
    schema = "schema Person:\n    name: string @from(text)\n    place: string\n    job: string\n\n"
    prompt = (
        'prompt people expecting Person[] as jsonl:\n    terms: {text: ""}\n    text: "Who? {{ text }}"\n'
        "    graph: [{entity: {subject: name, properties: {place: {entity: true}, job: {}}}}]\n"
    )
    (tmp_path / "people.prompt").write_text(schema + prompt)
    checked = run("check", tmp_path / "people.prompt")
    assert checked.returncode == 0
    assert "people makes things of the key `place` in the graph, and does not look up" in checked.stderr


def test_check_refuses_a_term_of_the_reserved_name(tmp_path: Path) -> None:
    (tmp_path / "p.prompt").write_text('prompt p:\n    terms: {answer_format: "x"}\n    text: "Which?"\n')
    result = run("check", tmp_path / "p.prompt")
    assert result.returncode == 2
    assert "p.prompt:2:28 /terms/answer_format: the term `answer_format` is reserved" in result.stderr


PEAKS = """
schema Peak:
    name: string @from(text)
    "height in m": float?

prompt peaks expecting Peak[] as jsonl:
    text: "Which peaks, by name? {{ text }}"
"""
GRAPH_LINE = 'graph: [{entity: {subject: "name", properties: {"height in m": {}}}}]'

WRONG_GUESSES = {
    "a text after the prompt": (["ask", "peaks", "a.txt"], "term: --term text=@a.txt"),
    "a text after the prompt to render": (["render", "peaks", "a.txt"], "term: --term text=@a.txt"),
    "a text instead of a prompt": (["ask", "a.txt"], "the text as --term text=@a.txt"),
    "a prompt file as a prompt": (["ask", "peaks.prompt"], "give --templates peaks.prompt"),
    "a prompt before the documents": (["extract", "peaks", "a.txt"], "given as --prompt peaks"),
    "a prompt that is not there": (
        ["ask", "mountains"],
        "the prompts are peaks. Others come from --templates PATH",
    ),
    "a misspelt prompt": (["ask", "peak"], "did you mean peaks?"),
    "no graph": (
        ["extract", "a.txt", "--prompt", "peaks", "--graph", "g.html"],
        f"such as\n    {GRAPH_LINE}",
    ),
    "an ontology to check": (["check", "org.ttl"], "name it in a flow file, as `ontology: org.ttl`"),
    "an ontology as a flow": (["run", "--flows", "org.ttl"], "this is an ontology"),
    "a prompt file as a flow": (["run", "--flows", "peaks.prompt"], "give it as --templates peaks.prompt"),
    "a text to check": (["check", "a.txt"], "a.txt: cannot be checked (found 'Etna.', expected a flow"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG_GUESSES.values(), ids=WRONG_GUESSES)
def test_a_wrong_guess_is_answered_with_what_to_type(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "peaks.prompt").write_text(PEAKS)
    (tmp_path / "org.ttl").write_text("@prefix : <https://example.org/> .")
    (tmp_path / "a.txt").write_text("Etna.")
    templates = ["--templates", "peaks.prompt"] if arguments[0] in ("ask", "render", "extract") else []
    model = ["--provider", SCRIPTED] if arguments[0] not in ("render", "check") else []
    result = run(*arguments, *templates, *model, folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr


def test_the_line_that_makes_a_graph_can_be_pasted(tmp_path: Path) -> None:
    (tmp_path / "peaks.prompt").write_text(PEAKS.replace("    text:", f"    {GRAPH_LINE}\n    text:"))
    checked = run("check", tmp_path / "peaks.prompt")
    assert (checked.returncode, "OK " in checked.stdout) == (0, True)
