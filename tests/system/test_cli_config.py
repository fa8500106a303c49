"""`config push`, `list`, `get`, `delete` and `watch` as processes, on a broker in a file."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.support.command import ROOT, SCRIPTED, run, started
from tests.system.test_cli_check import LIST
from trustgraph_prompt.broker import connect


@pytest.fixture
def broker(tmp_path: Path) -> list[str]:
    return ["--broker", f"embedded:{tmp_path / 'broker.db'}"]


def test_keys_and_reports_are_printed_without_terminal_escapes(tmp_path: Path, broker: list[str]) -> None:
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


def test_pushed_entries_are_listed_got_and_deleted(tmp_path: Path, broker: list[str]) -> None:
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


def test_reading_commands_make_no_broker_file(tmp_path: Path, broker: list[str]) -> None:
    for look in (["list"], ["get", "system"], ["delete", "system"], ["watch"]):
        result = run("config", *look, *broker)
        assert result.returncode == 1
        assert "no such broker file" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_entries_of_one_workspace_are_not_found_in_another(tmp_path: Path, broker: list[str]) -> None:
    (tmp_path / "hello.yaml").write_text("dialect: jinja\nprompt: hello\n")
    run("config", "push", tmp_path / "hello.yaml", "--workspace", "other", *broker)
    assert run("config", "get", "template.hello", *broker).returncode == 1
    assert run("config", "get", "template.hello", "-w", "other", *broker).returncode == 0
    [listed] = run("config", "list", *broker).stdout.split()
    assert run("config", "get", listed, *broker).returncode == 0
    assert run("config", "delete", listed, "-w", "other", *broker).returncode == 0


def test_nothing_is_pushed_where_a_workspace_would_have_too_many_prompts(
    tmp_path: Path, broker: list[str]
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
    assert "workspace default would have too many prompts (found '1,001', expected at most" in result.stderr
    assert len(run("config", "list", *broker).stdout.split()) == 990


def test_push_warns_of_conflicts_with_entries_already_there(tmp_path: Path, broker: list[str]) -> None:
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


def test_canary_push_makes_no_broker_file(tmp_path: Path, broker: list[str]) -> None:
    result = run("config", "push", ROOT / "templates", "--canary", "10%", *broker)
    assert (result.returncode, result.stdout) == (1, "")
    assert "no such broker file" in result.stderr
    assert not Path(broker[1].removeprefix("embedded:")).exists()


def test_nothing_is_pushed_where_one_prompt_is_wrong(tmp_path: Path, broker: list[str]) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "a.yaml").write_text("dialect: jinja\nprompt: a\n")
    (tmp_path / "prompts" / "b.yaml").write_text("dialect: jinja\nprompt: '{{'\n")
    result = run("config", "push", tmp_path / "prompts", *broker)
    assert result.returncode == 2
    assert "b.yaml /prompt" in result.stderr
    assert not (tmp_path / "broker.db").exists()


def test_nothing_is_pushed_where_an_example_fails(tmp_path: Path, broker: list[str]) -> None:
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


def test_first_of_several_errors_says_how_many_more_check_shows(tmp_path: Path, broker: list[str]) -> None:
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


def test_nothing_is_deleted_where_one_key_is_unknown(tmp_path: Path, broker: list[str]) -> None:
    (tmp_path / "hello.yaml").write_text("dialect: jinja\nprompt: hello\n")
    run("config", "push", tmp_path / "hello.yaml", *broker)
    result = run("config", "delete", "template.hello", "template.hullo", *broker)
    assert result.returncode == 1
    assert "template.hullo" in result.stderr
    result = run("config", "delete", "hello", *broker)
    assert "a prompt's key is template.hello" in result.stderr
    assert run("config", "list", *broker).stdout.split() == ["default/template.hello"]
