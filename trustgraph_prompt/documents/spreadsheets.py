"""Reads CSV and Excel: each row is a record of `name: value` lines, with the names of the first row."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, time
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.raised_text import LEVELS, Run, joined
from trustgraph_prompt.documents.table_rows import check_repeated, merged_row, titled
from trustgraph_prompt.documents.text import decode_any
from trustgraph_prompt.documents.writer import TextWriter, check_length
from trustgraph_prompt.errors import ConfigError

MAX_CELLS: Final = 10_000_000
"""Of all tables of a file, blank ones and rows included: a cell far out brings millions of them."""

_SAMPLE: Final = 64 * 1024
_STATED: Final = re.compile(r"\"?sep=([^\w\s\"]|\t)\"?\r?\n", re.IGNORECASE)
"""The first line by which a file tells Excel its delimiter."""

_ESCAPED: Final = re.compile(r"(?:^|[,;\t|])\"[^\"]*\\\"(?![,;\t|\"\r\n]|\Z)", re.MULTILINE)
"""A quote in a quoted cell, written `\\\"`: at the end of a cell it would be a backslash."""

_LITERAL: Final = re.compile(r"\\\\|\\(?!\")")
"""Backslashes that escape no quote."""

MAX_AREAS: Final = 100_000
"""Merged cells of a sheet."""

_AREA: Final = re.compile(
    rb'<(?:\w{1,20}:)?mergeCell\s[^<>]{0,100}?ref=["\']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})["\']'
)
_LONGEST_AREA: Final = 200  # bytes of its tag, which may go on in the next piece
_PIECE: Final = 1024 * 1024


class _Area(NamedTuple):
    """A merged cell: its first column from 0, and its last row from 1."""

    column: int
    columns: int
    last_row: int


def read_csv(data: bytes, file: str) -> Document:
    """Read values that are separated by commas, semicolons, tabs or bars."""
    writer = TextWriter()
    text, notes = decode_any(data, file)
    writer.notes += notes
    form: dict[str, Any] = {}
    if _ESCAPED.search(text):
        text, form = _LITERAL.sub(r"\\\\", text), {"escapechar": "\\"}
    stated = _STATED.match(text)
    delimiter = stated[1] if stated else _delimiter(text, form)
    lines = io.StringIO(text[stated.end() :] if stated else text, newline="")
    rows = csv.reader(lines, delimiter=delimiter, **form)
    try:
        _write_rows(writer, ([cell.strip() for cell in row] for row in rows))
    except csv.Error as error:
        raise ConfigError(f"line {rows.line_num}: {error}; is a quote not closed?") from error
    return writer.document(file, "csv")


def read_xlsx(data: bytes, file: str) -> Document:
    """Read the sheets, each below its name; a cell with a formula has the value that was last computed."""
    writer = TextWriter()
    cells = _Cells()
    with ZipFile(io.BytesIO(data)) as archive:
        for sheet in _sheets(data):
            writer.section(1, sheet.title)
            rows, areas = cells.rows(sheet), _areas(archive, sheet._worksheet_path)
            _write_rows(writer, _spread(rows, areas) if areas else rows)
    return writer.document(file, "xlsx")


def _sheets(data: bytes) -> list[Any]:
    """The sheets of a workbook, each once: they are read to the end when a workbook is opened."""
    from openpyxl.reader.excel import ExcelReader

    class EachSheetOnce(ExcelReader):
        def read_worksheets(self) -> None:
            once = {relation.target: sheet for sheet, relation in reversed([*self.parser.find_sheets()])}
            self.parser.sheets = [*reversed(once.values())]
            super().read_worksheets()

    reader = EachSheetOnce(io.BytesIO(data), read_only=True, data_only=True, keep_links=False, rich_text=True)
    reader.read()
    return reader.wb.worksheets


class _Cells:
    """The cells of all sheets as text, counted one by one: many may have the same long text."""

    def __init__(self) -> None:
        self._count = 0
        self._characters = 0

    def rows(self, sheet: Any) -> Iterator[list[str]]:
        sheet.reset_dimensions()  # a file may state any
        for row in sheet.iter_rows(values_only=True):
            self._add(1 + len(row))
            yield [self._text(value) for value in row]

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > MAX_CELLS:
            raise ConfigError(f"has more than {MAX_CELLS:,} cells; split it")

    def _text(self, value: object) -> str:
        if isinstance(value, list):  # of pieces that look different
            self._add(len(value))
        text = _shown(value).strip()
        self._characters += len(text)
        check_length(self._characters)
        return text


def _areas(archive: ZipFile, path: str) -> dict[int, list[_Area]]:
    """The merged cells of a sheet, by their first row."""
    from openpyxl.utils import column_index_from_string

    areas = defaultdict(list)
    with archive.open(path) as file:
        kept, count = b"", 0
        while piece := file.read(_PIECE):
            kept += piece
            end = 0
            for found in _AREA.finditer(kept):
                end = found.end()
                first, last = (column_index_from_string(found[group].decode()) for group in (1, 3))
                areas[int(found[2])].append(_Area(first - 1, last - first + 1, int(found[4])))
                count += 1
            if count > MAX_AREAS:
                raise ConfigError(f"has more than {MAX_AREAS:,} merged cells in a sheet; split it")
            kept = kept[max(end, len(kept) - _LONGEST_AREA) :]
    return areas


def _spread(rows: Iterable[list[str]], areas: dict[int, list[_Area]]) -> Iterator[list[str]]:
    """The rows of a sheet, in which each merged cell stands in each of its rows and columns."""
    merged: dict[_Area, str] = {}
    repeated = 0
    for number, row in enumerate(rows, 1):
        has_own, begun = any(row), areas.get(number, ())
        if not has_own and not begun:
            yield []
            continue
        merged = {area: text for area, text in merged.items() if area.last_row >= number}
        merged |= {area: "".join(row[area.column :][:1]) for area in begun}
        continued: set[int] = set()
        for area, text in merged.items():
            between = [""] * (area.column - len(row))
            repeated += len(between) + area.columns * (len(text) + 1)
            check_repeated(repeated)
            row += between
            row[area.column : area.column + area.columns] = [text] * area.columns
            continued.update(range(area.column + 1, area.column + area.columns))
        yield merged_row(row, continued, has_own)


def _write_rows(writer: TextWriter, rows: Iterable[list[str]]) -> None:
    """Write the rows that are not blank, each with the names of the columns; a single row is plain text."""
    titles, filled = titled(rows)
    for level, title in enumerate(titles, 2):
        writer.section(level, title)
        writer.add(title)
    names = [" ".join(name.split()) for name in next(filled, [])]
    is_alone = True
    for row in filled:
        is_alone = False
        pairs = enumerate(zip_longest(names, row, fillvalue=""), 1)
        lines = (f"{name or f'column {number}'}: {value}" for number, (name, value) in pairs if value)
        writer.record(lines)
    if is_alone and names:
        writer.record([" | ".join(filter(None, names))])


def _delimiter(text: str, form: dict[str, Any]) -> str:
    """The delimiter with which most of the first rows have as many cells as the first one."""
    sample = text[:_SAMPLE]

    def score(delimiter: str) -> tuple[int, int]:
        rows = list(islice(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, **form), 50))
        width = len(rows[0]) if rows else 0
        return (sum(len(row) == width for row in rows) if width > 1 else 0, width)

    return max(",;\t|", key=score)


def _shown(value: object) -> str:
    """A cell as text: a date without a time of day has none."""
    if value is None:
        return ""
    if isinstance(value, list):  # of texts that look different
        return joined(map(_run, value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return str(value)


def _run(part: Any) -> Run:
    font = getattr(part, "font", None)
    return Run(str(part), LEVELS.get(getattr(font, "vertAlign", None) or "", 0))
