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


def test_render_shows_examples_before_the_question(tmp_path: Path) -> None:
    (tmp_path / "rivers.prompt").write_text(
        """
schema River:
    name: string

prompt rivers expecting River[] as jsonl:
    system: "Find rivers by name."
    text: "{{ text }}"
    example "one":
        show: true
        terms: {text: "The Elbe."}
        reads: [{name: "Elbe"}]
"""
    )
    command = ("render", "rivers", "--templates", tmp_path, "--term", "text=The Rhine.")
    result = run(*command)
    answer = '{"name": "Elbe"}'
    assert result.stdout == (
        "[system]\nFind rivers by name.\n\n"
        f"[example]\nThe Elbe.\n\n[answer]\n{answer}\n\n[prompt]\nThe Rhine.\n"
    )
    assert json.loads(run(*command, "--json").stdout) == {
        "system": "Find rivers by name.",
        "examples": [{"prompt": "The Elbe.", "answer": answer}],
        "prompt": "The Rhine.",
    }
