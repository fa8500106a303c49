"""Writes objects as a table, CSV or Parquet, from their JSON lines: a row for each, a column for each key."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]
"""Cells by column."""

ORIGIN: Final[Mapping[str, type]] = {
    **dict.fromkeys(("prompt", "file", "sha256"), str),
    **dict.fromkeys(("chunk", "start", "page"), int),
    **dict.fromkeys(("heading", "grounding"), str),
}
"""The columns that say where an object is from, after those of its keys, with their types."""

OTHERS: Final = "other keys"
"""The column of the keys that have no column of their own, as JSON."""

MOST_COLUMNS: Final = 1_000

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_EXACT: Final = 2**53
"""Integers up to here are also exact as floats."""
_ROWS_AT_A_TIME: Final = 10_000


def table_writer(out: Path, *, bare: bool) -> Callable[[Path, Path], None] | None:
    """The function that makes a table of a file of objects, None if the name is not that of a table.

    It takes the JSON lines (with `bare`, without an origin) and the file to write. Raises `ConfigError` if a
    library is missing.
    """
    match out.suffix.lower():
        case ".csv":
            return partial(_write_csv, bare=bare)
        case ".parquet":
            if find_spec("pyarrow") is None:
                raise ConfigError(
                    "Parquet needs the extra `parquet`: pip install 'trustgraph-prompt[parquet]'",
                    where=f"--output {out}",
                )
            return partial(_write_parquet, bare=bare)
    return None


def _write_csv(lines: Path, out: Path, *, bare: bool) -> None:
    columns = list(_kinds(lines, bare=bare))
    with out.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in _rows(lines, columns, bare=bare):
            writer.writerow({column: _csv_text(cell) for column, cell in row.items()})


def _csv_text(cell: Cell) -> str:
    """A cell as text. A spreadsheet takes what begins with `'` as text, and would compute a formula."""
    if not isinstance(cell, str):
        return "" if cell is None else json.dumps(cell)
    text = cell.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write_parquet(lines: Path, out: Path, *, bare: bool) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = _kinds(lines, bare=bare)
    schema = pa.schema([(column, _arrow_type(found)) for column, found in kinds.items()])
    texts = {field.name for field in schema if field.type == pa.string()}
    rows = _rows(lines, list(kinds), bare=bare)
    with parquet.ParquetWriter(out, schema) as writer:
        while batch := list(islice(rows, _ROWS_AT_A_TIME)):
            cells = [
                {name: _text(cell) if name in texts else cell for name, cell in row.items()} for row in batch
            ]
            writer.write_table(pa.Table.from_pylist(cells, schema=schema))


def _text(cell: Cell) -> str | None:
    if cell is None:
        return None
    return (cell if isinstance(cell, str) else json.dumps(cell)).encode(errors="replace").decode()


def _arrow_type(kinds: set[type]) -> pyarrow.DataType:
    """The type of a column with values of these types; text if they have none in common."""
    import pyarrow as pa

    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _kinds(lines: Path, *, bare: bool) -> dict[str, set[type]]:
    """The columns of a table, those of the keys in their first order, with the types of their values."""
    kinds: dict[str, set[type]] = defaultdict(set)
    used = Counter[str]()
    for row in _all_cells(lines, bare=bare):
        used.update(row.keys())
        for column, cell in row.items():
            is_huge = isinstance(cell, int) and abs(cell) > _EXACT
            kinds[column].update(() if cell is None else {str if is_huge else type(cell)})
    keys = dict.fromkeys(column for column, _ in used.most_common(MOST_COLUMNS))
    origin = {} if bare else {column: {kind} for column, kind in ORIGIN.items()}
    columns = {column: found for column, found in kinds.items() if column in keys and column not in origin}
    others: dict[str, set[type]] = {OTHERS: {str}} if len(used) > len(keys) else {}
    return {**columns, **others, **origin}


def _rows(lines: Path, columns: Sequence[str], *, bare: bool) -> Iterator[Row]:
    """The rows of a table with these columns."""
    known = frozenset(columns)
    for row in _all_cells(lines, bare=bare):
        if others := {column: cell for column, cell in row.items() if column not in known}:
            kept = {column: cell for column, cell in row.items() if column in known}
            yield {**kept, OTHERS: json.dumps(others, ensure_ascii=False)}
        else:
            yield row


def _all_cells(lines: Path, *, bare: bool) -> Iterator[Row]:
    with lines.open("rb") as file:
        for line in map(json.loads, file):
            row: dict[str, Cell] = {}
            _add_cells(row, line if bare else line["object"], (), taken=() if bare else ORIGIN)
            yield row if bare else {**row, **{name: _cell(line[name]) for name in ORIGIN if name in line}}


def _add_cells(row: dict[str, Cell], value: Any, path: tuple[str, ...], taken: Container[str]) -> None:
    """Add a value to a row: the keys of nested objects have a column each, joined by dots."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            _add_cells(row, each, (*path, key), taken)
        return
    column = _text(".".join(path)) or "object"
    column = f"object.{column}" if column in taken else column
    while column in row:  # a key may have a dot, too
        column += "_"
    row[column] = _cell(value)


def _cell(value: Any) -> Cell:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
