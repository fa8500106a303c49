"""`extract` with a prompt that quotes first: what is asked again, what is written, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run

PROMPT = """
schema Fact:
    quote: string @quote(text) "The words that say it, copied."
    subject: string @from(text)
    object: string @from(text)

prompt facts expecting Fact[] as jsonl: "Facts of {{ text }}"
    attempts: 2
    graph: [{entity: {subject: "subject", properties: {object: {predicate: "urn:in"}}}}]
"""
TEXT = "The Rhine rises\nin the Alps. It ends in the sea."
WRONG = {"quote": "The Rhine springs up", "subject": "Rhine", "object": "Alps"}
ENDS = {"quote": "It ends in … the sea", "subject": "Rhine", "object": "sea"}
RISES = {"quote": "the rhine rises in the alps", "subject": "Rhine", "object": "Alps"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/facts.prompt").write_text(PROMPT)
    (tmp_path / "d.txt").write_text(TEXT)
    answers = [[WRONG, {**ENDS, "quote": "it … the sea"}], [RISES]]
    lines = ["\n".join(map(json.dumps, each)) for each in answers]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps({"answer": each}) + "\n" for each in lines))
    return tmp_path


def extract(folder: Path, *options: str) -> dict[str, Any]:
    words = (
        "extract",
        "d.txt",
        "--templates",
        "prompts",
        "--prompt",
        "facts",
        "--provider",
        "scripted:r.jsonl",
    )
    result = run(*words, *options, "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_quotes_are_written_in_the_words_of_the_text(folder: Path) -> None:
    extract(folder, "-o", "o.jsonl", "--rdf", "o.nq")
    kept = lines_of(folder / "o.jsonl")
    assert [each["object"] for each in kept] == [
        {**ENDS, "quote": "It … the sea"},
        {**RISES, "quote": "The Rhine rises in the Alps"},
    ]
    assert [next(iter(each["object"])) for each in kept] == ["quote", "quote"]
    assert [each["grounding"]["/quote"]["spans"] for each in kept] == [[[29, 31], [40, 47]], [[0, 27]]]
    statements = (folder / "o.nq").read_text()
    assert '#exact> "The Rhine rises\\nin the Alps"' in statements
    assert '#exact> "It"' in statements
    assert '#exact> "the sea"' in statements
    assert '#exact> "Alps"' not in statements  # the value of a fact is shown in its quote
