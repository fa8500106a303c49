"""Objects as CSV and Parquet: a column for each key, also of nested objects, and for the origin."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.object_tables import MOST_COLUMNS, ORIGIN, OTHERS, table_writer

ENGINE = {"name": "Difference Engine", "maker": {"name": "Babbage", "born": 1791}, "parts": ["cog", 2]}
MACHINES: list[Any] = [ENGINE, {"name": "Z3", "year": 1941, "works": True, "weight": 1.5}]


def written(folder: Path, name: str, *objects: Any, bare: bool = False) -> Path:
    origin = {"prompt": "p", "file": "a.txt", "sha256": "0", "chunk": 1, "start": 0, "page": 2}
    lines = [each if bare else {**origin, "object": each, "grounding": {"/name": None}} for each in objects]
    (folder / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write = table_writer(Path(name), bare=bare)
    assert write is not None
    write(folder / "lines", folder / name)
    return folder / name


def csv_rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [*csv.DictReader(lines)]


def parquet_rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
    return rows


def test_csv_has_nested_keys_lists_and_origin_in_columns(tmp_path: Path) -> None:
    first, second = csv_rows(written(tmp_path, "machines.CSV", *MACHINES))
    keys = ["name", "maker.name", "maker.born", "parts", "year", "works", "weight"]
    assert [*first] == [*keys, *ORIGIN]
    assert [first[key] for key in keys[:4]] == ["Difference Engine", "Babbage", "1791", '["cog", 2]']
    assert [second[key] for key in keys[4:]] == ["1941", "true", "1.5"]
    assert (second["maker.name"], first["file"], first["chunk"], first["page"]) == ("", "a.txt", "1", "2")
    assert json.loads(first["grounding"]) == {"/name": None}


def test_parquet_has_the_types_of_the_values(tmp_path: Path) -> None:
    file = written(tmp_path, "machines.parquet", *MACHINES, {"year": 1.5, "name": 3, "works": None})
    types = {field.name: str(field.type) for field in pyarrow.parquet.read_schema(file)}
    assert [types[name] for name in ("name", "year", "works", "maker.born", "page", "heading")] == [
        *("string", "double", "bool", "int64", "int64", "string")
    ]
    rows = parquet_rows(file)
    assert [row["name"] for row in rows] == ["Difference Engine", "Z3", "3"]
    assert [row["year"] for row in rows] == [None, 1941.0, 1.5]
    assert json.loads(rows[0]["parts"]) == ["cog", 2]


def test_bare_table_has_the_keys_alone(tmp_path: Path) -> None:
    assert [*csv_rows(written(tmp_path, "o.csv", {"file": "mine"}, bare=True))[0]] == ["file"]
    assert parquet_rows(written(tmp_path, "o.parquet", {"file": "mine"}, bare=True)) == [{"file": "mine"}]


def test_table_without_objects_has_the_columns_of_the_origin(tmp_path: Path) -> None:
    assert written(tmp_path, "o.csv").read_text() == ",".join(ORIGIN) + "\n"
    assert parquet_rows(written(tmp_path, "o.parquet")) == []


def test_keys_that_would_share_a_column_keep_their_values(tmp_path: Path) -> None:
    [row] = csv_rows(written(tmp_path, "o.csv", {"file": "mine", "a": {"b": 1}, "a.b": 2}))
    assert (row["object.file"], row["file"], row["a.b"], row["a.b_"]) == ("mine", "a.txt", "1", "2")
    [row] = csv_rows(written(tmp_path, "o.csv", ["no", "object"]))
    assert row["object"] == '["no", "object"]'


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-40", "-40"),
        ("+4.5e3", "+4.5e3"),
        ("-", "'-"),
        ('a\nb,"c"', 'a\nb,"c"'),
        ("\0 \ud800", "\ufffd ?"),
        ({}, "{}"),
        (2**60, str(2**60)),
    ],
)
def test_cell_of_csv_is_no_formula_and_loses_nothing(tmp_path: Path, value: Any, cell: str) -> None:
    assert csv_rows(written(tmp_path, "o.csv", {"v": value}))[0]["v"] == cell


def test_parquet_takes_any_text_and_any_number(tmp_path: Path) -> None:
    values = [2**60, 0.5, "\ud800", {"\ud800": 1}]
    rows = parquet_rows(written(tmp_path, "o.parquet", *({"v": value} for value in values)))
    assert [row["v"] for row in rows] == [str(2**60), "0.5", "?", None]
    assert rows[3]["v.?"] == 1


def test_keys_beyond_the_most_used_share_a_column(tmp_path: Path) -> None:
    many = {f"k{number}": number for number in range(MOST_COLUMNS)}
    first, second = csv_rows(written(tmp_path, "o.csv", {"name": "a", **many}, {"name": "b"}))
    assert len(first) <= MOST_COLUMNS + len(ORIGIN)
    assert {key: int(first[key]) for key in many if key in first} | json.loads(first[OTHERS]) == many
    assert (second["name"], second[OTHERS]) == ("b", "")


def test_writer_is_none_for_other_suffixes_than_those_of_tables() -> None:
    assert table_writer(Path("o.jsonl"), bare=False) is None
    assert table_writer(Path("csv"), bare=False) is None


def test_parquet_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ConfigError, match=r"--output o\.parquet: .*pip install 'trustgraph-prompt\[parquet\]'"
    ):
        table_writer(Path("o.parquet"), bare=False)
