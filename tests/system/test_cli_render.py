"""`render` as a process: the messages of a prompt with its terms."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import run


def test_render_prints_system_message_and_question() -> None:
    result = run("render", "extract-definitions", "--term", "text=Chalk is soft.")
    assert result.returncode == 0
    assert result.stdout.startswith("[system]\n")
    assert "Chalk is soft." in result.stdout.partition("[prompt]\n")[2]


def test_render_takes_terms_from_files_and_as_json(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("words\n")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "list.yaml").write_text(
        "dialect: jinja\nprompt: '{{ text }}{% for n in numbers %}[{{ n }}]{% endfor %}'\n"
    )
    terms = ["--term", "text=@note.txt", "--term", "numbers:=[1, 2]"]
    result = run("render", "list", "--templates", "prompts", *terms, "--json", folder=tmp_path)
    assert json.loads(result.stdout)["prompt"] == "words\n[1][2]"


def test_render_warns_of_missing_and_unknown_terms() -> None:
    result = run("render", "extract-topics", "--term", "txt=Chalk.")
    assert result.returncode == 0
    assert "does not use the term txt; its terms: text" in result.stderr
    assert "--term text=" in result.stderr
    assert run("render", "extract-topics", "--term", "text=Chalk.").stderr == ""
