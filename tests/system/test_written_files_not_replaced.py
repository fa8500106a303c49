"""What `extract`, `eval` and `graph` replace: nothing that they have not written."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.command import DOCUMENT, ROOT, SCRIPTED, run
from trustgraph_prompt.broker import connect
from trustgraph_prompt.extraction.run_record import RunRecord
from trustgraph_prompt.extraction.state import RECORD

EXTRACT = ("extract", "chalk.txt", "--provider", SCRIPTED, "-o", "out.jsonl")
OUTPUTS = ("--rdf", "graph.ttl", "--neo4j", "neo4j", "--graph", "graph.html", "--report", "report.html")
FILES = ("out.jsonl", "graph.ttl", "neo4j/nodes.csv", "neo4j/relationships.csv", "graph.html", "report.html")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DOCUMENT, tmp_path / "chalk.txt")
    return tmp_path


def without_record(state: Path) -> None:
    """Make a state one of a build that had no record."""

    async def clear() -> None:
        async with await connect(f"embedded:{state}") as broker:
            table = await broker.table(RECORD)
            await table.close()
            producer = await broker.producer(RECORD)
            for key in table.entries:
                await producer.send(b"", key=key)
            await producer.close()

    asyncio.run(clear())


def test_gold_file_is_not_replaced_by_extract(folder: Path) -> None:
    gold = folder / "g.jsonl"
    shutil.copy(ROOT / "demo" / "on-a-piece-of-chalk.gold.jsonl", gold)
    before = gold.read_bytes()
    scored = run("eval", "extract-definitions", "--gold", gold, "--provider", SCRIPTED)
    assert scored.returncode == 0, scored.stderr
    extract = (*EXTRACT[:-1], "g.jsonl")

    refused = run(*extract, folder=folder)
    assert refused.returncode == 2
    assert "g.jsonl.state: holds the answers of `eval` for g.jsonl; give `extract` another" in refused.stderr

    without_record(folder / "g.jsonl.state")
    refused = run(*extract, folder=folder)
    assert refused.returncode == 2
    assert "--output g.jsonl: is not as `extract` wrote it" in refused.stderr
    assert gold.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["folder", "--neo4j", "folder"], "folder: all of it is written by this run"),
        (["folder", "-o", "."], "--output .: is a folder; give the name of a file in it"),
        (["folder", "--provider", "ollama", "--model", "m"], "--provider: unknown provider"),
        (["folder", "--schema", "schema.json", " "], "a question follows the schema"),
    ],
)
def test_extract_refuses_contradictory_outputs_and_options(
    folder: Path, arguments: list[str], says: str
) -> None:
    (folder / "folder").mkdir()
    (folder / "chalk.txt").rename(folder / "folder" / "chalk.txt")
    (folder / "schema.json").write_text('{"type": "object"}')
    scripted = () if "--provider" in arguments else ("--provider", SCRIPTED)

    refused = run("extract", *arguments, *scripted, folder=folder)
    assert refused.returncode == 2, refused.stderr
    assert says in refused.stderr


def test_state_of_extract_is_not_taken_for_one_of_eval(folder: Path) -> None:
    assert run(*EXTRACT, folder=folder).returncode == 0
    shutil.copy(ROOT / "demo" / "on-a-piece-of-chalk.gold.jsonl", folder / "out.jsonl")
    words = ("eval", "extract-definitions", "--gold", "out.jsonl", "--provider", SCRIPTED)
    refused = run(*words, folder=folder)
    assert refused.returncode == 2
    assert "out.jsonl.state: holds the answers of `extract`" in refused.stderr


def test_outputs_of_a_run_are_replaced_by_the_same_run(folder: Path) -> None:
    for _ in range(2):
        result = run(*EXTRACT, *OUTPUTS, folder=folder)
        assert result.returncode == 0, result.stderr
    assert {each for each in FILES if (folder / each).exists()} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_output_that_a_person_changed_is_refused_before_a_question(folder: Path, name: str) -> None:
    assert run(*EXTRACT, *OUTPUTS, folder=folder).returncode == 0
    edited = folder / name
    edited.write_bytes(edited.read_bytes() + b"\n")
    before = edited.read_bytes()

    refused = run(*EXTRACT, *OUTPUTS, folder=folder)
    assert refused.returncode == 2
    assert name in refused.stderr
    assert "move it away" in refused.stderr
    assert "asking" not in refused.stderr
    assert edited.read_bytes() == before

    edited.rename(folder / "mine")
    again = run(*EXTRACT, *OUTPUTS, "--json", folder=folder)
    assert json.loads(again.stdout)["from_earlier_runs"] == 14


@pytest.mark.parametrize(
    ("option", "name"), [("--rdf", "mine.ttl"), ("--neo4j", "mine/nodes.csv"), ("--graph", "mine.html")]
)
def test_hand_written_file_is_refused_although_there_is_a_state(folder: Path, option: str, name: str) -> None:
    assert run(*EXTRACT, folder=folder).returncode == 0
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    target = name.partition("/")[0]
    refused = run(*EXTRACT, option, target, folder=folder)
    assert refused.returncode == 2
    assert f"{name}: exists, and no run with this --output wrote it as it is" in refused.stderr
    assert (folder / name).read_text() == "mine"


def test_output_of_a_build_without_a_record_is_replaced_if_the_state_has_it(folder: Path) -> None:
    assert run(*EXTRACT, folder=folder).returncode == 0
    state, out = folder / "out.jsonl.state", folder / "out.jsonl"
    without_record(state)
    again = run(*EXTRACT, "--json", folder=folder)
    assert (again.returncode, json.loads(again.stdout)["from_earlier_runs"]) == (0, 14)

    without_record(state)
    out.write_bytes(out.read_bytes().replace(b"Albion", b"England"))
    before = out.read_bytes()
    assert run(*EXTRACT, folder=folder).returncode == 2
    assert out.read_bytes() == before


def test_outputs_and_state_can_be_moved_together(folder: Path) -> None:
    assert run(*EXTRACT, *OUTPUTS, folder=folder).returncode == 0
    moved = folder.rename(folder.with_name("moved"))
    again = run(*EXTRACT, *OUTPUTS, "--json", folder=moved)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["from_earlier_runs"] == 14


def test_file_is_a_runs_own_from_when_it_was_written_until_a_person_edits_it(tmp_path: Path) -> None:
    def may_replace() -> bool:
        return RunRecord(tmp_path / "out.state", "extract", "--output").may_replace(out)

    record = RunRecord(tmp_path / "out.state", "extract", "--output")
    out, other = tmp_path / "graph.ttl", tmp_path / "other.ttl"
    other.write_text("written")
    record.wrote(other)
    out.write_text("by hand, after the run was killed")
    assert not may_replace()
    out.write_text("written")
    assert not may_replace()
    record.wrote(out)
    assert may_replace()
    out.write_text("edited")
    assert not may_replace()


def test_part_that_no_run_wrote_is_not_overwritten(folder: Path) -> None:
    (folder / "out.jsonl.part").write_text("mine")
    (folder / "graph.nq.part").write_text("mine")
    refused = run(*EXTRACT, folder=folder)
    assert refused.returncode == 2
    assert "out.jsonl.part, which no run has written" in refused.stderr
    assert (folder / "out.jsonl.part").read_text() == "mine"
    (folder / "out.jsonl.part").unlink()
    assert run(*EXTRACT, "--store", "graph", folder=folder).returncode == 0
    assert run("graph", "export", "--store", "graph", "graph.nq", folder=folder).returncode == 0
    assert (folder / "graph.nq.part").read_text() == "mine"


def test_pairs_with_columns_of_a_person_are_not_replaced(folder: Path) -> None:
    assert run(*EXTRACT, "--store", "graph", folder=folder).returncode == 0
    resolve = ("graph", "resolve", "--store", "graph", "--open", "pairs.csv")
    assert run(*resolve, folder=folder).returncode == 0
    pairs = folder / "pairs.csv"
    assert run(*resolve, "--decided", "pairs.csv", folder=folder).returncode == 0
    header, *rows = pairs.read_text("utf-8-sig").splitlines()
    pairs.write_text("\n".join([f"{header},my notes", *(f"{row},?" for row in rows)]))
    before = pairs.read_bytes()
    refused = run(*resolve, "--decided", "pairs.csv", folder=folder)
    assert refused.returncode == 2
    assert "my notes" in refused.stderr
    assert pairs.read_bytes() == before


class TestAChangedDocument:
    def test_changed_document_replaces_its_earlier_text_in_the_store(self, folder: Path) -> None:
        store = (*EXTRACT, "--store", "graph")
        assert run(*store, folder=folder).returncode == 0
        text = (folder / "chalk.txt").read_text()
        (folder / "chalk.txt").write_text(f"{text}\n")
        changed = run(*store, folder=folder)
        assert changed.returncode == 0, changed.stderr
        assert "chalk.txt: its text has changed, and replaces" in changed.stderr
        (folder / "new").mkdir()
        shutil.copy(folder / "chalk.txt", folder / "new")
        assert run(*store, folder=folder / "new").returncode == 0
        graphs = [
            run("graph", "export", "--store", "graph", "all.nq", folder=each)
            and sorted_lines(each / "all.nq")
            for each in (folder, folder / "new")
        ]
        assert graphs[0] == graphs[1]
        assert "replaces" not in run(*store, folder=folder).stderr

    def test_changed_document_replaces_the_text_of_a_build_without_a_record(self, folder: Path) -> None:
        store = (*EXTRACT, "--store", "graph")
        assert run(*store, folder=folder).returncode == 0
        without_record(folder / "out.jsonl.state")
        (folder / "chalk.txt").write_text(f"{(folder / 'chalk.txt').read_text()}\n")
        assert "replaces" in run(*store, folder=folder).stderr
        stats = run("graph", "stats", "--store", "graph", "--json", folder=folder)
        assert json.loads(stats.stdout)["documents"] == 1

    def test_changed_document_leaves_one_of_the_same_name_in_another_folder(self, folder: Path) -> None:
        store = (*EXTRACT, "--store", folder / "graph")
        assert run(*store, folder=folder).returncode == 0
        (folder / "other").mkdir()
        (folder / "other" / "chalk.txt").write_text(f"{DOCUMENT.read_text()}\n")
        for _ in range(2):
            other = run(*store, folder=folder / "other")
            assert (other.returncode, "replaces" in other.stderr) == (0, False)
        stats = run("graph", "stats", "--store", "graph", "--json", folder=folder)
        assert json.loads(stats.stdout)["documents"] == 2


def sorted_lines(file: Path) -> list[str]:
    return sorted(file.read_text(encoding="utf-8").splitlines())


class TestKeptAnswersThatNoLongerFit:
    def test_unfit_answers_are_counted_with_the_reason_before_a_question(self, folder: Path) -> None:
        words = (*EXTRACT, "--prompt", "extract-definitions")
        assert "no longer fit" not in run(*words, folder=folder).stderr
        (folder / "chalk.txt").write_text((folder / "chalk.txt").read_text().replace("chalk", "CHALK", 1))
        estimated = run(*words, "--estimate", folder=folder)
        told = "1 kept answer no longer fits: the texts of files, or which files are read, have changed\n"
        assert estimated.stderr == told
        asked = run(*words, folder=folder)
        assert asked.stderr.startswith(told)
        assert "no longer fit" not in run(*words, folder=folder).stderr

    def test_unfit_answers_of_a_build_without_a_record_have_any_reason(self, folder: Path) -> None:
        assert run(*EXTRACT, folder=folder).returncode == 0
        without_record(folder / "out.jsonl.state")
        told = run(*EXTRACT, "--chunk-size", "900", "--estimate", folder=folder).stderr
        assert told.splitlines()[0].endswith(
            "answers no longer fit: the texts of files, or which files are read, or the model, a --term "
            "or the size of chunks, have changed"
        )

    def test_unfit_answers_name_a_prompt_that_has_changed(self, folder: Path) -> None:
        shutil.copy(ROOT / "templates" / "extract-definitions.prompt", folder / "mine.prompt")
        words = (*EXTRACT, "--templates", "mine.prompt", "--prompt", "extract-definitions")
        assert run(*words, folder=folder).returncode == 0
        text = (folder / "mine.prompt").read_text()
        (folder / "mine.prompt").write_text(
            text.replace("{{ answer_format }}", "Be exact. {{ answer_format }}")
        )
        told = "7 kept answers no longer fit: the prompt extract-definitions has changed\n"
        assert run(*words, "--estimate", folder=folder).stderr == told

    def test_unfit_answers_name_another_model_and_another_chunk_size(self, folder: Path) -> None:
        assert run(*EXTRACT, folder=folder).returncode == 0
        server = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")
        words = ("extract", "chalk.txt", "-o", "out.jsonl", *server, "--chunk-size", "900", "--estimate")
        told = run(*words, folder=folder).stderr
        assert told.startswith("14 kept answers no longer fit: the model was scripted:")
        assert told.splitlines()[0].endswith("; --chunk-size was 2000")

    def test_unfit_answers_of_other_files_are_not_mentioned_where_nothing_is_asked(
        self, folder: Path
    ) -> None:
        shutil.copy(DOCUMENT, folder / "other.txt")
        (folder / "other.txt").write_text(f"{DOCUMENT.read_text()} Chalk.")
        both = run("extract", "other.txt", *EXTRACT[1:], folder=folder)
        assert both.returncode in (0, 1)
        assert "no longer fit" not in run(*EXTRACT, folder=folder).stderr


def test_estimate_refuses_a_path_that_is_no_store_and_makes_no_store(folder: Path) -> None:
    (folder / "empty").mkdir()
    refused = run(*EXTRACT, "--estimate", "--store", "chalk.txt", folder=folder)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "chalk.txt: is not a graph store" in refused.stderr
    for store in ("empty", "new"):
        assert run(*EXTRACT, "--estimate", "--store", store, folder=folder).returncode == 0
    assert not (folder / "new").exists()
    assert [*(folder / "empty").iterdir()] == []


def test_file_whose_name_is_not_utf_8_is_written_and_replaced(folder: Path) -> None:
    out = folder / os.fsdecode(b"o\xff.jsonl")
    extract = (*EXTRACT[:-1], out, "--json")
    assert run(*extract, folder=folder).returncode == 0
    assert run(*extract, folder=folder).returncode == 0

    out.write_bytes(b"{}\n")
    assert "is not as `extract` wrote it" in run(*extract, folder=folder).stderr
