"""Finds what openpyxl does not read when it streams a sheet: merged cells and text boxes."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from xml.etree import ElementTree
from zipfile import ZipFile

from trustgraph_prompt.documents.powerpoint import drawn_text
from trustgraph_prompt.documents.table_rows import Row, check_repeated, merged_row
from trustgraph_prompt.errors import ConfigError

MAX_AREAS: Final = 100_000
"""Merged cells of a sheet."""

_AREA: Final = re.compile(
    rb'<(?:\w{1,20}:)?mergeCell\s[^<>]{0,100}?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"'
)
_LONGEST: Final = 200
_PIECE: Final = 1024 * 1024


class Area(NamedTuple):
    """A merged cell: its first column from 0, and its last row from 1."""

    column: int
    columns: int
    last_row: int


def with_merged_cells(rows: Iterable[list[str]], archive: ZipFile, path: str) -> Iterable[Row]:
    """The rows of a sheet, in which each merged cell stands in each of its rows and columns."""
    areas = _areas(archive, path)
    return _spread(rows, areas) if areas else map(Row, rows)


def drawn_texts(archive: ZipFile, path: str, drawn: set[str]) -> Iterator[str]:
    """The texts of the boxes on a sheet, of each drawing once for all sheets."""
    from pptx.oxml import parse_xml

    folder, name = posixpath.split(path)
    relations = posixpath.join(folder, "_rels", f"{name}.rels")
    for relation in (
        ElementTree.fromstring(archive.read(relations)) if relations in archive.namelist() else ()
    ):
        drawing = posixpath.join("/", folder, relation.get("Target", "")).lstrip("/")
        drawing = posixpath.normpath(drawing)
        if relation.get("Type", "").endswith("/drawing") and drawing not in drawn:
            drawn.add(drawing)
            for body in parse_xml(archive.read(drawing)).iter("{*}txBody"):
                yield drawn_text(body)


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


def _spread(rows: Iterable[list[str]], areas: dict[int, list[Area]]) -> Iterator[Row]:
    merged: dict[Area, str] = {}
    repeated = 0
    for number, row in enumerate(rows, 1):
        has_own, begun = any(row), areas.get(number, ())
        if not has_own and not begun:
            yield Row([])
            continue
        merged = {area: text for area, text in merged.items() if area.last_row >= number}
        merged |= {area: "".join(row[area.column :][:1]) for area in begun}
        continued: set[int] = set()
        for area, text in merged.items():
            repeated += area.columns * (len(text) + 1)
            check_repeated(repeated)
            row += [""] * (area.column - len(row))
            row[area.column : area.column + area.columns] = [text] * area.columns
            continued.update(range(area.column + 1, area.column + area.columns))
        yield merged_row(row, continued, has_own)
