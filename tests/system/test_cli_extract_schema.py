"""`extract --schema`: objects of a JSON Schema or a class, without a prompt file, also as a table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.support.command import run

QUESTION = "find machines with maker and year"
SCHEMA = {
    "title": "Machine",
    "type": "object",
    "properties": {
        "name": {"type": "string", "x-from": "text"},
        "maker": {"$ref": "#/$defs/Maker"},
        "year": {"type": "integer"},
    },
    "required": ["name"],
    "$defs": {"Maker": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
MODULE = """from dataclasses import dataclass, field

@dataclass
class Maker:
    name: str

@dataclass
class Machine:
    name: str = field(metadata={"x-from": "text"})
    maker: Maker | None = None
    year: int | None = None
"""
ANSWER = '{"name": "Difference Engine", "maker": {"name": "Babbage"}, "year": 1822}\n{"name": "Enigma"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d.txt").write_text("The Difference Engine was designed by Babbage in 1822.")
    (tmp_path / "r.jsonl").write_text(json.dumps({"answer": ANSWER}) + "\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "bad.json").write_text('{"type": "machine"}')
    (tmp_path / "machines.py").write_text(MODULE)
    return tmp_path


def extract(
    folder: Path, schema: str, out: str, *options: str, question: str = QUESTION
) -> dict[str, object]:
    words = ("extract", "d.txt", "--schema", schema, question, "--provider", "scripted:r.jsonl", "-o", out)
    result = run(*words, *options, "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    summary: dict[str, object] = json.loads(result.stdout)
    return summary


@pytest.mark.parametrize("schema", ["schema.json", "machines:Machine"])
def test_objects_are_those_of_the_schema_and_are_kept(folder: Path, schema: str) -> None:
    for earlier in (0, 1):
        summary = extract(folder, schema, "machines.csv")
        assert summary["from_earlier_runs"] == earlier
        assert summary["refused"] == 1
        with (folder / "machines.csv").open(newline="") as lines:
            [row] = csv.DictReader(lines)
        found = (row["name"], row["maker.name"], row["year"], row["file"])
        assert found == ("Difference Engine", "Babbage", "1822", "d.txt")
    assert extract(folder, schema, "machines.csv", question="find engines")["from_earlier_runs"] == 0


def test_other_class_of_the_same_name_is_asked_about_again(folder: Path) -> None:
    extract(folder, "machines:Machine", "machines.parquet")
    (folder / "machines.py").write_text(MODULE.replace("year: int", "year: float"))
    assert extract(folder, "machines:Machine", "machines.parquet")["from_earlier_runs"] == 0
    assert pyarrow.parquet.read_table(folder / "machines.parquet")["year"].to_pylist() == [1822.0]


def test_table_in_the_folder_of_documents_is_no_document(folder: Path) -> None:
    words = ("--schema", "schema.json", QUESTION, "--provider", "scripted:r.jsonl", "--json", "-o")
    (folder / "papers").mkdir()
    (folder / "d.txt").rename(folder / "papers" / "d.txt")
    for out in ("papers/o.csv", "papers/o.csv", "other.jsonl"):
        result = run("extract", "papers", *words, out, folder=folder)
        assert json.loads(result.stdout)["chunks"] == 1, result.stderr


def test_table_that_a_person_changed_is_refused(folder: Path) -> None:
    extract(folder, "schema.json", "machines.csv")
    edited = (folder / "machines.csv").read_text().replace("1822", "1823")
    (folder / "machines.csv").write_text(edited)
    words = ("extract", "d.txt", "--schema", "schema.json", QUESTION, "--provider", "scripted:r.jsonl")
    refused = run(*words, "-o", "machines.csv", folder=folder)
    assert refused.returncode == 2
    assert "is not as `extract` wrote it" in refused.stderr
    assert (folder / "machines.csv").read_text() == edited


@pytest.mark.parametrize(
    ("schema", "question", "options", "told"),
    [
        ("none.json", QUESTION, (), "none.json: cannot be read: No such file"),
        ("none.yaml", QUESTION, (), "none.yaml: cannot be read: No such file"),
        ("machines.py", QUESTION, (), "--schema: names no class, did you mean machines:CLASS?"),
        ("./machines.py", QUESTION, (), "--schema: names no class, did you mean machines:CLASS?"),
        ("machines.Machine", QUESTION, (), "--schema: names no class, did you mean machines:Machine?"),
        ("schema.json", QUESTION, ("--graph", "g.html"), "--schema: makes no graph: write a prompt file"),
        ("machines:None_", QUESTION, (), "cannot be imported: AttributeError"),
        ("nowhere:Machine", QUESTION, (), "ModuleNotFoundError: No module named 'nowhere'"),
        ("machines:field", QUESTION, (), "field: not a type with a JSON Schema"),
        ("schema.json", "d.txt", (), "--schema schema.json: a question follows the schema (found 'd.txt'"),
        ("schema.json", "--json", (), "a question follows the schema (found '--json'"),
        ("schema.json", QUESTION, ("--prompt", "x"), "--schema: makes a prompt of its own"),
        ("d.txt", QUESTION, (), "d.txt: is not JSON"),
        ("schema.json", "find " * 200, ("--prompt", "x"), "makes a prompt"),
        ("list.json", QUESTION, (), "[1]: not a type with a JSON Schema"),
        ("bad.json", QUESTION, (), "--schema bad.json /type: unknown type"),
    ],
)
def test_invalid_schema_or_question_is_refused(
    folder: Path, schema: str, question: str, options: tuple[str, ...], told: str
) -> None:
    words = ("extract", "d.txt", "--schema", schema, question, "--provider", "scripted:r.jsonl", *options)
    refused = run(*words, folder=folder)
    assert refused.returncode == 2, refused.stdout
    assert told in refused.stderr
