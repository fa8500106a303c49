"""What all commands share: help, version, completion, and how they end after wrong usage."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.command import PROGRAM, SCRIPTED, environment, run

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


def test_version_is_printed() -> None:
    assert run("--version").stdout.startswith("trustgraph-prompt 0.")


def test_shell_completion_names_the_commands() -> None:
    result = run(
        _TRUSTGRAPH_PROMPT_COMPLETE="complete_bash", COMP_WORDS="trustgraph-prompt ex", COMP_CWORD="1"
    )
    assert result.stdout.split() == ["extract"]


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


@pytest.mark.parametrize("place", [[], ["--trustgraph"]], ids=["ours", "in-TrustGraphs-place"])
def test_wrong_entry_of_an_export_ends_run_before_a_worker_begins(tmp_path: Path, place: list[str]) -> None:
    (tmp_path / "export.json").write_text(json.dumps({"template.a": json.dumps({"prompt": "{{"})}))
    worker = ["run", *place, "--broker", "embedded:", "--provider", SCRIPTED, "--templates", "export.json"]
    result = run(*worker, folder=tmp_path)
    assert result.returncode == 2
    assert "template.a /prompt" in result.stderr


def test_invalid_schema_file_is_named(tmp_path: Path) -> None:
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


def test_command_without_a_broker_says_how_to_name_one(tmp_path: Path) -> None:
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
def test_wrong_guess_of_an_option_is_answered_with_what_to_type(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
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
