"""`extract` and `ask` with prompts that show the model examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run

PROMPTS = """
schema Stone:
    name: string

prompt stones expecting Stone[] as jsonl:
    system: "Give the name of each stone."
    text: "{{ text }}"
    example "two":
        show: true
        terms: {text: "Flint lies in marl."}
        reads: [{name: "flint"}, {name: "marl"}]
"""
MANY = f"{json.dumps({'name': 'flint'})}\n{json.dumps({'name': 'chalk'})}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A document, prompts, and a recording whose first line is for the passage of the example."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "stones.prompt").write_text(PROMPTS)
    (tmp_path / "notes.txt").write_text("Chalk is soft.\n")
    lines = [{"contains": "Flint", "answer": '{"name": "wrong"}'}, {"contains": "Chalk", "answer": MANY}]
    (tmp_path / "model.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def extract(folder: Path, *options: str) -> dict[str, Any]:
    result = run(
        *("extract", "notes.txt", "--templates", "prompts", "--prompt", "stones", "-o", "o.jsonl", "--json"),
        *("--provider", "scripted:model.jsonl", *options),
        folder=folder,
    )
    assert result.returncode == 0, result.stderr
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


def test_recording_is_looked_up_by_the_question_and_echoes_are_refused(folder: Path) -> None:
    summary = extract(folder)
    found = (folder / "o.jsonl").read_text().splitlines()
    assert [json.loads(line)["object"] for line in found] == [{"name": "chalk"}]
    assert "example of the question" in summary["refusals"][0]


def test_changed_example_asks_again_and_the_same_one_does_not(folder: Path) -> None:
    extract(folder)
    assert extract(folder)["tokens"]["in"] == 0
    prompts = folder / "prompts" / "stones.prompt"
    prompts.write_text(PROMPTS.replace("Flint lies in marl.", "Flint lies in the marl."))
    assert extract(folder)["tokens"]["in"] > 0


def test_estimate_counts_the_tokens_of_examples(folder: Path) -> None:
    shown = extract(folder, "--estimate")
    prompts = folder / "prompts" / "stones.prompt"
    prompts.write_text(PROMPTS.replace("show: true", "answer: '[]'"))
    assert shown["low"]["tokens_in"] > extract(folder, "--estimate")["low"]["tokens_in"] + 10


def test_ask_shows_the_examples_too(folder: Path) -> None:
    result = run(
        *("ask", "stones", "--templates", "prompts", "--term", "text=Chalk is soft."),
        *("--provider", "scripted:model.jsonl"),
        folder=folder,
    )
    assert json.loads(result.stdout) == {"name": "chalk"}
