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
from typing import Any

import pytest
import typer.main

from tests.support.command import PROGRAM, ROOT, environment, run
from trustgraph_prompt.cli.app import app
from trustgraph_prompt.cli.lazy_commands import LazyCommand

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "runbook").glob("*.md"))]


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


def test_the_readme_looks_at_an_answer_that_is_there() -> None:
    [line] = [line for line in commands(README) if line[0] == "read"]
    result = run(*line, folder=ROOT)
    assert (result.returncode, result.stdout.count("\n")) == (0, 2)
    assert "2 refused; truncated" in result.stderr


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


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
    program = next(block for block in blocks(README, "python") if "PromptRequest" in block)
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
        changes = [line for line in commands(README) if line[0] in ("config", "check")]
        results = [run(*line, folder=tmp_path) for line in changes]
    response = json.loads(answer.stdout)
    assert response["error"] is None
    assert json.loads(response["object"])[0]["entity"] == "chalk"
    assert [result.returncode for result in results] == [0] * len(changes)
    assert any("default/template.volcanoes" in result.stdout for result in results)


def test_the_chunk_of_the_guide_gives_its_objects(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    flow = next(block for block in blocks(guide, "yaml") if "kind: chunk" in block)
    (tmp_path / "definitions.yaml").write_text(flow, encoding="utf-8")
    program = next(block for block in blocks(guide, "python") if "Chunk" in block)
    with worker(next(line for line in commands(guide) if "definitions.yaml" in line), tmp_path):
        reader = subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        try:
            assert reader.stdout is not None
            lines = [reader.stdout.readline() for _ in range(4)]
        finally:
            reader.kill()
            reader.communicate()
    assert all(line.startswith("chalk/1 {") for line in lines)
    assert {json.loads(line.partition(" ")[2])["entity"] for line in lines} >= {"chalk", "Needles"}
