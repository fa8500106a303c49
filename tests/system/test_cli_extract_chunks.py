"""`extract` as a process: how documents are split, what is shown before a chunk, and where objects stand."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import DOCUMENT, SCRIPTED, run
from tests.support.model_server import ModelServer, Reply, streamed


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def summary(*command: str | Path, folder: Path) -> dict[str, Any]:
    result = run(*command, folder=folder)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_another_size_or_overlap_is_asked_about_and_none_of_it_twice(tmp_path: Path) -> None:
    (tmp_path / "nothing.jsonl").write_text('{"answer": "[]"}\n')
    command = ["extract", str(DOCUMENT), "--provider", "scripted:nothing.jsonl", "-o", "o.jsonl", "--json"]
    for options in ([], ["--chunk-size", "400t"], ["--overlap", "10%"], ["--overlap", "80t"]):
        first = summary(*command, *options, folder=tmp_path)
        assert first["from_earlier_runs"] < first["answers"]
        again = summary(*command, *options, folder=tmp_path)
        assert again["from_earlier_runs"] == first["answers"] > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--chunk-size", "2k"], "--chunk-size: is not a size"),
        (["--chunk-size", "99"], "--chunk-size: is too small"),
        (["--overlap", "a third"], "--overlap: is not a size"),
        (
            ["--overlap", "10%", "--term", "context=a"],
            "--term context: is reserved for what precedes the chunk",
        ),
        (["--term", "text=a"], "--term text: is reserved"),
    ],
)
def test_an_option_of_no_use_is_refused_before_anything_is_asked(
    options: list[str], told: str, tmp_path: Path
) -> None:
    result = run("extract", DOCUMENT, "--provider", SCRIPTED, *options, folder=tmp_path)
    assert result.returncode == 2
    assert told in result.stderr
    assert not list(tmp_path.iterdir())


async def test_overlap_is_shown_to_the_model_and_gives_no_objects(
    server: ModelServer, tmp_path: Path
) -> None:
    first, second = (
        f"Ada came to Paris. {'It rained. ' * 5}Bob went.",
        "He never came back to Rome, nor to Oslo.",
    )
    (tmp_path / "story.txt").write_text(f"{first}\n\n{second}")
    said = [
        {"quote": "Ada came to Paris", "entity": "Ada", "definition": "came to Paris"},
        {"quote": "Bob went", "entity": "Bob", "definition": "went"},
        {"quote": "He never came back to Rome", "entity": "Rome", "definition": "to which he never came"},
    ]
    server.reply = lambda body: Reply(streamed("\n".join(map(json.dumps, said))))
    command = [
        *(
            "extract",
            "story.txt",
            "--prompt",
            "extract-definitions",
            "--chunk-size",
            "100",
            "--overlap",
            "30",
        ),
        *("--base-url", f"{server.url}/v1", "--model", "small", "-o", "o.jsonl"),
    ]
    result = await asyncio.to_thread(run, *command, folder=tmp_path, OPENAI_API_KEY="sesame")
    assert result.returncode == 0, result.stderr
    found = [(line["chunk"], line["start"], line["object"]["entity"]) for line in lines(tmp_path / "o.jsonl")]
    assert found == [(1, 0, "Ada"), (1, 0, "Bob"), (2, len(first) + 2, "Rome")]
    asked = [body["messages"][-1]["content"] for body in server.bodies]
    about = {text: [each for each in asked if each.endswith(text)] for text in (first, second)}
    assert not any("<before>" in each for each in about[first])
    assert "<before>\nIt rained. Bob went.\n</before>" in about[second][0]


class TestTexts:
    def test_text_is_kept_where_the_file_is_not_the_text(self, tmp_path: Path) -> None:
        (tmp_path / "plain.txt").write_text("Größe 👩", encoding="utf-8")
        (tmp_path / "marked.txt").write_text("Größe 👧\r\n", encoding="utf-8-sig", newline="")
        (tmp_path / "any.jsonl").write_text(
            json.dumps({"answer": '{"quote": "Größe", "entity": "Größe", "definition": "Größe zwei"}'})
        )
        command = ["extract", "plain.txt", "marked.txt", "--provider", "scripted:any.jsonl", "-o", "o.jsonl"]
        run(*command, folder=tmp_path)
        marked = "Größe 👧\r\n".encode()
        [kept] = (tmp_path / "o.jsonl.texts").iterdir()
        assert (kept.name, kept.read_bytes()) == (f"{hashlib.sha256(marked).hexdigest()}.txt", marked)
        plain = hashlib.sha256((tmp_path / "plain.txt").read_bytes()).hexdigest()
        assert {line["file"]: line["sha256"] for line in lines(tmp_path / "o.jsonl")} == {
            "plain.txt": plain,
            "marked.txt": kept.stem,
        }
        written = kept.stat().st_mtime_ns
        run(*command, str(kept), folder=tmp_path)
        assert {line["file"] for line in lines(tmp_path / "o.jsonl")} == {"plain.txt", "marked.txt"}
        assert kept.stat().st_mtime_ns == written

    def test_text_that_cannot_be_kept_ends_the_run_before_asking(self, tmp_path: Path) -> None:
        (tmp_path / "marked.txt").write_text("Größe", encoding="utf-8-sig")
        (tmp_path / "o.jsonl.texts").write_text("precious")
        result = run("extract", "marked.txt", "--provider", SCRIPTED, "-o", "o.jsonl", folder=tmp_path)
        assert result.returncode == 1
        assert "o.jsonl.texts" in result.stderr
        assert "cannot be written" in result.stderr
        assert (tmp_path / "o.jsonl.texts").read_text() == "precious"
