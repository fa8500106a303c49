"""Puts merged cells, titles and several header rows of tables into plain rows, for every format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

from trustgraph_prompt.documents.writer import MAX_CHARACTERS
from trustgraph_prompt.errors import ConfigError

MAX_COLUMNS: Final = 1_000
"""That a cell is wide, as in HTML's standard."""

_MAX_HEADERS: Final = 3
_HEAD: Final = 8
_NUMBER: Final = re.compile(r"(?!(?:19|20)\d\d\Z)[-+−]?[\d.,\s]*\d[%\s]?")
"""What no column is called: a number that is no year."""


class Cell(NamedTuple):
    """A cell as it stands in its row; without a text it is a part of the cell above."""

    text: str | None
    columns: int = 1


class Row(NamedTuple):
    """The texts of a row, and the columns whose cell began in the column before."""

    cells: list[str]
    continued: frozenset[int] = frozenset()


def expanded(rows: Iterable[Iterable[Cell]]) -> Iterator[Row]:
    """Yield rows in which a merged cell stands in each of its rows and columns.

    A cell that is alone in its row stands there once. A row of nothing but parts of the cells above is blank.
    Raises `ConfigError` if that makes too much text.
    """
    above: list[str] = []
    repeated = 0
    for cells in rows:
        texts: list[str] = []
        continued: set[int] = set()
        has_own = False
        for cell in cells:
            is_part = cell.text is None
            text = "".join(above[len(texts) :][:1]) if cell.text is None else cell.text
            columns = max(1, min(cell.columns, MAX_COLUMNS))
            continued.update(range(len(texts) + 1, len(texts) + columns))
            texts += [text] * columns
            has_own |= not is_part and bool(text.strip())
            repeated += (columns - 1 + is_part) * (len(text) + 1)
        check_repeated(repeated)
        above = texts
        yield merged_row(texts, continued, has_own)


def check_repeated(characters: int) -> None:
    """Raise `ConfigError` if merged cells stand for too many characters in other rows and columns."""
    if characters > MAX_CHARACTERS:
        raise ConfigError(f"its merged cells stand for more than {MAX_CHARACTERS:,} characters; split it")


def merged_row(texts: list[str], continued: set[int], has_own: bool) -> Row:
    """Return a row with merged cells, which is blank if all of its text is of the cells above."""
    begun = [text for column, text in enumerate(texts) if column not in continued]
    if has_own and sum(map(bool, begun)) > 1:
        return Row(texts, frozenset(continued))
    return Row(begun if has_own else [])


def headed(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Yield the texts of rows; those of a table's further header rows stand in the first, and are blank."""
    rest = iter(rows)
    for row in rest:
        if not _is_alone(row):
            headers = [row]
            while (
                (below := next(rest, None)) and len(headers) < _MAX_HEADERS and _goes_on(headers[-1], below)
            ):
                headers.append(below)
            yield _names(headers)
            yield from ([] for _ in headers[1:])
            rest = chain((below,) if below else (), rest)
            break
        yield row.cells
    yield from (row.cells for row in rest)


def titled(rows: Iterable[Row]) -> tuple[list[str], Iterator[list[str]]]:
    """Return the titles above a table, and its rows that are not blank, the first of which has the names."""
    rest = (row for row in rows if any(row.cells))
    head = list(islice(rest, _HEAD))
    titles = list(_titles(head))
    return titles, filter(None, headed(chain(head[len(titles) :], rest)))


def _titles(head: list[Row]) -> Iterator[str]:
    """The titles in the first rows: cells that are alone, above names with rows below."""
    count = next((number for number, row in enumerate(head) if not _is_alone(row)), len(head))
    if count < len(head) - 1 and not any(_NUMBER.fullmatch(cell) for cell in head[count].cells):
        yield from ("".join(row.cells) for row in head[:count])


def _is_alone(row: Row) -> bool:
    return sum(map(bool, row.cells)) < 2


def _names(headers: list[Row]) -> list[str]:
    """The names of the columns, with those above: `2020 > Sales`."""
    columns = zip_longest(*(header.cells for header in headers), fillvalue="")
    return [" > ".join(filter(None, dict.fromkeys(names))) for names in columns]


def _goes_on(header: Row, below: Row) -> bool:
    """Whether a row has the names below the merged cells of a header, and nothing new elsewhere."""
    merged = header.continued | {column - 1 for column in header.continued}
    pairs = enumerate(zip_longest(header.cells, below.cells, fillvalue=""))
    return bool(merged) and all(
        bool(name) if column in merged else not name or not over or name == over
        for column, (over, name) in pairs
    )
