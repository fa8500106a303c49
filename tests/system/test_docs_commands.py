"""What the README and the guides tell people to type is what the command understands, and it works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
import typer.main

from tests.support.command import DOCUMENT, PROGRAM, ROOT, SCRIPTED, environment, run
from tests.support.guides import DOCS, GUIDES, guide_page
from trustgraph_prompt.cli.app import app
from trustgraph_prompt.cli.lazy_commands import LazyCommand

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *GUIDES, *sorted((DOCS / "runbook").glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """The command lines of a page, without what comes after `&&` and the like."""
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("trustgraph-prompt "):
                yield shlex.split(line, comments=True)[1:]


LINES = [(page.name, line) for page in PAGES for line in commands(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {' '.join(line)}" for page, line in LINES])
def test_every_command_line_is_understood(page: str, line: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    while line and line[0] in getattr(command, "commands", ()):
        name, *line = line
        command = command.commands[name]
        command = command.load() if isinstance(command, LazyCommand) else command
    assert command.name
    if "--help" not in line and "--install-completion" not in line:
        command.make_context("trustgraph-prompt", list(line))


def test_the_readme_reads_a_cut_answer(capsys: pytest.CaptureFixture[str]) -> None:
    program = next(block for block in blocks(README, "python") if "import Contract, read" in block)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[{'entity': 'chalk', 'definition': 'a soft rock'}] True\n"


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_between_the_pages_leads_somewhere() -> None:
    pages = [*PAGES, *ROOT.glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
    for page in pages:
        for file, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)]*)\)", prose(page)):
            if not file.startswith("http"):
                target = (page.parent / file).resolve() if file else page
                assert target.exists(), f"{page.name}: {file}"
                assert not anchor or anchor in anchors(target), f"{page.name}: {file}#{anchor}"


def test_every_page_is_in_the_navigation_of_the_site_and_in_the_index() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in GUIDES:
        name = page.relative_to(DOCS).as_posix()
        assert name in navigation, f"mkdocs.yml: {name} is missing"
        assert f"]({name})" in index, f"docs/README.md: {name} is missing"


@contextmanager
def worker(line: list[str], folder: Path) -> Iterator[None]:
    """The worker of the README, once it is at work."""
    process = subprocess.Popen(
        [str(PROGRAM), *line], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for log in process.stderr:
            if json.loads(log)["message"] == "starting":
                break
        yield
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_the_worker_of_the_readme_answers_its_request_and_follows_its_change(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    (tmp_path / "mine").mkdir()
    (prompt,) = re.findall(r"^````text\n(.*?)^````$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine" / "volcanoes.prompt").write_text(prompt, encoding="utf-8")
    program = block_with(guide_page("running.md").read_text(encoding="utf-8"), "python", "PromptRequest")
    start = next(line for line in commands(README) if line[0] == "run")
    start[start.index("--http") + 1] = "127.0.0.1:0"
    with worker(start, tmp_path):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        [send] = [line for line in commands(README) if line[0] == "send"]
        sent = run(*send, folder=tmp_path)
        changes = [line for line in commands(README) if line[0] in ("config", "check")]
        results = [run(*line, folder=tmp_path) for line in changes]
    response = json.loads(answer.stdout)
    assert response["error"] is None
    assert json.loads(response["object"])[0]["entity"] == "chalk"
    assert list(map(json.loads, sent.stdout.splitlines())) == json.loads(response["object"])
    assert len(sent.stdout.splitlines()) == 4
    assert [result.returncode for result in results] == [0] * len(changes)
    assert any("template.volcanoes" in result.stdout for result in results)


@contextmanager
def printing(program: str, folder: Path, *arguments: str) -> Iterator[IO[str]]:
    """What a program of a guide prints, which runs until it is stopped."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        process.kill()
        process.communicate()


def guide_of(name: str, folder: Path) -> str:
    """A guide, whose commands are to run in the folder with the demo."""
    (folder / "demo").symlink_to(ROOT / "demo")
    return guide_page(name).read_text(encoding="utf-8")


def block_with(guide: str, language: str, text: str) -> str:
    return next(block for block in blocks(guide, language) if text in block)


def start_with(guide: str, text: str, command: str = "run") -> list[str]:
    """The command line that starts the worker of the guide with this text in an argument."""
    return next(line for line in commands(guide) if line[0] == command and text in " ".join(line))


