"""Finds the merged cells of a sheet, which openpyxl does not read when it streams."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from zipfile import ZipFile

from trustgraph_prompt.documents.table_rows import check_repeated, merged_row
from trustgraph_prompt.errors import ConfigError

MAX_AREAS: Final = 100_000
"""Merged cells of a sheet."""

_AREA: Final = re.compile(
    rb'<(?:\w{1,20}:)?mergeCell\s[^<>]{0,100}?ref=["\']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})["\']'
)
_LONGEST: Final = 200
_PIECE: Final = 1024 * 1024


class Area(NamedTuple):
    """A merged cell: its first column from 0, and its last row from 1."""

    column: int
    columns: int
    last_row: int


def with_merged_cells(rows: Iterable[list[str]], archive: ZipFile, path: str) -> Iterable[list[str]]:
    """The rows of a sheet, in which each merged cell stands in each of its rows and columns."""
    areas = _areas(archive, path)
    return _spread(rows, areas) if areas else rows


def _areas(archive: ZipFile, path: str) -> dict[int, list[Area]]:
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
                areas[int(found[2])].append(Area(first - 1, last - first + 1, int(found[4])))
                count += 1
            if count > MAX_AREAS:
                raise ConfigError(f"has more than {MAX_AREAS:,} merged cells in a sheet; split it")
            kept = kept[max(end, len(kept) - _LONGEST) :]
    return areas


def _spread(rows: Iterable[list[str]], areas: dict[int, list[Area]]) -> Iterator[list[str]]:
    merged: dict[Area, str] = {}
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