def test_the_estimate_of_the_guide_is_what_the_command_prints(tmp_path: Path) -> None:
    command, _, shown = block_with(guide_of("cost.md", tmp_path), "console", "--estimate").partition("\n")
    printed = run(*shlex.split(command.removeprefix("$ trustgraph-prompt ")), folder=tmp_path)
    assert (printed.returncode, printed.stdout) == (0, shown)


def test_the_chunk_of_the_guide_gives_its_objects(tmp_path: Path) -> None:
    guide = guide_of("running.md", tmp_path)
    (tmp_path / "definitions.yaml").write_text(block_with(guide, "yaml", "kind: chunk"), encoding="utf-8")
    with (
        worker(start_with(guide, "definitions.yaml"), tmp_path),
        printing(block_with(guide, "python", "Chunk"), tmp_path) as output,
    ):
        lines = [output.readline() for _ in range(4)]
    assert all(line.startswith("chalk/1 {") for line in lines)
    assert {json.loads(line.partition(" ")[2])["entity"] for line in lines} >= {"chalk", "Needles"}


def test_the_graph_of_the_guide_is_printed(tmp_path: Path) -> None:
    guide = guide_of("knowledge-graph.md", tmp_path)
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "definitions.yaml").write_text(
        block_with(guide, "yaml", "kind: chunk"), encoding="utf-8"
    )
    subprocess.run(["sh", "-c", block_with(guide, "sh", "sed")], cwd=tmp_path, check=True)
    with (
        worker(start_with(guide, "graph.db"), tmp_path),
        printing(block_with(guide, "python", "print_triples"), tmp_path) as output,
    ):
        lines = [output.readline() for _ in range(42)]
    shown = block_with(guide, "text", "context of").splitlines(keepends=True)
    assert len(shown) == 3
    assert {*shown} <= {*lines}


def test_the_passages_of_the_guide_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = DOCUMENT.read_text(encoding="utf-8").replace("\n", "\r\n")
    (tmp_path / "report.txt").write_text(windows, encoding="utf-8-sig", newline="")
    run("extract", "report.txt", "--provider", SCRIPTED, "-o", "reports.jsonl", folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    program = block_with(guide_page("extract.md").read_text(encoding="utf-8"), "python", "reports.jsonl")
    exec(compile(program, "extract.md", "exec"), {})
    found = capsys.readouterr().out.splitlines()
    assert {"/entity chalk", "/entity Albion", "/subject Globigerina", "/object quicklime"} <= set(found)


def test_the_rows_of_the_guide_are_those_that_it_shows(tmp_path: Path) -> None:
    guide = guide_of("tables.md", tmp_path)
    (tmp_path / "tables.yaml").write_text(block_with(guide, "yaml", "kind: chunk"), encoding="utf-8")
    (tmp_path / "tables.jsonl").write_text(block_with(guide, "json", "answer"), encoding="utf-8")
    with (
        worker(start_with(guide, "tables.jsonl"), tmp_path),
        printing(block_with(guide, "python", "Chunk"), tmp_path) as output,
    ):
        mountains, people = (json.loads(output.readline()) for _ in range(2))
    assert mountains == json.loads(block_with(guide, "json", "source_span"))
    assert people["values"] == [{"name": "Pliny", "role": "author"}]


def test_the_ontology_of_the_guide_has_an_answer_corrected(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    guide = guide_of("ontologies.md", tmp_path)
    (tmp_path / "org.ttl").write_text(block_with(guide, "turtle", "@prefix"), encoding="utf-8")
    (tmp_path / "organizations.yaml").write_text(block_with(guide, "yaml", "kind: chunk"), encoding="utf-8")
    (tmp_path / "organizations.jsonl").write_text(block_with(guide, "json", "answer"), encoding="utf-8")
    shown = block_with(guide, "json", '"subject":"Babbage Ltd"')
    with (
        worker(start_with(guide, "scripted:"), tmp_path),
        printing(block_with(guide, "python", "Chunk"), tmp_path) as output,
    ):
        assert sorted(output.readline() for _ in range(2)) == sorted(shown.splitlines(keepends=True))


def test_the_completion_of_the_guide_is_printed(tmp_path: Path) -> None:
    guide = guide_of("completion-worker.md", tmp_path)
    (tmp_path / "completions.jsonl").write_text(block_with(guide, "json", "answer"), encoding="utf-8")
    with (
        worker(start_with(guide, "scripted:", "complete"), tmp_path),
        printing(block_with(guide, "python", "TopicProvider"), tmp_path) as output,
    ):
        assert output.readline() == "3,403 metres.\n"
